"""Callbacks: what may watch a training and end it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from unbiasedgbm.exceptions import progress_logger


@dataclass
class TrainingState:
    """What a callback sees.

    Attributes
    ----------
    iteration : int
        Iterations done.
    n_estimators : int
        Iterations asked for.
    history : dict
        ``history[set][metric]`` is the list of a metric's values on "training" or "validation", one an iteration.
    greater_is_better : dict
        For each metric.
    """

    iteration: int
    n_estimators: int
    history: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    greater_is_better: Mapping[str, bool] = field(default_factory=dict)


class Callback(Protocol):
    """Called around every iteration; a method that returns True ends the training."""

    def before_iteration(self, state: TrainingState) -> bool | None:
        """Before an iteration."""

    def after_iteration(self, state: TrainingState) -> bool | None:
        """After an iteration."""


class BaseCallback:
    """Does nothing; override what you need."""

    def before_iteration(self, state: TrainingState) -> bool | None:
        """Before an iteration."""
        return None

    def after_iteration(self, state: TrainingState) -> bool | None:
        """After an iteration."""
        return None


class EarlyStopping(BaseCallback):
    """Stops when the first metric on the validation rows has made no progress for a while.

    Parameters
    ----------
    n_iter_no_change : int
    tol : float
        Progress smaller than this is none.

    Attributes
    ----------
    best_iteration : int
        Number of iterations that scored best.
    """

    def __init__(self, n_iter_no_change: int = 20, tol: float = 1e-7) -> None:
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.best_iteration = 0
        self._best = -math.inf
        self._reference = -math.inf
        self._since = 0

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Compare the latest score with the best."""
        metric, values = next(iter(state.history["validation"].items()))
        score = values[-1] if state.greater_is_better[metric] else -values[-1]
        if score > self._best:
            self._best = score
            self.best_iteration = state.iteration
        if score > self._reference + self.tol:
            self._reference = score
            self._since = 0
        else:
            self._since += 1
        return self._since >= self.n_iter_no_change


class LogProgress(BaseCallback):
    """Logs the latest metrics every so many iterations.

    Parameters
    ----------
    every : int
    """

    def __init__(self, every: int = 1) -> None:
        self.every = every

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Log."""
        if state.iteration % self.every == 0 or state.iteration == state.n_estimators:
            parts = [
                f"{name} {metric} {values[-1]:.6g}"
                for name, metrics in state.history.items()
                for metric, values in metrics.items()
            ]
            progress_logger().info("iteration %d of %d: %s", state.iteration, state.n_estimators, ", ".join(parts))
        return None


def call_all(callbacks: Sequence[Callback], when: str, state: TrainingState) -> bool:
    """Call every callback; True if any asks to stop."""
    answers = [bool(getattr(callback, when)(state)) for callback in callbacks]
    return any(answers)
