"""scikit-learn's histogram gradient boosting."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.methods.base import Method, Params, category_names

LEVEL_LIMIT = 255


class HistGradientBoosting(Method):
    """scikit-learn; categories by dtype, up to its limit of 255 levels. Beyond it a column is handed over as codes."""

    name = "hist_gradient_boosting"
    title = "HistGradientBoosting"
    package = "scikit-learn"

    def estimator(self, task: str, params: Params, seed: int, threads: int) -> Any:
        """Return the classifier or the regressor."""
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        # It has no thread argument; the worker limits its OpenMP threads, see studies.bench.
        kind = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
        return kind(random_state=seed, categorical_features="from_dtype", **params)

    def columns(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the features as this library wants them."""
        wide = [name for name in category_names(X) if len(X[name].cat.categories) > LEVEL_LIMIT]
        return X.assign(**{name: X[name].cat.codes.where(X[name].notna()).astype(float) for name in wide})
