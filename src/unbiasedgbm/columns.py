"""Columns: one column of any table, as numbers or as distinct cells with their positions.

A raw column is a one-dimensional NumPy array or a narwhals series. Numeric columns are not copied: a reader converts
the rows that are asked for, when they are asked for.
"""

from __future__ import annotations

import datetime
import numbers
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from .categories import MISSING_NUMBER, is_missing

FloatArray = NDArray[np.float64]
Index = slice | NDArray[np.intp]
Reader = Callable[[Index], FloatArray]
RawColumn = NDArray[Any] | nw.Series[Any]

# Objects are looked at this many rows at a time, so that text columns are never whole as Python strings.
_CHUNK = 1 << 16

_TEXT_TYPES = (nw.String, nw.Categorical, nw.Enum)
_TIME_TYPES = (nw.Datetime, nw.Date, nw.Duration, nw.Time)


def read_array(values: NDArray[Any], index: Index) -> FloatArray:
    """Rows of a numeric array as float64."""
    return values[index].astype(np.float64, copy=False)


def read_series(series: nw.Series[Any], index: Index) -> FloatArray:
    """Rows of a numeric series as float64; nulls become NaN."""
    return series[index].to_numpy().astype(np.float64, copy=False)


def read_cast_series(series: nw.Series[Any], index: Index) -> FloatArray:
    """Rows of a series whose own conversion to NumPy would give objects (booleans with nulls, decimals)."""
    return series[index].cast(nw.Float64).to_numpy().astype(np.float64, copy=False)


def read_numbers(level_numbers: NDArray[np.uint16], index: Index) -> FloatArray:
    """Rows of a categorical column: level numbers as float64, NaN for missing."""
    chosen = level_numbers[index]
    result = chosen.astype(np.float64)
    result[chosen == MISSING_NUMBER] = np.nan
    return result


def raw_column(series: nw.Series[Any]) -> RawColumn:
    """The simplest form of a frame's column: its NumPy array, without a copy, where it is one.

    So are the types that narwhals does not name: objects, nulls, sparse columns.
    """
    native = series.to_native()
    if isinstance(getattr(native, "dtype", None), np.dtype):
        return np.asarray(native.to_numpy())
    return series.to_numpy() if isinstance(series.dtype, nw.Object | nw.Unknown) else series


def is_categorical(column: RawColumn, label: str) -> bool:
    """Whether a column is categorical by its type: text, or a frame's own category type.

    An object column is so if any cell is text; one that holds only numbers is numeric.

    Raises
    ------
    ValueError, TypeError
        If the column is neither numbers nor categories: dates, bytes, lists.
    """
    if isinstance(column, np.ndarray):
        return _array_is_text(column, label)
    dtype = column.dtype
    if isinstance(dtype, _TIME_TYPES):
        raise _time_error(label, str(dtype))
    if not (dtype.is_numeric() or isinstance(dtype, (nw.Boolean, *_TEXT_TYPES))):
        raise TypeError(f"{label} has the type {dtype}; a column must hold numbers, text, categories or booleans.")
    return isinstance(dtype, _TEXT_TYPES)


def numeric_reader(column: RawColumn, label: str) -> Reader:
    """Reader of a numeric column.

    Raises
    ------
    ValueError
        If the column holds text or categories.
    """
    if is_categorical(column, label):
        if isinstance(column, nw.Series) and column.null_count() == len(column):
            # a file's empty column is often read as text
            return partial(read_array, np.broadcast_to(np.float64(np.nan), len(column)))
        raise ValueError(f"{label} holds text or categories where numbers are expected.")
    if isinstance(column, np.ndarray):
        return partial(read_array, _object_numbers(column) if column.dtype.kind == "O" else column)
    if isinstance(column.dtype, nw.Boolean | nw.Decimal | nw.Int128 | nw.UInt128):
        return partial(read_cast_series, column)
    if _is_one_chunk(column.to_native()) and column.null_count() == 0:
        return partial(read_array, column.to_numpy())
    return partial(read_series, column)


def factorize(column: RawColumn, label: str) -> tuple[Sequence[object], NDArray[np.int64]]:
    """Distinct cells of a column, and which of them each row holds.

    Returns
    -------
    values : sequence
        Distinct cells, in any order; some may be missing values or occur in no row.
    codes : ndarray of shape (n_rows,), int64
        Position in ``values``, or -1 for missing.
    """
    is_text = is_categorical(column, label)
    if isinstance(column, np.ndarray):
        return _factorize_array(column)
    native: Any = column.to_native()
    if column.implementation.is_pandas_like():
        if hasattr(native, "cat") and hasattr(native.cat, "codes"):
            values = [_category_cell(cell) for cell in native.cat.categories.tolist()]
            return values, native.cat.codes.to_numpy().astype(np.int64)
        codes, distinct = native.factorize()
        return distinct.tolist(), np.asarray(codes, dtype=np.int64)
    arrow_type: Any = getattr(native, "type", None)
    if hasattr(arrow_type, "value_type"):
        # to_numpy() of an Arrow dictionary would read a null as the last level
        decoded = nw.from_native(native.cast(arrow_type.value_type), series_only=True)
        return factorize(raw_column(decoded), label)
    if is_text:
        return _factorize_text(column.cast(nw.String) if str(arrow_type) == "string_view" else column)
    if column.dtype.is_integer() and not isinstance(column.dtype, nw.Int128 | nw.UInt128):
        # as they are: float64 does not tell large integers apart
        numbers_found, codes = _factorize_array(column.fill_null(0).to_numpy())
        codes[column.is_null().to_numpy()] = -1
        return numbers_found, codes
    return _factorize_array(numeric_reader(column, label)(slice(None)))


