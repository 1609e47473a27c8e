"""The training loop: iterations, metrics, callbacks, and a clean end when it is interrupted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import Bins
from unbiasedgbm.callbacks import Callback, TrainingState, call_all
from unbiasedgbm.ensemble.trees import Tree
from unbiasedgbm.exceptions import InterruptedWarning
from unbiasedgbm.metrics import Metric
from unbiasedgbm.training.booster import Booster

FloatArray = npt.NDArray[np.float64]


@dataclass
class Validation:
    """Rows that only watch.

    Attributes
    ----------
    bins : Bins
    y : ndarray of shape (n,), float64
    sample_weight : ndarray of shape (n,), float64, or None
    raw : ndarray of shape (n, n_outputs), float64
        Advanced by every iteration.
    """

    bins: Bins
    y: FloatArray
    sample_weight: FloatArray | None
    raw: FloatArray


def boost(
    booster: Booster,
    state: TrainingState,
    metrics: Sequence[Metric],
    validation: Validation | None,
    callbacks: Sequence[Callback],
    watch_training: bool,
) -> list[Tree]:
    """Iterate until the number asked for is reached, a callback stops, or there is nothing left to learn.

    Parameters
    ----------
    booster : Booster
    state : TrainingState
        Its history is extended.
    metrics : sequence of Metric
    validation : Validation or None
    callbacks : sequence of Callback
    watch_training : bool
        Whether the metrics of the training rows are recorded, too.

    Returns
    -------
    list of Tree
        The new trees; Ctrl-C ends training with those of the complete iterations.
    """
    trees: list[Tree] = []
    try:
        while state.iteration < state.n_estimators and not booster.exhausted:
            if call_all(callbacks, "before_iteration", state):
                break
            grown = booster.iterate()
            trees += [one.tree for one in grown]
            state.iteration = booster.progress.n_iterations
            if validation is not None:
                for one in grown:
                    booster.add_to(one, validation.bins, validation.raw)
                _record(state, "validation", metrics, validation.y, validation.raw, validation.sample_weight)
            if watch_training:
                _record(state, "training", metrics, booster.data.y, booster.raw, booster.data.sample_weight)
            if call_all(callbacks, "after_iteration", state):
                break
    except KeyboardInterrupt:
        n_outputs = booster.raw.shape[1]
        trees = trees[: len(trees) // n_outputs * n_outputs]
        warnings.warn(
            f"Training was interrupted after {state.iteration} iterations, which are kept.",
            InterruptedWarning,
            stacklevel=2,
        )
    return trees


def _record(
    state: TrainingState,
    name: str,
    metrics: Sequence[Metric],
    y: FloatArray,
    raw: FloatArray,
    weight: FloatArray | None,
) -> None:
    outputs = raw[:, 0] if raw.shape[1] == 1 else raw
    rows = state.history.setdefault(name, {})
    for metric in metrics:
        rows.setdefault(metric.name, []).append(metric.compute(y, outputs, weight))
