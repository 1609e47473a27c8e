"""Perpetual."""

from __future__ import annotations

from typing import Any

from experiments.methods.base import Method, Params


class Perpetual(Method):
    """Perpetual at ``budget=1.0``; category columns are recognised by their dtype."""

    name = "perpetual"
    title = "Perpetual"
    package = "perpetual"

    def estimator(self, task: str, params: Params, seed: int, threads: int) -> Any:
        """Return the classifier or the regressor."""
        from perpetual import PerpetualClassifier, PerpetualRegressor

        kind = PerpetualRegressor if task == "regression" else PerpetualClassifier
        return kind(**{"budget": 1.0, "seed": seed, "num_threads": threads, **params})
