"""Sources: what was passed as X, opened as one numeric array or as a list of columns, with its names.

Messages are those of scikit-learn where it has one for the case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from .columns import RawColumn, raw_column

# Cells up to which a frame of numbers is copied at once instead of read by columns.
_SMALL_TABLE = 1 << 14

# From here on float64 does not hold every integer.
_LARGEST_EXACT = 2.0**53

# Types whose nulls become NaN when a frame is turned into one array.
_PLAIN_TYPES = (
    *(nw.Int8, nw.Int16, nw.Int32, nw.Int64),
    *(nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64),
    *(nw.Float32, nw.Float64),
)


@dataclass(frozen=True)
class Source:
    """An opened table.

    Parameters
    ----------
    n_rows, n_features : int
    names : tuple of str or None
        Column names if they are all text.
    array : ndarray of shape (n_rows, n_features) or None
        The table, if it is a NumPy array of numbers.
    columns : sequence of raw columns
        Its columns otherwise.
    """

    n_rows: int
    n_features: int
    names: tuple[str, ...] | None
    array: NDArray[Any] | None
    columns: Sequence[RawColumn] = ()

    def column(self, feature: int) -> RawColumn:
        """One column, whatever the table is."""
        return self.columns[feature] if self.array is None else self.array[:, feature]


def open_source(X: Any) -> Source:
    """Open anything that may be passed as X."""
    if isinstance(X, np.ndarray):
        return _open_array(X)
    # of the type: a frame has its columns as attributes
    if hasattr(type(X), "tocsr"):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required. Use '.toarray()' to convert to a dense numpy "
            "array."
        )
    if X is None:
        raise ValueError("X must be a table, got None.")
    try:
        frame = nw.from_native(X, pass_through=True, allow_series=True)
        if frame is X and not isinstance(X, nw.DataFrame) and hasattr(type(X), "__arrow_c_stream__"):
            frame = _from_arrow(X)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"X has duplicate column names. {error}") from error
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(f"X is a lazy table ({type(X).__name__}); collect it first, for example with X.collect().")
    if isinstance(frame, nw.Series):
        raise ValueError(
            f"Expected a 2-dimensional container but got {type(X)} instead. Pass a DataFrame containing a single row "
            "(i.e. single sample) or a single column (i.e. single feature) instead."
        )
    if isinstance(frame, nw.DataFrame):
        return _open_frame(frame)
    return _open_array(_to_array(X))


def check_not_empty(source: Source) -> None:
    """Raise if there are no rows or no columns."""
    shape = (source.n_rows, source.n_features)
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def _from_arrow(X: Any) -> nw.DataFrame[Any]:
    """A table that offers the Arrow stream interface, by whichever of the Arrow readers is installed."""
    for backend in ("pyarrow", "polars", "pandas"):
        try:
            return nw.from_arrow(X, backend=backend)
        except ImportError:
            continue
    raise TypeError(f"Reading X of type {type(X).__name__} needs pyarrow or polars to be installed.")


def _to_array(X: Any) -> NDArray[Any]:
    array = np.asarray(X)
    # NumPy turns the numbers of a list with some text into text: keep each cell as it is
    return np.asarray(X, dtype=object) if array.dtype.kind in "US" and not hasattr(X, "__array__") else array


def _open_array(X: NDArray[Any]) -> Source:
    if isinstance(X, np.matrix):
        raise TypeError("np.matrix is not supported. Please convert to a numpy array with np.asarray.")
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{X}\n")
    if X.ndim < 2:
        got = "scalar" if X.ndim == 0 else "1D"
        raise ValueError(
            f"Expected 2D array, got {got} array instead:\narray={X}.\nReshape your data either using "
            "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a single "
            "sample."
        )
    if X.ndim > 2:
        raise ValueError(f"Found array with dim {X.ndim}, while dim <= 2 is required.")
    n_rows, n_features = X.shape
    if isinstance(X, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(X)
        X = np.array(X.data, dtype=np.float64 if X.dtype.kind in "biuf" else object)
        X[mask] = None
    if X.dtype.kind in "biuf":
        return Source(n_rows, n_features, None, X)
    return Source(n_rows, n_features, None, None, [X[:, j] for j in range(n_features)])


def _open_frame(frame: nw.DataFrame[Any]) -> Source:
    try:
        names = frame.columns
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"X has duplicate column names. {error}") from error
    types = {type(name) for name in names}
    if str in types and len(types) > 1:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{sorted(kind.__qualname__ for kind in types)} as feature name / column name types. Convert them all to "
            "strings, for example with X.columns = X.columns.astype(str)."
        )
    n_rows, n_features = frame.shape
    text_names = tuple(names) if types == {str} else None
    array = _small_array(frame)
    if array is not None:
        return Source(n_rows, n_features, text_names, array)
    return Source(n_rows, n_features, text_names, None, [raw_column(series) for series in frame.iter_columns()])


def _small_array(frame: nw.DataFrame[Any]) -> NDArray[Any] | None:
    """A small frame of plain numbers as one array, copied: for a few rows this is much faster than columns."""
    if not 0 < frame.shape[0] * frame.shape[1] <= _SMALL_TABLE:
        return None
    if frame.implementation.is_pandas_like():
        native: Any = frame.to_native()
        convert = native.to_numpy
        plain = all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in set(native.dtypes))
    else:
        convert = frame.to_numpy
        plain = all(isinstance(dtype, _PLAIN_TYPES) for dtype in frame.schema.dtypes())
    if not plain:
        return None
    array = np.asarray(convert())
    # integers beside floats become floats, of which large ones are not whole numbers one by one
    if array.dtype.kind == "f" and (np.abs(array) >= _LARGEST_EXACT).any():
        return None
    # booleans beside numbers come as objects
    return array if array.dtype.kind in "biuf" else None
