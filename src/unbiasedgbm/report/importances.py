"""Unbiased gain with its confidence beside plain gain, and what it says in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbiasedgbm.importance import gain_importance, unbiased_gain
from unbiasedgbm.report.rows import ReportRows

LEVEL = 0.95


def importances(model: Any, rows: ReportRows, n_jobs: int | None) -> dict[str, Any]:
    """Importance of every feature, the most important first."""
    tables = (rows.X_train, rows.y_train, rows.X_val, rows.y_val)
    unbiased = unbiased_gain(model, *tables, row_groups_val=rows.row_groups_val, n_jobs=n_jobs)
    gain = gain_importance(model, rows.X_train, rows.y_train, n_jobs=n_jobs)
    gain_rank = np.empty(len(gain.importance), dtype=np.int64)
    gain_rank[gain.ranking()] = np.arange(1, len(gain_rank) + 1)
    adjusted = unbiased.p_adjusted
    features = [
        {
            "j": int(j),
            "name": unbiased.feature_names[j],
            "rank": rank,
            "value": float(unbiased.importance[j]),
            "low": float(unbiased.ci_low[j]),
            "high": float(unbiased.ci_high[j]),
            "p": float(adjusted[j]),
            "gain": float(gain.importance[j]),
            "gain_rank": int(gain_rank[j]),
            "n_splits": int(model._model.progress.n_splits[j]),
            "verdict": verdict(float(adjusted[j]), int(unbiased.n_splits[j])),
        }
        for rank, j in enumerate(unbiased.ranking(), start=1)
    ]
    return {"level": LEVEL, "features": features}


def verdict(p_adjusted: float, n_splits: int) -> str:
    """Say in one word whether a feature helps on unseen rows."""
    if n_splits == 0:
        return "unused"
    return "helps" if p_adjusted <= 1.0 - LEVEL else "unclear"
