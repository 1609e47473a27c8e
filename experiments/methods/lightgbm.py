"""LightGBM."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.methods.base import Method, Params, boosting_space, plain_names


class LightGBM(Method):
    """LightGBM; category columns are recognised by their dtype."""

    name = "lightgbm"
    title = "LightGBM"
    package = "lightgbm"
    tuned = True

    def estimator(self, task: str, params: Params, seed: int, threads: int) -> Any:
        """Return the classifier or the regressor."""
        from lightgbm import LGBMClassifier, LGBMRegressor

        kind = LGBMRegressor if task == "regression" else LGBMClassifier
        return kind(random_state=seed, n_jobs=threads, verbose=-1, **params)

    def columns(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the features as this library wants them."""
        return plain_names(X)

    def suggest(self, trial: Any, scale: str) -> dict[str, Any]:
        """Draw from the paper's search space."""
        return {
            **boosting_space(trial, scale),
            "min_child_weight": trial.suggest_float("min_child_weight", 2, 20, log=True),
            "min_split_gain": trial.suggest_float("min_split_gain", 0, 0.1),
        }
