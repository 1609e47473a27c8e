"""Targets, weights and groups of rows: one-dimensional arrays with clear errors."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import column_or_1d

from unbiasedgbm.categories import is_missing

# Heavier rows would leave too few bits to the gradients of a leaf, which are rounded before they are weighted.
HEAVIEST = 1e10

# Sums of larger targets, of billions of rows of the heaviest weight, could overflow.
_LARGEST_TARGET = 1e280

_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


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
    given = _with_gaps(sample_weight)
    try:
        times = np.asarray(given).dtype.kind in "Mm"
        weight = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers.") from None
    if times:
        raise ValueError(f"{name} must hold numbers, not dates or times.")
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
    y = _with_gaps(y)
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
    elif values.dtype.kind in "Mm":
        missing = bool(np.isnat(values).any())
    else:
        missing = values.dtype.kind == "O" and any(map(_is_missing, values))
    if missing:
        raise ValueError(f"Input {name} contains NaN: drop the rows whose target is missing.")
    return values


def _with_gaps(column: Any) -> Any:
    """The same column, but for types of which NumPy would overlook that a cell is missing."""
    if isinstance(column, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(column)
        if not hidden.any():
            return column.data
        values = np.array(column.data, dtype=object)
        values[hidden] = None
        return values
    return _arrow_array(column) if hasattr(column, "to_pylist") else column


def _arrow_array(column: Any) -> npt.NDArray[Any]:
    """An Arrow column, or a table of them, as an array."""
    if hasattr(column, "columns"):
        return np.column_stack([_arrow_array(one) for one in column.columns])
    # an array of chunks of a dictionary would have the last level where there is a null
    return np.asarray(column.cast(column.type.value_type) if hasattr(column.type, "index_type") else column)


def _is_missing(label: Any) -> bool:
    """Whether a cell of an object array is missing."""
    return is_missing(label) or (isinstance(label, np.datetime64 | np.timedelta64) and bool(np.isnat(label)))


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
    return np.asarray(groups.to_numpy() if hasattr(groups, "to_numpy") else _with_gaps(groups))


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
    _refuse_times(y, name)
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers.") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds an infinite value (inf).")
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest > _LARGEST_TARGET:
        raise ValueError(
            f"{name} holds a number of the size {largest:g}, more than {_LARGEST_TARGET:g}; divide all targets by some "
            "number."
        )
    return values


def _refuse_times(y: npt.NDArray[Any], name: str) -> None:
    """Raise if a target of numbers holds dates or times: NumPy would count them in a unit that nobody asked for."""
    found = {y.dtype.type} if y.dtype.kind in "Mm" else set(map(type, y)) if y.dtype.kind == "O" else set()
    times = sorted(cell.__name__ for cell in found if issubclass(cell, _TIMES))
    if times:
        raise ValueError(
            f"{name} holds dates or times ({times[0]}). Convert it to numbers first, for example to days since a fixed "
            "date."
        )
