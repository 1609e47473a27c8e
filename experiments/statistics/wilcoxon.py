"""The signed-rank test of one method against each other one."""

from __future__ import annotations

import pandas as pd
from scipy.stats import wilcoxon


def wilcoxon_against(scores: pd.DataFrame, method: str, *, greater_is_better: bool) -> pd.DataFrame:
    """Compare a method with every other, over tables, two-sided.

    Parameters
    ----------
    scores : DataFrame, tables × methods
    method : str
    greater_is_better : bool

    Returns
    -------
    comparison : DataFrame
        By rival: tables won, lost and tied by `method`, and the p-value of Wilcoxon's signed-rank test (zero
        differences left out, as Wilcoxon did; 1 if there are no others).
    """
    lines = {}
    for rival in scores.columns.drop(method):
        difference = scores[method] - scores[rival]
        if not greater_is_better:
            difference = -difference
        difference = difference.dropna()
        lines[rival] = {
            "won": int((difference > 0).sum()),
            "lost": int((difference < 0).sum()),
            "tied": int((difference == 0).sum()),
            "p": float(wilcoxon(difference, zero_method="wilcox").pvalue) if difference.any() else 1.0,
        }
    return pd.DataFrame.from_dict(lines, orient="index", columns=["won", "lost", "tied", "p"])
