"""Limits of time and memory, kept at whole iterations."""

from __future__ import annotations

import time
from itertools import pairwise

from unbiasedgbm.callbacks.protocol import BaseCallback, TrainingState
from unbiasedgbm.exceptions import progress_logger
from unbiasedgbm.memory import resident_bytes


class TimeLimit(BaseCallback):
    """Stops before the iteration that would, at the pace of the slowest of the last ten, end too late.

    Parameters
    ----------
    seconds : float
        From the first iteration on; reading and binning the table come before it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> from unbiasedgbm.callbacks import TimeLimit
    >>> model = UnbiasedGBMClassifier(n_estimators=10).fit(X, y, callbacks=[TimeLimit(600)])
    >>> model.n_iter_
    10
    """

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"seconds must be a positive number; got {seconds!r}.")
        self.seconds = seconds
        self._ends: list[float] = []

    def begin(self, state: TrainingState) -> None:
        """Start the clock."""
        self._ends = [time.monotonic()]

    def before_iteration(self, state: TrainingState) -> bool | None:
        """Stop if there is no time for another one."""
        last = self._ends[-11:]
        pace = max((b - a for a, b in pairwise(last)), default=0.0)
        over = time.monotonic() + pace > self._ends[0] + self.seconds
        if over:
            progress_logger().info("time limit of %g s: stopped after %d iterations", self.seconds, state.iteration)
        return over

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Take the time."""
        self._ends.append(time.monotonic())
        return None


class MemoryLimit(BaseCallback):
    """Stops when the process holds more memory than allowed.

    Parameters
    ----------
    n_bytes : int
        Resident memory of the whole process.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> from unbiasedgbm.callbacks import MemoryLimit
    >>> model = UnbiasedGBMClassifier(n_estimators=10).fit(X, y, callbacks=[MemoryLimit(2**40)])
    >>> model.n_iter_
    10
    """

    def __init__(self, n_bytes: int) -> None:
        if not n_bytes > 0:
            raise ValueError(f"n_bytes must be a positive number; got {n_bytes!r}.")
        self.n_bytes = n_bytes

    def before_iteration(self, state: TrainingState) -> bool | None:
        """Look before every iteration."""
        used = resident_bytes()
        if used <= self.n_bytes:
            return False
        progress_logger().info(
            "memory limit: %d MiB in use, %d allowed; stopped after %d iterations",
            used >> 20, self.n_bytes >> 20, state.iteration,
        )  # fmt: skip
        return True