def _is_one_chunk(native: Any) -> bool:
    """Whether a polars or pyarrow column lies in one piece, so that NumPy can look at it without a copy."""
    if hasattr(type(native), "num_chunks"):
        return bool(native.num_chunks == 1)
    return hasattr(type(native), "n_chunks") and bool(native.n_chunks() == 1)


def _time_error(label: str, type_name: str) -> ValueError:
    return ValueError(
        f"{label} holds dates or times ({type_name}). Convert it to numbers first, for example to days since a fixed "
        "date, or to year, month and weekday."
    )


def _array_is_text(values: NDArray[Any], label: str) -> bool:
    kind = values.dtype.kind
    if kind in "biuf":
        return False
    if kind in "UT":
        return True
    if kind == "c":
        raise ValueError(f"Complex data not supported\n{label} has the type {values.dtype}.")
    if kind in "Mm":
        raise _time_error(label, str(values.dtype))
    if kind != "O":
        raise TypeError(f"{label} has the type {values.dtype}; decode it to text or convert it to numbers first.")
    # a set, not any(): every type is looked at, so that an error does not depend on the order
    return True in {_is_text_type(cell, label) for cell in _cell_types(values)}


def _cell_types(values: NDArray[Any]) -> set[type]:
    types: set[type] = set()
    for chunk in _chunks(values):
        types.update(map(type, chunk))
    return types


def _is_text_type(cell: type, label: str) -> bool:
    """Whether a type of cell makes an object column categorical; an error if it is neither text nor a number."""
    if issubclass(cell, str):
        return True
    if cell.__name__ in ("NoneType", "NAType", "NaTType"):
        return False
    # before the numbers: NumPy counts a timedelta64 as an integer
    if issubclass(cell, datetime.date | datetime.time | datetime.timedelta | np.datetime64 | np.timedelta64):
        raise _time_error(label, cell.__name__)
    if issubclass(cell, bool | np.bool_ | numbers.Real | Decimal):
        return False
    if issubclass(cell, numbers.Complex):
        raise ValueError(f"Complex data not supported\n{label} holds complex numbers.")
    raise TypeError(f"{label}: argument must be a string or a real number, not {cell.__name__!r}.")


def holds_numbers(column: RawColumn) -> bool:
    """Whether an object column has cells that are numbers, missing ones included: its True is then a 1."""
    if not isinstance(column, np.ndarray) or column.dtype.kind != "O":
        return False
    types = _cell_types(column)
    return any(issubclass(cell, numbers.Real | Decimal) and not issubclass(cell, bool) for cell in types)


def _object_numbers(values: NDArray[Any]) -> FloatArray:
    """An object array of numbers and missing values as float64."""
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        # pandas' NA does not convert itself
        cells = (np.nan if is_missing(cell) else float(cell) for chunk in _chunks(values) for cell in chunk)
        return np.fromiter(cells, np.float64, len(values))


def _chunks(values: NDArray[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK].tolist()


def _factorize_array(values: NDArray[Any]) -> tuple[Sequence[object], NDArray[np.int64]]:
    if values.dtype.kind in "biuf":
        distinct, codes = np.unique(values, return_inverse=True)
        return distinct.tolist(), codes.astype(np.int64, copy=False)
    # a new cell gets the next number; the loop over rows runs inside map
    position_of: defaultdict[object, int] = defaultdict()
    position_of.default_factory = position_of.__len__
    codes = np.empty(len(values), dtype=np.int64)
    for part, chunk in enumerate(_chunks(values)):
        start = part * _CHUNK
        codes[start : start + len(chunk)] = np.fromiter(map(position_of.__getitem__, chunk), np.int64, len(chunk))
    cells = list(position_of)
    truth = any(isinstance(cell, bool | np.bool_ | numbers.Real | Decimal) and cell in (0, 1) for cell in cells)
    if truth and holds_numbers(values):
        # True and 1 are one level; which of them came first must not show
        cells = [int(cell) if isinstance(cell, bool | np.bool_) else cell for cell in cells]
    return cells, codes


def _factorize_text(series: nw.Series[Any]) -> tuple[Sequence[object], NDArray[np.int64]]:
    values = series.drop_nulls().unique().to_list()
    if not values:
        return [], np.full(len(series), -1, dtype=np.int64)
    old, new = [*values, None], [*range(len(values)), -1]
    return values, series.replace_strict(old, new, return_dtype=nw.Int64).to_numpy()


def _category_cell(cell: object) -> object:
    """A category of a pandas category type; those that are neither numbers nor text (intervals) go by their text."""
    if is_missing(cell) or isinstance(cell, str | bool | np.bool_ | numbers.Real | Decimal):
        return cell
    return str(cell)
