"""The training loop: iterations, metrics, callbacks, and a clean end when it is interrupted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import Bins
from unbiasedgbm.callbacks import Callback, TrainingState, call_all
from unbiasedgbm.exceptions import InterruptedWarning
from unbiasedgbm.metrics import Metric
from unbiasedgbm.training.booster import Booster, Progress
from unbiasedgbm.training.harvest import GrownTree, Harvest

FloatArray = npt.NDArray[np.float64]

# Where nobody looks on, iterations in which chains of trees need not wait for each other, at most: Ctrl-C forgets them
# all.
_AHEAD = 8


class Watched(Protocol):
    """Rows that metrics are computed of, wherever they are."""

    def advance(self, booster: Booster, grown: Sequence[GrownTree]) -> None:
        """Have the trees of an iteration in the raw predictions."""

    def measure(self, metric: Metric) -> float:
        """A metric at the current raw predictions."""


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

    def advance(self, booster: Booster, grown: Sequence[GrownTree]) -> None:
        """Add the trees of an iteration to the raw predictions."""
        for one in grown:
            booster.add_to(one, self.bins, self.raw)

    def measure(self, metric: Metric) -> float:
        """A metric at the current raw predictions."""
        outputs = self.raw[:, 0] if self.raw.shape[1] == 1 else self.raw
        return metric.compute(self.y, outputs, self.sample_weight)


def boost(
    booster: Booster,
    state: TrainingState,
    metrics: Sequence[Metric],
    watched: Mapping[str, Watched],
    callbacks: Sequence[Callback],
    harvest: Harvest,
) -> None:
    """Iterate until the number asked for is reached, a callback stops, or there is nothing left to learn.

    Ctrl-C ends training, too: the iterations under way are forgotten, those before them are kept.

    Parameters
    ----------
    booster : Booster
    state : TrainingState
        Its history is extended.
    metrics : sequence of Metric
    watched : mapping of str to Watched
        Rows whose metrics are recorded, under these names.
    callbacks : sequence of Callback
    harvest : Harvest
        Takes in the new trees.
    """
    done = _Done.now(booster, state, harvest)
    first = state.iteration
    alone = not watched and not callbacks
    ahead = 1
    try:
        call_all(callbacks, "begin", state)
        while state.iteration < state.n_estimators and not booster.exhausted:
            if call_all(callbacks, "before_iteration", state):
                break
            began = perf_counter()
            iterations = booster.run_ahead(min(ahead, state.n_estimators - state.iteration))
            grown = [tree for trees in iterations for tree in trees]
            harvest.add(grown)
            state.iteration = booster.progress.n_iterations
            for name, rows in watched.items():
                rows.advance(booster, grown)
                _record(state, name, metrics, rows)
            done = _Done.now(booster, state, harvest)
            if call_all(callbacks, "after_iteration", state):
                break
            if alone:
                seconds = (perf_counter() - began) / len(iterations)
                ahead = int(min(max(booster.seconds_ahead / max(seconds, 1e-9), 1), _AHEAD))
    except KeyboardInterrupt:
        done.restore(booster, state, harvest)
        if state.iteration == first:
            raise
        warnings.warn(
            f"Training was interrupted after {state.iteration} iterations, which are kept.",
            InterruptedWarning,
            stacklevel=2,
        )
    finally:
        call_all(callbacks, "end", state)


@dataclass(frozen=True)
class _Done:
    """The end of an iteration, to go back to if the next one is interrupted."""

    progress: Progress
    n_trees: int
    n_recorded: dict[tuple[str, str], int]

    @classmethod
    def now(cls, booster: Booster, state: TrainingState, harvest: Harvest) -> _Done:
        recorded = {(name, metric): len(v) for name, values in state.history.items() for metric, v in values.items()}
        return cls(booster.progress.copy(), harvest.n_trees, recorded)

    def restore(self, booster: Booster, state: TrainingState, harvest: Harvest) -> None:
        booster.progress = self.progress
        state.iteration = self.progress.n_iterations
        harvest.take_back(self.n_trees)
        for name, values in state.history.items():
            for metric, recorded in values.items():
                del recorded[self.n_recorded.get((name, metric), 0) :]


def _record(state: TrainingState, name: str, metrics: Sequence[Metric], rows: Watched) -> None:
    recorded = state.history.setdefault(name, {})
    for metric in metrics:
        recorded.setdefault(metric.name, []).append(rows.measure(metric))
