"""The protocol: what a callback sees, and when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

_WHEN = ("begin", "before_iteration", "after_iteration", "end")


def _no_model() -> Any:
    raise RuntimeError("This training has no model to show.")


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
    resumed : sequence of str
        Sets of rows whose history is this training's own: it goes on from a checkpoint, or from a model that watched
        the same rows.
    model : callable
        ``model()`` is a fitted estimator of the iterations done, a copy that training does not touch.
    """

    iteration: int
    n_estimators: int
    history: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    greater_is_better: Mapping[str, bool] = field(default_factory=dict)
    resumed: Sequence[str] = ()
    model: Callable[[], Any] = _no_model


class Callback(Protocol):
    """Called around every iteration; a method that returns True ends the training.

    Two more methods are called where a callback has them: ``begin(state)`` before the first iteration and
    ``end(state)`` after the last, also when training fails.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> class StopAtThree:
    ...     def before_iteration(self, state):
    ...         return state.iteration >= 3
    ...     def after_iteration(self, state):
    ...         return None
    >>> UnbiasedGBMClassifier().fit(X, y, callbacks=[StopAtThree()]).n_iter_
    3
    """

    def before_iteration(self, state: TrainingState) -> bool | None:
        """Before an iteration."""

    def after_iteration(self, state: TrainingState) -> bool | None:
        """After an iteration."""


class BaseCallback:
    """Does nothing; override what you need."""

    def begin(self, state: TrainingState) -> None:
        """Before the first iteration."""

    def before_iteration(self, state: TrainingState) -> bool | None:
        """Before an iteration."""
        return None

    def after_iteration(self, state: TrainingState) -> bool | None:
        """After an iteration."""
        return None

    def end(self, state: TrainingState) -> None:
        """After the last iteration, however training ended."""


def check_callbacks(callbacks: Any) -> list[Callback]:
    """The callbacks as a list; raises TypeError where one is none."""
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks must be a list of callbacks; got {callbacks!r}.")
    found = list(callbacks)
    for callback in found:
        methods = [getattr(callback, when) for when in _WHEN if hasattr(callback, when)]
        if not methods or isinstance(callback, type) or not all(callable(method) for method in methods):
            raise TypeError(
                "callbacks: a callback is an object with methods before_iteration(state) and after_iteration(state), "
                f"such as those in unbiasedgbm.callbacks; got {callback!r}."
            )
    return found


def call_all(callbacks: Sequence[Callback], when: str, state: TrainingState) -> bool:
    """Call that method of every callback that has it; True if any asks to stop."""
    methods = [getattr(callback, when, None) for callback in callbacks]
    answers = [bool(method(state)) for method in methods if method is not None]
    return any(answers)
