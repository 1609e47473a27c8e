"""Ranks over tables, the Nemenyi test, the critical difference (Demšar 2006)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import rankdata, studentized_range


def ranks(scores: pd.DataFrame, *, greater_is_better: bool) -> pd.DataFrame:
    """Rank the methods on every table: 1 is best, ties share the mean of their ranks.

    Parameters
    ----------
    scores : DataFrame, tables × methods
        Without missing values: a method that failed on a table cannot be ranked there.
    greater_is_better : bool
    """
    if scores.isna().any(axis=None):
        missing = scores.columns[scores.isna().any()].tolist()
        raise ValueError(f"{missing} have no score on some tables; leave those tables or methods out first")
    values = -scores if greater_is_better else scores
    return pd.DataFrame(rankdata(values, axis=1), index=scores.index, columns=scores.columns)


def average_ranks(scores: pd.DataFrame, *, greater_is_better: bool) -> pd.Series:
    """Mean rank of every method over the tables."""
    return ranks(scores, greater_is_better=greater_is_better).mean()


def nemenyi(scores: pd.DataFrame, *, greater_is_better: bool) -> pd.DataFrame:
    """P-values of the Nemenyi test for all pairs of methods, by scikit-posthocs."""
    from scikit_posthocs import posthoc_nemenyi_friedman

    values = scores if greater_is_better else -scores
    p = posthoc_nemenyi_friedman(values.to_numpy())
    return pd.DataFrame(p.to_numpy(), index=scores.columns, columns=scores.columns)


def nemenyi_p(difference: float, methods: int, tables: int) -> float:
    """P-value of a difference between two average ranks."""
    q = abs(difference) / np.sqrt(methods * (methods + 1) / (6 * tables))
    return float(studentized_range.sf(q * np.sqrt(2), methods, np.inf))


def critical_difference(methods: int, tables: int, alpha: float = 0.05) -> float:
    """Difference of average ranks from which on the Nemenyi test rejects at level `alpha`."""
    q = studentized_range.isf(alpha, methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * tables)))
