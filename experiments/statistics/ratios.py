"""Ratios over tables of different scale."""

from __future__ import annotations

import numpy as np
import pandas as pd


def geometric_mean_ratio(scores: pd.DataFrame, base: str) -> pd.Series:
    """Geometric mean over tables of each method's score divided by the score of `base`; smaller is better for errors.

    Parameters
    ----------
    scores : DataFrame, tables × methods
        Positive numbers: errors or seconds.
    base : str
    """
    return np.exp(np.log(scores.div(scores[base], axis=0)).mean())
