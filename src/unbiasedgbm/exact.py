"""Exact statistics of rows: sums in fixed point and quantiles by counting, the same for any order and any grouping.

A sum has two steps, so that rows may lie in several places: `Scale` is what must be known of all rows, `units_sum` adds
up those that are here, and integers of all places are added. Quantiles are found by integer weights, for the same
reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Values = Callable[[FloatArray, FloatArray], FloatArray]

# Weights up to this are counted as whole numbers, where they are.
_MOST_WHOLE = 2.0**30


@dataclass(frozen=True)
class Scale:
    """What an exact sum needs to know of all rows before it adds up any.

    Attributes
    ----------
    top : float
        Largest absolute value.
    heaviest : float
        Largest weight; 1 without weights.
    whole : bool
        Whether all weights are whole numbers that are not huge.
    """

    top: float
    heaviest: float = 1.0
    whole: bool = True

    @classmethod
    def of(cls, values: FloatArray, weight: FloatArray | None) -> Scale:
        """Scale of these rows."""
        top = float(np.max(np.abs(values), initial=0.0))
        if weight is None:
            return cls(top)
        heaviest = float(np.max(weight, initial=0.0))
        return cls(top, heaviest, heaviest < _MOST_WHOLE and bool((weight == np.floor(weight)).all()))

    def join(self, other: Scale) -> Scale:
        """Scale of both sets of rows."""
        return Scale(max(self.top, other.top), max(self.heaviest, other.heaviest), self.whole and other.whole)

    @property
    def exponent(self) -> int:
        """A unit is two to the power of minus this."""
        return 52 - math.frexp(self.top)[1] - (0 if self.whole else math.frexp(self.heaviest)[1])

    def value(self, units: int) -> float:
        """The sum that so many units are."""
        if self.top == 0.0 or not math.isfinite(self.top):
            return self.top
        return math.ldexp(float(units), -self.exponent)


def units_sum(values: FloatArray, weight: FloatArray | None, scale: Scale) -> int:
    """Sum of ``weight * values`` in units of a scale.

    A weight of two adds exactly what two equal rows add: the unit depends on the largest value, not on how many rows
    there are.
    """
    if scale.top == 0.0 or not math.isfinite(scale.top):
        return 0
    units = np.rint(np.ldexp(values, 52 - math.frexp(scale.top)[1]))
    if weight is None:
        return _wide_sum(units.astype(np.int64), None, 1)
    if scale.whole:
        return _wide_sum(units.astype(np.int64), weight.astype(np.int64), int(scale.heaviest))
    units = np.rint(units * np.ldexp(weight, -math.frexp(scale.heaviest)[1]))
    return _wide_sum(units.astype(np.int64), None, 1)


def weight_unit(total: float, n_rows: int, top: float) -> float:
    """What weights are divided by to be one on average: what all of them are or, if they differ, a power of two.

    Parameters
    ----------
    total, top : float
        Exact sum of the weights, and the largest.
    n_rows : int
    """
    alike = math.isclose(total, n_rows * top, rel_tol=1e-12)
    return top if alike else 2.0 ** round(math.log2(total / n_rows))


def _wide_sum(units: IntArray, weight: IntArray | None, heaviest: int) -> int:
    """Sum of weight · units, |units| ≤ 2**52, that no number of rows can overflow: by halves, and by blocks of rows."""
    size = max(1, (1 << 62) // ((1 << 27) * heaviest))
    total = 0
    for start in range(0, len(units), size):
        block = units[start : start + size]
        high, low = block >> 26, block & ((1 << 26) - 1)
        if weight is not None:
            high, low = high * weight[start : start + size], low * weight[start : start + size]
        total += (int(high.sum()) << 26) + int(low.sum())
    return total


@lru_cache(maxsize=64)
def fixed_unit(top: float, n: int) -> float:
    """Largest power of two by which n numbers up to ``top`` can be multiplied and still be added up in 62 bits."""
    exponent = 62 - math.frexp(max(top, 1e-280))[1] - (n + 1).bit_length()
    return math.ldexp(1.0, min(exponent, 900))


def exact_sum(values: FloatArray, sample_weight: FloatArray | None = None) -> float:
    """Sum of ``sample_weight * values`` in fixed point, independent of the order of the rows."""
    scale = Scale.of(values, sample_weight)
    return scale.value(units_sum(values, sample_weight, scale))


def exact_mean(values: FloatArray, sample_weight: FloatArray | None) -> float:
    """Weighted mean by a fixed-point integer sum: it depends neither on the order nor on the grouping of the rows.

    Parameters
    ----------
    values : ndarray of shape (n,), float64
    sample_weight : ndarray of shape (n,), float64, or None

    Returns
    -------
    float
    """
    total = exact_sum(values, sample_weight)
    if total == 0.0:
        return 0.0
    return total / (float(len(values)) if sample_weight is None else exact_sum(sample_weight))


def weight_units(weight: FloatArray, heaviest: float, whole: bool) -> IntArray:
    """Weights as whole numbers, at least 1, whose sum over 2**32 rows still fits 63 bits, shape (n,).

    Parameters
    ----------
    weight : ndarray of shape (n,), float64
        Positive.
    heaviest, whole
        As in `Scale`, of all rows.
    """
    if whole:
        return np.maximum(weight, 1.0).astype(np.int64)
    return np.maximum(np.rint(np.ldexp(weight, 30 - math.frexp(heaviest)[1])), 1.0).astype(np.int64)


def quantile_ranks(level: float, total: int) -> tuple[int, int]:
    """Weight that must be reached for the lower and for the upper value of a quantile; their mean is the quantile."""
    target = level * total
    return min(max(math.ceil(target), 1), total), min(math.floor(target) + 1, total)


def weighted_quantile(values: FloatArray, sample_weight: FloatArray | IntArray | None, level: float) -> float:
    """Lower-and-upper averaged quantile; rows of weight two count twice.

    Parameters
    ----------
    values : ndarray of shape (n,), float64
    sample_weight : ndarray of shape (n,), or None
        Floats, or the integers of `weight_units`.
    level : float in [0, 1]
    """
    values = values + 0.0  # −0.0 and 0.0 are one value
    if sample_weight is None:
        low, high = quantile_ranks(level, len(values))
        ranked = np.partition(values, [low - 1, high - 1])
        return 0.5 * (float(ranked[low - 1]) + float(ranked[high - 1]))
    units: Any = sample_weight
    if units.dtype.kind == "f":
        scale = Scale.of(values, units)
        units = weight_units(units, scale.heaviest, scale.whole)
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(units[order])
    places = np.searchsorted(cumulative, quantile_ranks(level, int(cumulative[-1])), side="left")
    return 0.5 * (float(values[order[places[0]]]) + float(values[order[places[1]]]))


class RowStatistics:
    """Statistics of rows that lie here; a cluster has a class with the same methods.

    Parameters
    ----------
    y : ndarray of shape (n,), float64
    raw : ndarray of shape (n,) or (n, n_outputs), float64
        May be anything where the values asked for do not depend on it.
    weight : ndarray of shape (n,), float64, or None
    """

    def __init__(self, y: FloatArray, raw: FloatArray, weight: FloatArray | None) -> None:
        self.y, self.raw, self.weight = y, raw, weight

    def total(self, values: Values) -> float:
        """Weighted sum of ``values(y, raw)``."""
        return exact_sum(values(self.y, self.raw), self.weight)

    def mean(self, values: Values) -> float:
        """Weighted mean of ``values(y, raw)``."""
        return exact_mean(values(self.y, self.raw), self.weight)

    def quantile(self, values: Values, level: float) -> float:
        """Weighted quantile of ``values(y, raw)``."""
        return weighted_quantile(values(self.y, self.raw), self.weight, level)
