"""What all variants of UnbiasedGBM share."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd

from experiments.methods.base import Fitted, Method, Params, boosting_space

PAPER: dict[str, Any] = {"learning_rate": 0.04, "n_estimators": 500, "num_leaves": 31, "n_bags": 1}
"""One chain of trees of at most 31 leaves, as in the paper; steps and trees as they are used where nothing is tuned."""


class UnbiasedGBMVariant(Method):
    """UnbiasedGBM with some of its parameters fixed; categories by dtype.

    Attributes
    ----------
    fixed : dict
        Parameters of the variant; everything else is the library's default.
    """

    package = "unbiasedgbm"
    tuned = True
    few_trees: ClassVar[dict[str, Any]] = {"n_estimators": 1}
    fixed: ClassVar[dict[str, Any]] = {}

    def estimator(self, task: str, params: Params, seed: int, threads: int) -> Any:
        """Return the classifier or the regressor."""
        from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor

        kind = UnbiasedGBMRegressor if task == "regression" else UnbiasedGBMClassifier
        return kind(**{"random_state": seed, "n_jobs": threads, **self.fixed, **params})

    def suggest(self, trial: Any, scale: str) -> dict[str, Any]:
        """Draw from the paper's search space."""
        return {
            **boosting_space(trial, scale),
            "min_samples_leaf": trial.suggest_int("min_samples_leaf", 2, 20, log=True),
            "min_split_gain": trial.suggest_float("min_split_gain", -0.1, 0.1),
        }

    def fit(self, task: str, X: pd.DataFrame, y: np.ndarray, params: Params, **how: Any) -> Fitted:
        """Fit on training rows; where a role of a fixed ratio has few, leaves may be smaller than was drawn."""
        ratio = self.fixed.get("role_ratio")
        if ratio is not None and "min_samples_leaf" in params:
            most = int(len(y) * min(ratio) / sum(ratio)) // 4
            params = {**params, "min_samples_leaf": max(1, min(params["min_samples_leaf"], most))}
        return super().fit(task, X, y, params, **how)

    @property
    def version(self) -> str:
        """Our version and a digest of our sources: two states of a development version must not look alike."""
        from experiments.provenance import source_digest
        from unbiasedgbm._version import __version__

        return f"{__version__}+{source_digest('unbiasedgbm')}"
