"""ChimeraBoost."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from experiments.methods.base import Method, Params, category_names


class ChimeraBoost(Method):
    """ChimeraBoost at ``quality=3``; categories named by ``cat_features``."""

    name = "chimeraboost"
    title = "ChimeraBoost"
    package = "chimeraboost"
    few_trees: ClassVar[dict[str, Any]] = {"n_estimators": 2}

    def estimator(self, task: str, params: Params, seed: int, threads: int) -> Any:
        """Return the classifier or the regressor."""
        from chimeraboost import ChimeraBoostClassifier, ChimeraBoostRegressor

        kind = ChimeraBoostRegressor if task == "regression" else ChimeraBoostClassifier
        return kind(**{"quality": 3, "random_state": seed, "thread_count": threads, "ensemble_n_jobs": 1, **params})

    def fit_arguments(self, X: pd.DataFrame) -> dict[str, Any]:
        """Name the categories."""
        return {"cat_features": category_names(X)}
