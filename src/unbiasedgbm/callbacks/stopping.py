"""Early stopping: an end when the rows that are watched show no more progress."""

from __future__ import annotations

import math
import warnings

from unbiasedgbm.callbacks.protocol import BaseCallback, TrainingState


class EarlyStopping(BaseCallback):
    """Stops when the first metric has made no progress for a while.

    Parameters
    ----------
    n_iter_no_change : int
    tol : float
        Progress smaller than this is none.
    rows : {"validation", "training"}, default="validation"
        Whose metric is looked at.

    Attributes
    ----------
    best_iteration : int
        Number of iterations that scored best.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> from unbiasedgbm.callbacks import EarlyStopping
    >>> model = UnbiasedGBMClassifier(n_estimators=10, early_stopping=False)
    >>> stop = EarlyStopping(n_iter_no_change=3, tol=10.0)  # nothing counts as progress
    >>> model.fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:], callbacks=[stop]).n_iter_
    4
    """

    def __init__(self, n_iter_no_change: int = 20, tol: float = 1e-7, rows: str = "validation") -> None:
        if rows not in ("validation", "training"):
            raise ValueError(f"rows must be 'validation' or 'training'; got {rows!r}.")
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.rows = rows
        self._forget()

    def _forget(self) -> None:
        self.best_iteration = 0
        self._best = -math.inf
        self._reference = -math.inf
        self._since = 0

    def begin(self, state: TrainingState) -> None:
        """Forget other trainings; where training goes on, look at its past scores again."""
        self._forget()
        if self.rows in state.resumed:
            values = self._values(state)
            first = state.iteration - len(values)
            for k, score in enumerate(values, start=1):
                self._look_at(score, first + k)

    def before_iteration(self, state: TrainingState) -> bool | None:
        """Stop at once where the training that is resumed had stopped."""
        return self._since >= self.n_iter_no_change

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Compare the latest score with the best."""
        values = self._values(state)
        if not values:
            remedy = "give X_val and y_val to fit" if self.rows == "validation" else "give it to fit itself"
            raise ValueError(f"EarlyStopping needs {self.rows} rows: {remedy}.")
        self._look_at(values[-1], state.iteration)
        stops = self._since >= self.n_iter_no_change
        if stops and all(map(math.isnan, values)):
            self._warn_of_nan(next(iter(state.greater_is_better)))
        return stops

    def _warn_of_nan(self, metric: str) -> None:
        from sklearn.exceptions import UndefinedMetricWarning

        warnings.warn(
            f"scoring: {metric!r} of the {self.rows} rows was not a number in any iteration, and training stops after "
            f"n_iter_no_change={self.n_iter_no_change}; give rows that have one, or another scoring.",
            UndefinedMetricWarning,
            stacklevel=2,
        )

    def _values(self, state: TrainingState) -> list[float]:
        """The first metric's values, greater for better; none of a metric that was not recorded."""
        metric, upwards = next(iter(state.greater_is_better.items()))
        values = state.history.get(self.rows, {}).get(metric, [])
        return values if upwards else [-value for value in values]

    def _look_at(self, score: float, iteration: int) -> None:
        if score > self._best:
            self._best = score
            self.best_iteration = iteration
        if score > self._reference + self.tol:
            self._reference = score
            self._since = 0
        else:
            self._since += 1
