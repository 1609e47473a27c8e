"""Objectives of the other libraries as losses: what `unbiasedgbm.losses` does not already hold.

Some libraries multiply their hessians by a constant (2 in XGBoost's softmax, K/(K−1) in LightGBM's, exp(max_delta_step)
in their Poisson). That is a step size, not a second derivative, so it is left out: the same tree has the same
importance whoever grew it.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from unbiasedgbm.losses import MIN_HESSIAN, FloatArray, LogLoss, Loss


class ScaledLogLoss(Loss):
    """Binary log loss of a raw prediction times ``scale`` (LightGBM's ``sigmoid``)."""

    name = "scaled_log_loss"

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self._log_loss = LogLoss()

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Chain rule on `LogLoss`."""
        g, h = self._log_loss.gradients(y, self.scale * raw)
        return self.scale * g, self.scale**2 * h

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Log loss of the scaled prediction."""
        return self._log_loss.values(y, self.scale * raw)


class OneVsRestLogLoss(Loss):
    """One binary log loss for each class."""

    name = "one_vs_rest_log_loss"

    def __init__(self, n_classes: int, scale: float = 1.0) -> None:
        self.n_outputs = n_classes
        self._binary = ScaledLogLoss(scale)

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives of each binary loss."""
        return self._binary.gradients(self._one_hot(y), raw)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Sum over the classes."""
        return self._binary.values(self._one_hot(y), raw).sum(axis=1)

    def _one_hot(self, y: FloatArray) -> FloatArray:
        return (y[:, None] == np.arange(self.n_outputs)).astype(np.float64)


class IndicatorLoss(Loss):
    """Squared error of the indicators of the classes, ½ Σ_k (p_k − 1[y = k])²: Gini impurity as a loss (forests)."""

    name = "gini"
    constant_hessian = True

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = n_classes

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the residuals and 1."""
        return raw - self._indicators(y, raw), np.ones_like(raw)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Sum over the classes."""
        return 0.5 * ((raw - self._indicators(y, raw)) ** 2).reshape(len(y), -1).sum(axis=1)

    def _indicators(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return (y[:, None] == np.arange(self.n_outputs)).astype(np.float64).reshape(raw.shape)


class ExponentialLoss(Loss):
    """AdaBoost's loss: exp(−F) for class 1, exp(F) for class 0 (scikit-learn's GradientBoostingClassifier)."""

    name = "exponential"

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ∓exp(∓F) and exp(∓F)."""
        h = self.values(y, raw)
        return np.where(y > 0.5, -h, h), np.maximum(h, MIN_HESSIAN)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return exp(∓F)."""
        return np.exp(np.clip(np.where(y > 0.5, -raw, raw), -50.0, 50.0))


class FixedHuberLoss(Loss):
    """Huber loss with a fixed border (LightGBM, CatBoost)."""

    name = "fixed_huber"
    constant_hessian = True

    def __init__(self, delta: float) -> None:
        self.delta = delta

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the clipped residual and 1."""
        return np.clip(raw - y, -self.delta, self.delta), np.ones_like(raw)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return the Huber loss."""
        size = np.abs(y - raw)
        return np.where(size <= self.delta, 0.5 * size**2, self.delta * (size - 0.5 * self.delta))


class PseudoHuberLoss(Loss):
    """Smooth Huber loss δ²(sqrt(1 + (r/δ)²) − 1) (XGBoost)."""

    name = "pseudo_huber"

    def __init__(self, delta: float) -> None:
        self.delta = delta

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return r/√(1+(r/δ)²) and (1+(r/δ)²)^(−3/2)."""
        residual = raw - y
        root = np.sqrt(1.0 + (residual / self.delta) ** 2)
        return residual / root, np.maximum(root**-3, MIN_HESSIAN)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return the loss."""
        return self.delta**2 * (np.sqrt(1.0 + ((raw - y) / self.delta) ** 2) - 1.0)


def class_weights(classes: Any, class_weight: Any) -> Callable[[FloatArray, FloatArray | None], FloatArray]:
    """The estimators' ``class_weight`` ("balanced" or a dictionary) as a function of the training targets."""

    def weights(y: FloatArray, sample_weight: FloatArray | None) -> FloatArray:
        from sklearn.utils.class_weight import compute_class_weight

        labels = np.asarray(classes)
        return np.asarray(compute_class_weight(class_weight, classes=labels, y=labels[y.astype(np.intp)]))

    return weights


def unknown_objective(library: str, objective: Any) -> TypeError:
    """The error for an objective without a known loss."""
    from unbiasedgbm.ensemble.adapters.neutral import UnsupportedModelError

    return UnsupportedModelError(
        f"model: the objective {objective!r} of this {library} model has no known loss. Pass loss=, a callable "
        "(y, raw) -> (g, h) with the first and second derivative at the raw prediction."
    )


def encode_numbers(y: Any) -> FloatArray:
    """Targets as float64; columns beyond the first (query numbers, say) are kept for a user's loss."""
    try:
        encoded = np.ascontiguousarray(np.asarray(y), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers for this model, which keeps no labels: {error}.") from error
    return encoded[:, 0] if encoded.ndim == 2 and encoded.shape[1] == 1 else encoded


def single_column(y: Any) -> Any:
    """Targets as an array of shape (n,), of any type."""
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        raise ValueError(
            f"y must have one column, got an array of shape {values.shape}. Further ones are for a loss of your own, "
            "given as loss=, of a model that keeps no labels."
        )
    return values


def encode_column(y: Any) -> FloatArray:
    """Targets as float64, shape (n,)."""
    return encode_numbers(single_column(y))


def encode_shares(y: Any) -> FloatArray:
    """Targets of a binary model that keeps no labels: 0, 1, or a share of ones between them."""
    encoded = encode_column(y)
    _refuse_labels(encoded, (encoded < 0.0) | (encoded > 1.0), "0 and 1")
    return encoded


def encode_signs(y: Any) -> FloatArray:
    """Targets of a binary LightGBM model that keeps no labels: its positive class is what lies above zero."""
    encoded = encode_column(y)
    negative = -1.0 if (encoded == -1.0).any() else 0.0
    unknown = np.isfinite(encoded) & ~np.isin(encoded, (negative, 1.0))
    _refuse_labels(encoded, unknown, "0 and 1, or as -1 and 1")
    return np.maximum(encoded, 0.0)


class NumberedClasses:
    """Targets of a model that keeps no labels: the numbers of its classes.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def __call__(self, y: Any) -> FloatArray:
        """Class numbers, shape (n,), float64."""
        encoded = encode_column(y)
        unknown = np.isfinite(encoded) & ~np.isin(encoded, np.arange(self.n_classes))
        _refuse_labels(encoded, unknown, f"0 {'and' if self.n_classes == 2 else 'to'} {self.n_classes - 1}")
        return encoded


def _refuse_labels(y: FloatArray, unknown: Any, wanted: str) -> None:
    if unknown.any():
        raise ValueError(
            f"y holds {y[unknown][0]:g}, but this model keeps no labels and knows its classes as {wanted}. Number them "
            "as they were numbered in training."
        )


class ClassEncoder:
    """Labels → class numbers, by the classes that the model learned.

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
    """

    def __init__(self, classes: Any) -> None:
        self.classes = np.asarray(classes)

    def __call__(self, y: Any) -> FloatArray:
        """Class numbers, shape (n,), float64."""
        labels, classes = _comparable(single_column(y), self.classes)
        order = np.argsort(classes)
        position = np.minimum(np.searchsorted(classes, labels, sorter=order), len(classes) - 1)
        numbers = order[position]
        unknown = classes[numbers] != labels
        if unknown.any():
            raise ValueError(f"y holds the label {labels[unknown][0]}, which is not among the model's classes.")
        return numbers.astype(np.float64)


def encoder(classes: Any, custom: bool) -> Callable[[Any], FloatArray]:
    """Labels by the classes of a classifier; numbers of a regressor, those of a user's loss with further columns."""
    if classes is not None:
        return ClassEncoder(classes)
    return encode_numbers if custom else encode_column


def _comparable(labels: Any, classes: Any) -> tuple[Any, Any]:
    """Labels and classes as numbers if all of them are numbers, of whatever type; otherwise as text."""
    numbers = _as_numbers(labels), _as_numbers(classes)
    if all(one.dtype.kind not in "OUS" for one in numbers):
        return numbers
    return labels.astype(str), classes.astype(str)


def _as_numbers(values: Any) -> Any:
    """An array of objects that are numbers as an array of numbers; any other one as it is."""
    if values.dtype.kind == "O" and all(isinstance(value, Real | np.bool_) for value in values):
        return np.array(values.tolist())
    return values
