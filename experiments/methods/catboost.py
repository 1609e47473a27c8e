"""CatBoost."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.methods.base import Method, Params, boosting_space, category_names

MISSING = "missing"


class CatBoost(Method):
    """CatBoost; categories as text with a level of its own for missing values, named by ``cat_features``."""

    name = "catboost"
    title = "CatBoost"
    package = "catboost"
    tuned = True

    def estimator(self, task: str, params: Params, seed: int, threads: int) -> Any:
        """Return the classifier or the regressor."""
        from catboost import CatBoostClassifier, CatBoostRegressor

        kind = CatBoostRegressor if task == "regression" else CatBoostClassifier
        return kind(random_seed=seed, thread_count=threads, verbose=False, allow_writing_files=False, **params)

    def columns(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the features as this library wants them."""
        text = {
            name: X[name].astype(object).fillna(MISSING).astype(str).astype("category") for name in category_names(X)
        }
        return X.assign(**text)

    def fit_arguments(self, X: pd.DataFrame) -> dict[str, Any]:
        """Name the categories."""
        return {"cat_features": category_names(X)}

    def suggest(self, trial: Any, scale: str) -> dict[str, Any]:
        """Draw from the paper's search space."""
        return {
            **boosting_space(trial, scale),
            "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 2, 20, log=True),
            "l2_leaf_reg": trial.suggest_float("l2_leaf_reg", 0, 0.1),
        }
