"""XGBoost."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.methods.base import Method, Params, boosting_space, plain_names


class XGBoost(Method):
    """XGBoost with its histogram trees; categories by ``enable_categorical``."""

    name = "xgboost"
    title = "XGBoost"
    package = "xgboost"
    tuned = True

    def estimator(self, task: str, params: Params, seed: int, threads: int) -> Any:
        """Return the classifier or the regressor."""
        from xgboost import XGBClassifier, XGBRegressor

        kind = XGBRegressor if task == "regression" else XGBClassifier
        return kind(enable_categorical=True, random_state=seed, n_jobs=threads, **params)

    def columns(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the features as this library wants them."""
        return plain_names(X)

    def suggest(self, trial: Any, scale: str) -> dict[str, Any]:
        """Draw from the paper's search space."""
        return {
            **boosting_space(trial, scale),
            "min_child_weight": trial.suggest_float("min_child_weight", 2, 20, log=True),
            "gamma": trial.suggest_float("gamma", 0, 0.1),
        }
