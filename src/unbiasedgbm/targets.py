"""Targets, weights and groups of rows: one-dimensional arrays with clear errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import column_or_1d

from unbiasedgbm.categories import is_missing

# Heavier rows would leave too few bits to the gradients of a leaf, which are rounded before they are weighted.
HEAVIEST = 1e10


def read_weight(sample_weight: Any, name: str, whole: bool = True) -> npt.NDArray[np.float64] | None:
    """Weights as float64, shape (n,), or None if there are none.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), or None
    name : str
        What an error calls them.
    whole : bool
        Whether these are all rows; of a share of them all weights may be zero.
    """
    if sample_weight is None:
        return None
    try:
        weight = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers.") from None
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be a one-dimensional array: {name} has {weight.ndim} dimensions.")
    if not np.isfinite(weight).all():
        raise ValueError(f"{name} holds a value that is missing or infinite.")
    if (weight < 0).any():
        raise ValueError(f"{name} holds a negative value: {weight.min():g}.")
    if whole and not weight.any():
        raise ValueError(f"{name} is zero in every row.")
    if weight.max(initial=0.0) > HEAVIEST:
        raise ValueError(f"{name} holds {weight.max():g}, more than {HEAVIEST:g}; divide all weights by some number.")
    return weight


def read_target(
    y: Any, weight: npt.NDArray[np.float64] | None, n_rows: int, name: str, weight_name: str
) -> npt.NDArray[Any]:
    """Target as an array of shape (n_rows,), checked for missing values and for its length."""
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if getattr(getattr(y, "dtype", None), "kind", None) == "c":
        raise ValueError(f"Complex data not supported: {name} holds complex numbers.")
    values = column_or_1d(y, warn=True)
    table = "X" + name.removeprefix("y")
    if len(values) != n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {table} has {n_rows} rows, but {name} has "
            f"{len(values)}."
        )
    if weight is not None and len(weight) != n_rows:
        raise ValueError(
            f"{weight_name} has {len(weight)} entries, but {table} has {n_rows} rows (shape {weight.shape})."
        )
    if values.dtype.kind == "f":
        missing = bool(np.isnan(values).any())
    elif values.dtype.kind == "O":
        missing = any(map(is_missing, values))
    else:
        missing = False
    if missing:
        raise ValueError(f"Input {name} contains NaN: drop the rows whose target is missing.")
    return values


def read_groups(groups: Any, n_rows: int, name: str = "groups", table: str = "X") -> npt.NDArray[Any] | None:
    """Labels of the groups that rows belong to, shape (n_rows,), or None if there are none."""
    if groups is None:
        return None
    labels = _labels(groups)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, a label for each row; got shape {labels.shape}.")
    if len(labels) != n_rows:
        raise ValueError(f"{name} has {len(labels)} entries, but {table} has {n_rows} rows.")
    if labels.dtype.kind == "f":
        missing = bool(np.isnan(labels).any())
    else:
        missing = labels.dtype.kind in "OMm" and any(map(is_missing, labels.tolist()))
    if missing:
        raise ValueError(f"{name} holds a missing value: give rows that belong to no other a group of their own.")
    return labels


def _labels(groups: Any) -> npt.NDArray[Any]:
    """Labels as they are: NumPy would make text of numbers and missing values among them."""
    if hasattr(groups, "to_pylist"):
        # Arrow's text and categories have no NumPy array to show
        groups = groups.to_pylist()
    if isinstance(groups, list | tuple) and not any(isinstance(label, list | tuple | np.ndarray) for label in groups):
        labels = np.empty(len(groups), object)
        labels[:] = groups
        return labels
    return np.asarray(groups.to_numpy() if hasattr(groups, "to_numpy") else groups)


def group_numbers(labels: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """Groups numbered in the order in which they appear, shape (n,): where every row is a group, the rows' numbers."""
    try:
        _, first, member = np.unique(labels, return_index=True, return_inverse=True)
    except TypeError:
        # labels that cannot be put in order
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()], np.uint32)
    number = np.empty(len(first), np.uint32)
    number[np.argsort(first)] = np.arange(len(first), dtype=np.uint32)
    return number[member.reshape(-1)]


def distinct_labels(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels of a target, each once and in order."""
    try:
        return np.unique(y)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(f"Unknown label type: y holds labels of several types, {' and '.join(kinds)}.") from None


def class_numbers(classes: npt.NDArray[Any], y: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    """Positions of a target's labels among the classes, as float64."""
    try:
        number = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    except TypeError:
        raise ValueError(f"{name} has labels of another type than the training target.") from None
    unknown = classes[number] != y
    if unknown.any():
        raise ValueError(f"{name} has the class {y[unknown][0]!r}, which the training target does not have.")
    return number.astype(np.float64)


def finite_numbers(y: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    """A target of numbers as float64."""
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers.") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds an infinite value (inf).")
    return values
