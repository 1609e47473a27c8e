"""Losses: one class a loss, with its start value, derivatives, link and value.

A loss is written for a raw prediction ``F``: ``g = dl/dF`` and ``h = d²l/dF²`` per row.
Everything here is plain NumPy on blocks of rows; NumPy releases the interpreter lock, so blocks run on threads.

No method weights its result: weights are applied where gradients are packed, so that a weight of two is exactly the row
twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unbiasedgbm.exact import RowStatistics, exact_mean, weighted_quantile

FloatArray = npt.NDArray[np.float64]

# Smallest hessian of a row: keeps Newton steps finite where a probability is 0 or 1 to the last bit.
MIN_HESSIAN = 1e-16

# Loss of a row where it is infinite or not a number.
_TOO_MUCH = 1e200

# exp() of more than this is treated as this: exp(±50) is far outside any useful rate.
_MAX_LOG_RATE = 50.0

# exp() of a little more overflows.
_MAX_EXPONENT = 700.0


class Loss:
    """Base class: what the booster and the importance need to know of a loss.

    Attributes
    ----------
    name : str
        The public name, as accepted by the estimators' ``loss``.
    n_outputs : int
        Raw predictions per row; 1 except for multiclass.
    constant_hessian : bool
        Whether h is 1 for every row.
    unit_dispersion : bool
        Whether the mean of g² equals the mean of h at the truth, so that gains are already in units of the noise.
    rowwise : bool
        Whether the derivatives of a row depend on that row alone.
    bounds : tuple of two floats or None
        Largest |g| and h that there can be, where they are known.
    leaf_level : float or None
        Leaf values are this quantile of the residuals y − F of their rows; None for a Newton step.
    max_step : float
        Longest Newton step: where hessians are small, a quadratic says little of the loss farther away.
    """

    name: ClassVar[str] = ""
    n_outputs: int = 1
    constant_hessian: ClassVar[bool] = False
    rowwise: bool = True
    unit_dispersion: ClassVar[bool] = False
    leaf_level: float | None = None
    max_step: ClassVar[float] = math.inf
    bounds: ClassVar[tuple[float, float] | None] = None

    def check_domain(self, y: FloatArray, name: str = "y") -> None:
        """Raise ValueError, which calls it ``name``, if ``y`` is outside the loss's domain."""

    def check_target(self, y: FloatArray, name: str = "y") -> None:
        """`check_domain`, and raise ValueError if there is no constant to begin from."""
        self.check_domain(y, name)

    def start(self, y: FloatArray, sample_weight: FloatArray | None) -> FloatArray:
        """Best constant raw prediction, shape (n_outputs,)."""
        return self.start_over(RowStatistics(y, y, sample_weight))

    def start_over(self, rows: RowStatistics) -> FloatArray:
        """`start` for rows that may lie anywhere."""
        raise NotImplementedError  # abstract

    def _newton_start(self, rows: RowStatistics, start: FloatArray) -> FloatArray:
        """Up to twenty Newton steps of a constant, each short enough to lower the loss, shape (n_outputs,)."""
        loss = math.nan
        for _ in range(20):
            sums = [
                [rows.total(partial(self._at_constant, start, which, k)) for which in (0, 1)]
                for k in range(self.n_outputs)
            ]
            step = np.array([g / max(h, MIN_HESSIAN) for g, h in sums])
            if math.isnan(loss):
                loss = rows.total(partial(self._value_at_constant, start))
            for _ in range(30):
                lower = rows.total(partial(self._value_at_constant, start - step))
                if lower <= loss:
                    break
                step /= 2.0
            else:
                return start
            start, loss = start - step, lower
        return start

    def _value_at_constant(self, constant: FloatArray, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Loss of each row where all raw predictions are a constant; a large number where it is none."""
        shape = (len(y),) if self.n_outputs == 1 else (len(y), self.n_outputs)
        with np.errstate(all="ignore"):
            found = self.values(y, np.broadcast_to(constant, shape).copy())
        return np.nan_to_num(found, nan=_TOO_MUCH, posinf=_TOO_MUCH).clip(max=_TOO_MUCH)

    def _at_constant(self, constant: FloatArray, which: int, output: int, y: FloatArray, raw: FloatArray) -> FloatArray:
        """First (0) or second (1) derivative of one output where all raw predictions are a constant."""
        shape = (len(y),) if self.n_outputs == 1 else (len(y), self.n_outputs)
        found = self.gradients(y, np.broadcast_to(constant, shape).copy())[which]
        return found if self.n_outputs == 1 else np.ascontiguousarray(found[:, output])

    def prepare(self, y: FloatArray, raw: FloatArray, sample_weight: FloatArray | None) -> None:
        """See all rows once before the gradients of an iteration are asked for in blocks."""
        self.prepare_over(RowStatistics(y, raw, sample_weight))

    def prepare_over(self, rows: RowStatistics) -> None:
        """`prepare` for rows that may lie anywhere."""

    @property
    def prepares(self) -> bool:
        """Whether it learns something of all rows before each iteration."""
        return type(self).prepare_over is not Loss.prepare_over or type(self).prepare is not Loss.prepare

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First and second derivative by the raw prediction, unweighted.

        Parameters
        ----------
        y : ndarray of shape (n,), float64
            Targets; class numbers for classification.
        raw : ndarray of shape (n,) or (n, n_outputs), float64

        Returns
        -------
        g, h : ndarrays of the shape of ``raw``, float64
        """
        raise NotImplementedError  # abstract

    def fill_gradients(self, y: FloatArray, raw: FloatArray, g: FloatArray, h: FloatArray) -> None:
        """`gradients` into arrays of the shape of ``raw``: new memory takes a process as long as they do."""
        g[...], h[...] = self.gradients(y, raw)

    def predict(self, raw: FloatArray) -> FloatArray:
        """Inverse link: raw prediction to the mean, median, quantile or probabilities."""
        return raw

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Loss of each row, shape (n,)."""
        raise NotImplementedError  # abstract

    def mean(self, y: FloatArray, raw: FloatArray, sample_weight: FloatArray | None = None) -> float:
        """Weighted mean of `values`."""
        return exact_mean(self.values(y, raw), sample_weight)


class LogLoss(Loss):
    """Binary log loss; raw prediction is the log odds of class 1."""

    name = "log_loss"
    unit_dispersion = True
    bounds = (1.0, 0.25)

    def start_over(self, rows: RowStatistics) -> FloatArray:
        """Log odds of the weighted share of class 1."""
        share = min(max(rows.mean(_target), 1e-12), 1 - 1e-12)
        return np.array([math.log(share / (1 - share))])

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return p − y and p(1 − p)."""
        g, h = np.empty_like(raw), np.empty_like(raw)
        self.fill_gradients(y, raw, g, h)
        return g, h

    def fill_gradients(self, y: FloatArray, raw: FloatArray, g: FloatArray, h: FloatArray) -> None:
        """`gradients` into arrays."""
        # in single precision exp(−700) is nothing, too, and there is no warning to silence, which takes longer
        p = np.negative(raw, out=g)
        np.exp(np.minimum(p, _MAX_EXPONENT, out=p), out=p)
        p += 1.0
        np.reciprocal(p, out=p)
        np.subtract(1.0, p, out=h)
        h *= p
        np.maximum(h, MIN_HESSIAN, out=h)
        p -= y

    def predict(self, raw: FloatArray) -> FloatArray:
        """Probability of class 1."""
        return _expit(raw)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return log(1 + exp(F)) − yF."""
        return np.logaddexp(0.0, raw) - y * raw


class MulticlassLogLoss(Loss):
    """Softmax log loss over ``n_classes`` raw predictions a row."""

    name = "multiclass_log_loss"
    unit_dispersion = True
    bounds = (1.0, 0.25)
    # from one class in fifty to even odds, where a quadratic would go six times as far
    max_step = 4.0

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = n_classes

    def start_over(self, rows: RowStatistics) -> FloatArray:
        """Centred log shares of the classes."""
        shares = [rows.mean(partial(_is_class, k)) for k in range(self.n_outputs)]
        logs = np.log(np.maximum(shares, 1e-12))
        return logs - logs.mean()

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return p − 1[y = k] and p(1 − p)."""
        p = self.predict(raw)
        h = p * (1 - p)
        np.maximum(h, MIN_HESSIAN, out=h)
        p[np.arange(len(y)), y.astype(np.intp)] -= 1.0
        return p, h

    def predict(self, raw: FloatArray) -> FloatArray:
        """Probabilities, shape (n, n_classes)."""
        p = np.exp(raw - raw.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return p

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return minus the log probability of the true class."""
        top = raw.max(axis=1)
        log_sum = top + np.log(np.exp(raw - top[:, None]).sum(axis=1))
        return log_sum - raw[np.arange(len(y)), y.astype(np.intp)]


class SquaredError(Loss):
    """Half the squared error."""

    name = "squared_error"
    constant_hessian = True

    def start_over(self, rows: RowStatistics) -> FloatArray:
        """Weighted mean."""
        return np.array([rows.mean(_target)])

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return F − y and 1."""
        return raw - y, np.ones_like(raw)

    def fill_gradients(self, y: FloatArray, raw: FloatArray, g: FloatArray, h: FloatArray) -> None:
        """`gradients` into arrays."""
        np.subtract(raw, y, out=g)
        h[...] = 1.0

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return (y − F)²/2."""
        return 0.5 * (y - raw) ** 2


class QuantileLoss(Loss):
    """Pinball loss at ``level``; leaves hold the quantile of their residuals."""

    name = "quantile"
    constant_hessian = True

    def __init__(self, level: float = 0.5) -> None:
        self.level = self.leaf_level = level

    def start_over(self, rows: RowStatistics) -> FloatArray:
        """Weighted quantile."""
        return np.array([rows.quantile(_target, self.level)])

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return −level below the target, 1 − level above it, 0 on it; h is 1."""
        g = np.where(raw > y, 1.0 - self.level, -self.level)
        g[raw == y] = 0.0
        return g, np.ones_like(raw)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return the pinball loss."""
        residual = y - raw
        return np.maximum(self.level * residual, (self.level - 1.0) * residual)


class AbsoluteError(QuantileLoss):
    """Absolute error; leaves hold the median of their residuals."""

    name = "absolute_error"

    def __init__(self) -> None:
        super().__init__(0.5)

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sign(F − y) and 1."""
        return np.sign(raw - y), np.ones_like(raw)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return |y − F|."""
        return np.abs(y - raw)


class HuberLoss(Loss):
    """Squared error for small residuals, absolute beyond the ``level`` quantile of |y − F|.

    The border is found anew at every iteration, as in scikit-learn's GradientBoostingRegressor.
    """

    name = "huber"
    constant_hessian = True

    def __init__(self, level: float = 0.9) -> None:
        self.level = level
        self.delta = math.nan

    def start_over(self, rows: RowStatistics) -> FloatArray:
        """Weighted median."""
        return np.array([rows.quantile(_target, 0.5)])

    def prepare_over(self, rows: RowStatistics) -> None:
        """Find the border between small and large residuals."""
        self.delta = rows.quantile(_distance, self.level)

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the clipped residual and 1."""
        if math.isnan(self.delta):
            self.prepare(y, raw, None)
        return np.clip(raw - y, -self.delta, self.delta), np.ones_like(raw)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return the Huber loss at the current border."""
        size = np.abs(y - raw)
        delta = weighted_quantile(size, None, self.level) if math.isnan(self.delta) else self.delta
        return np.where(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta))


class _LogLinkLoss(Loss):
    """What losses of a positive mean with a log link share."""

    # twice the mean, or half of it; a quadratic says little of an exponential beyond that
    max_step = 0.7

    def start_over(self, rows: RowStatistics) -> FloatArray:
        """Log of the weighted mean."""
        return np.array([math.log(max(rows.mean(_target), 1e-300))])

    def predict(self, raw: FloatArray) -> FloatArray:
        """Return the mean, exp(F)."""
        return _exp(raw)


class PoissonLoss(_LogLinkLoss):
    """Half the Poisson deviance, log link."""

    name = "poisson"
    unit_dispersion = False

    def check_domain(self, y: FloatArray, name: str = "y") -> None:
        """Y ≥ 0."""
        if (y < 0).any():
            raise ValueError(f"loss='poisson' needs {name} >= 0 in every row.")

    def check_target(self, y: FloatArray, name: str = "y") -> None:
        """Y ≥ 0, not all zero."""
        if (y < 0).any() or not (y > 0).any():
            raise ValueError(f"loss='poisson' needs {name} >= 0 with at least one positive value.")

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return exp(F) − y and exp(F)."""
        mean = _exp(raw)
        return mean - y, np.maximum(mean, MIN_HESSIAN)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return half the unit deviance."""
        mean = _exp(raw)
        log_y = np.log(np.where(y > 0, y, 1.0))
        return y * (log_y - raw) - y + mean


class GammaLoss(_LogLinkLoss):
    """Half the Gamma deviance, log link."""

    name = "gamma"

    def check_domain(self, y: FloatArray, name: str = "y") -> None:
        """Y > 0."""
        if (y <= 0).any():
            raise ValueError(f"loss='gamma' needs {name} > 0 in every row.")

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return 1 − y exp(−F) and y exp(−F)."""
        ratio = y * _exp(-raw)
        return 1.0 - ratio, np.maximum(ratio, MIN_HESSIAN)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return half the unit deviance."""
        return y * _exp(-raw) - np.log(y) + raw - 1.0


class TweedieLoss(_LogLinkLoss):
    """Half the Tweedie deviance of a power between 1 and 2, log link."""

    name = "tweedie"

    def __init__(self, power: float = 1.5) -> None:
        self.power = power

    def check_domain(self, y: FloatArray, name: str = "y") -> None:
        """Y ≥ 0."""
        if (y < 0).any():
            raise ValueError(f"loss='tweedie' needs {name} >= 0 in every row.")

    def check_target(self, y: FloatArray, name: str = "y") -> None:
        """Y ≥ 0, not all zero."""
        if (y < 0).any() or not (y > 0).any():
            raise ValueError(f"loss='tweedie' needs {name} >= 0 with at least one positive value.")

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives of −y exp((1−ρ)F)/(1−ρ) + exp((2−ρ)F)/(2−ρ)."""
        p = self.power
        a = y * _exp((1 - p) * raw)
        b = _exp((2 - p) * raw)
        return b - a, np.maximum((p - 1) * a + (2 - p) * b, MIN_HESSIAN)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Return half the unit deviance."""
        p = self.power
        constant = np.where(y > 0, y, 0.0) ** (2 - p) / ((1 - p) * (2 - p))
        return constant - y * _exp((1 - p) * raw) / (1 - p) + _exp((2 - p) * raw) / (2 - p)


class CustomLoss(Loss):
    """A loss from two callables.

    Parameters
    ----------
    gradients : callable
        ``gradients(y, raw) -> (g, h)``, called with blocks of rows, on several threads at once.
    values : callable
        ``values(y, raw) -> ndarray of shape (n,)``, the loss of each row.
    n_outputs : int, default=1
    """

    name = "custom"

    def __init__(
        self,
        gradients: Callable[[FloatArray, FloatArray], tuple[Any, Any]],
        values: Callable[[FloatArray, FloatArray], Any],
        n_outputs: int = 1,
    ) -> None:
        self._gradients = gradients
        self._values = values
        self.n_outputs = n_outputs

    def start_over(self, rows: RowStatistics) -> FloatArray:
        """Newton steps of a constant from zero."""
        return self._newton_start(rows, np.zeros(self.n_outputs))

    def gradients(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Call the user's function and check what it returned."""
        found = self._gradients(y, raw)
        try:
            g, h = found
        except (TypeError, ValueError):
            raise ValueError(
                f"loss: the gradient function must return two arrays, g and h; got {type(found).__name__}."
            ) from None
        g, h = np.array(g, dtype=np.float64), np.array(h, dtype=np.float64)
        if g.shape != raw.shape or h.shape != raw.shape:
            raise ValueError(
                f"loss: the gradient function must return g and h of shape {raw.shape}, got {g.shape} and {h.shape}."
            )
        if not (np.isfinite(g).all() and np.isfinite(h).all()):
            raise ValueError("loss: the gradient function returned a value that is not finite.")
        return g, np.maximum(h, MIN_HESSIAN)

    def values(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        """Call the user's function and check what it returned."""
        found = np.asarray(self._values(y, raw), dtype=np.float64)
        if found.shape != (len(y),):
            raise ValueError(
                f"loss: the function of values must return one for each row, shape {(len(y),)}; got {found.shape}."
            )
        return found


REGRESSION_LOSSES: dict[str, type[Loss]] = {
    cls.name: cls for cls in (SquaredError, AbsoluteError, HuberLoss, QuantileLoss, PoissonLoss, GammaLoss, TweedieLoss)
}


def regression_loss(
    name: str, *, quantile: float = 0.5, huber_quantile: float = 0.9, tweedie_power: float = 1.5
) -> Loss:
    """Loss of a name in `REGRESSION_LOSSES`, with its own parameter."""
    cls = REGRESSION_LOSSES[name]
    if cls is QuantileLoss:
        return QuantileLoss(quantile)
    if cls is HuberLoss:
        return HuberLoss(huber_quantile)
    if cls is TweedieLoss:
        return TweedieLoss(tweedie_power)
    return cls()


def _target(y: FloatArray, raw: FloatArray) -> FloatArray:
    return y


def _is_class(k: int, y: FloatArray, raw: FloatArray) -> FloatArray:
    return (y == k).astype(np.float64)


def _distance(y: FloatArray, raw: FloatArray) -> FloatArray:
    return np.abs(y - raw)


def _exp(values: FloatArray) -> FloatArray:
    return np.exp(np.clip(values, -_MAX_LOG_RATE, _MAX_LOG_RATE))


def _expit(raw: FloatArray) -> FloatArray:
    p = np.negative(raw)
    with np.errstate(over="ignore"):  # exp(-F) = inf is the right way to a probability of 0
        np.exp(p, out=p)
    p += 1.0
    np.reciprocal(p, out=p)
    return p
