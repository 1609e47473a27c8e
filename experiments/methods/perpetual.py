"""Perpetual."""

from __future__ import annotations

import os
from typing import Any

from experiments.methods.base import Method, Params


class Perpetual(Method):
    """Perpetual at ``budget=1.0``; category columns are recognised by their dtype."""

    name = "perpetual"
    title = "Perpetual"
    package = "perpetual"

    def estimator(self, task: str, params: Params, seed: int, threads: int) -> Any:
        """Return the classifier or the regressor."""
        # Parts of it run in a pool that listens to nothing but this, once, when it is first used.
        os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
        from perpetual import PerpetualClassifier, PerpetualRegressor

        kind = PerpetualRegressor if task == "regression" else PerpetualClassifier
        return kind(**{"budget": 1.0, "seed": seed, "num_threads": threads, **params})
