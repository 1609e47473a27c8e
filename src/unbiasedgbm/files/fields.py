"""Fields of an untrusted document: each is what it should be, or an error says which is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.exceptions import ModelFileError

# JSON has no words for these.
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def plain(values: npt.NDArray[Any] | list[float]) -> list[Any]:
    """Numbers as JSON can hold them: infinities and NaN as text."""
    array = np.asarray(values)
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return list(array.tolist())
    return [plain_number(value) for value in array.tolist()]


def plain_number(value: float) -> float | str:
    """One number as JSON can hold it."""
    return float(value) if math.isfinite(value) else str(float(value))


def mapping(value: Any, name: str, keys: set[str] | None = None) -> Mapping[str, Any]:
    """An object, with exactly these keys where they are given."""
    if not isinstance(value, Mapping):
        raise ModelFileError(f"{name!r} must be an object")
    if keys is not None and set(value) != keys:
        odd = ", ".join(repr(key) for key in sorted(set(value) ^ keys)[:5])
        raise ModelFileError(f"{name!r} has a key too many or too few: {odd:.200}")
    return value


def sequence(value: Any, name: str, length: int | None = None) -> list[Any]:
    """A list, of a length where it is given."""
    if not isinstance(value, list) or (length is not None and len(value) != length):
        wanted = "a list" if length is None else f"a list of {length}"
        raise ModelFileError(f"{name!r} must be {wanted}")
    return value


def integer(value: Any, name: str, low: int, high: int) -> int:
    """A whole number within limits."""
    if type(value) is not int or not low <= value <= high:
        raise ModelFileError(f"{name!r} must be a whole number from {low} to {high}")
    return value


def number(value: Any, name: str) -> float:
    """A number, infinite and NaN included."""
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if type(value) not in (int, float):
        raise ModelFileError(f"{name!r} must be a number")
    try:
        return float(value)
    except OverflowError:
        raise ModelFileError(f"{name!r} is too large") from None


def text(value: Any, name: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ModelFileError(f"{name!r} must be text")
    return value


def floats(value: Any, name: str, length: int | None = None, *, finite: bool = True) -> npt.NDArray[np.float64]:
    """Numbers as float64, shape (length,).

    Parameters
    ----------
    value : object
        A list of numbers, with "inf", "-inf" and "nan" as text unless ``finite``; or an array.
    name : str
    length : int or None
    finite : bool, default=True
    """
    array = _array(value, name, length)
    if array.dtype.kind in "UO" and not finite:
        array = np.array([number(entry, name) for entry in array_entries(value)], dtype=np.float64)
    if array.dtype.kind not in "fiu":
        raise ModelFileError(f"{name!r} must hold numbers only")
    result = array.astype(np.float64)
    if finite and not np.isfinite(result).all():
        raise ModelFileError(f"{name!r} holds a number that is not finite")
    return result


def integers(
    value: Any, name: str, low: int, high: int, length: int | None = None, dtype: type[np.signedinteger[Any]] = np.int64
) -> npt.NDArray[Any]:
    """Whole numbers within limits, shape (length,)."""
    array = _array(value, name, length)
    if array.size == 0:
        return np.empty(0, dtype)
    if array.dtype.kind not in "iu":
        raise ModelFileError(f"{name!r} must hold whole numbers only")
    if int(array.min()) < low or int(array.max()) > high:
        raise ModelFileError(f"{name!r} holds a number outside {low} to {high}")
    return array.astype(dtype)


def array_entries(value: Any) -> list[Any]:
    """Entries of a list or array as Python objects."""
    return value.tolist() if isinstance(value, np.ndarray) else list(value)


def _array(value: Any, name: str, length: int | None) -> npt.NDArray[Any]:
    """A list as whatever array NumPy makes of it; one dimension, of a length where it is given."""
    if not isinstance(value, list | np.ndarray):
        raise ModelFileError(f"{name!r} must be a list")
    if length is not None and len(value) != length:
        raise ModelFileError(f"{name!r} must have {length} entries; it has {len(value)}")
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        raise ModelFileError(f"{name!r} must be a flat list") from None
    if array.ndim != 1:
        raise ModelFileError(f"{name!r} must be a flat list")
    return array
