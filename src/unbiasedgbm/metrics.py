"""Metrics during training: the loss, and any scikit-learn scorer, from raw predictions that are already there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer

from unbiasedgbm.losses import Loss

FloatArray = npt.NDArray[np.float64]


class _Answers(BaseEstimator):
    """An estimator that knows its predictions already, so that scorers can be used on them."""

    def __init__(self, raw: FloatArray, loss: Loss) -> None:
        self.raw = raw
        self.loss = loss

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _ClassAnswers(ClassifierMixin, _Answers):
    def __init__(self, raw: FloatArray, loss: Loss, classes: npt.NDArray[Any]) -> None:
        super().__init__(raw, loss)
        self.classes_ = classes

    def predict_proba(self, X: object) -> FloatArray:
        p = self.loss.predict(self.raw)
        return np.column_stack([1 - p, p]) if p.ndim == 1 else p

    def decision_function(self, X: object) -> FloatArray:
        return self.raw

    def predict(self, X: object) -> npt.NDArray[Any]:
        number = (self.raw > 0).astype(np.intp) if self.raw.ndim == 1 else self.raw.argmax(axis=1)
        return self.classes_[number]


class _NumberAnswers(RegressorMixin, _Answers):
    def predict(self, X: object) -> FloatArray:
        return self.loss.predict(self.raw)


@dataclass(frozen=True)
class Metric:
    """A named number computed from raw predictions.

    Attributes
    ----------
    name : str
    greater_is_better : bool
    compute : callable
        ``compute(y, raw, sample_weight) -> float``; y as class numbers or targets.
    values : callable or None
        ``values(y, raw)``, of which the metric is the weighted mean over rows; None for what needs all rows at once.
    """

    name: str
    greater_is_better: bool
    compute: Callable[[FloatArray, FloatArray, FloatArray | None], float]
    values: Callable[[FloatArray, FloatArray], FloatArray] | None = None


def make_metrics(scoring: Any, loss: Loss, classes: npt.NDArray[Any] | None) -> list[Metric]:
    """Metrics from the estimators' ``scoring``.

    Parameters
    ----------
    scoring : "loss", name of a scorer, scorer, or a sequence of them; None for what ``score`` returns
    loss : Loss
    classes : ndarray of class labels, or None for regression
    """
    if scoring is None:
        scoring = "r2" if classes is None else "accuracy"
    if isinstance(scoring, str) or callable(scoring):
        scoring = [scoring]
    if not isinstance(scoring, Sequence) or len(scoring) == 0:
        raise ValueError(f"scoring must be 'loss', a scorer's name, a scorer, or a list of them; got {scoring!r}.")
    metrics = [_make_metric(entry, loss, classes) for entry in scoring]
    names = [metric.name for metric in metrics]
    if len(set(names)) != len(names):
        raise ValueError(f"scoring has a metric twice: {names}.")
    return metrics


def _make_metric(entry: Any, loss: Loss, classes: npt.NDArray[Any] | None) -> Metric:
    if isinstance(entry, str) and entry == "loss":
        return Metric("loss", False, loss.mean, loss.values)
    try:
        if entry is None:
            raise ValueError("None stands alone, not in a list.")
        scorer = get_scorer(entry)
    except ValueError as error:
        raise ValueError(f"scoring: {error}") from error
    name = entry if isinstance(entry, str) else getattr(entry, "__name__", repr(entry))

    def compute(y: FloatArray, raw: FloatArray, sample_weight: FloatArray | None) -> float:
        if classes is None:
            answers: Any = _NumberAnswers(raw, loss)
            target: npt.NDArray[Any] = y
        else:
            answers = _ClassAnswers(raw, loss, classes)
            target = classes[y.astype(np.intp)]
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        # rows without columns: whatever is scored is among the answers
        return float(scorer(answers, np.empty((len(y), 0)), target, **weights))

    return Metric(name, True, compute)
