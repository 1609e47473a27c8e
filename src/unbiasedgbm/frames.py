"""Frames: any table (NumPy, pandas, polars, pyarrow) to blocks of float64 rows, with names and categories.

``learn_schema`` reads the training table and remembers how; ``Schema.read`` reads any later table in the same way. Both
give a ``Table``, which converts only the rows that are asked for. Missing values are NaN, categories are level numbers.

Infinite numbers are legal: they are the smallest or largest values of their column.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .categories import HandleUnknown, Level, checked_levels, level_numbers, sorted_levels
from .columns import FloatArray, Index, RawColumn, Reader, factorize, is_categorical, numeric_reader, read_numbers
from .sources import Source, check_not_empty, open_source

CategoricalFeatures = Literal["from_dtype"] | ArrayLike | None


class Table:
    """Rows of features as float64, converted when they are asked for. Safe to read from several threads.

    Parameters
    ----------
    base : ndarray of shape (n, n_features) or None
        A numeric array that holds all features but those in ``columns``; None if ``columns`` holds all.
    columns : mapping of int to reader
        Features that are read one by one.
    n_rows, n_features : int
    feature_names : tuple of str or None
    rows : ndarray of shape (n_rows,), intp, or None
        Which rows of ``base`` and ``columns`` these are; None for all of them.
    """

    __slots__ = ("_base", "_columns", "_rows", "feature_names", "n_features", "n_rows")

    def __init__(
        self,
        base: NDArray[Any] | None,
        columns: Mapping[int, Reader],
        n_rows: int,
        n_features: int,
        feature_names: tuple[str, ...] | None = None,
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        self._base = base
        self._columns = columns
        self._rows = rows
        self.n_rows = n_rows
        self.n_features = n_features
        self.feature_names = feature_names

    def block(self, start: int, stop: int) -> FloatArray:
        """Rows ``start`` to ``stop``.

        Returns
        -------
        ndarray of shape (stop - start, n_features), float64, C-contiguous
            Missing values are NaN, categories level numbers. A view, perhaps read-only, where the table is such an
            array already: do not write to it.
        """
        index = slice(start, stop) if self._rows is None else self._rows[start:stop]
        if self._base is not None and not self._columns:
            return np.ascontiguousarray(self._base[index], dtype=np.float64)
        if self._base is None:
            # gather by columns, then turn at once: writing columns into rows is three times slower
            turned = np.empty((self.n_features, len(range(self.n_rows)[start:stop])))
            for feature, read in self._columns.items():
                turned[feature] = read(index)
            return np.ascontiguousarray(turned.T)
        result = np.array(self._base[index], dtype=np.float64, order="C")
        for feature, read in self._columns.items():
            result[:, feature] = read(index)
        return result

    def column(self, j: int, rows: NDArray[np.intp] | None = None) -> FloatArray:
        """One feature, of all rows or of some.

        Parameters
        ----------
        j : int
            Position of the feature.
        rows : ndarray of shape (n,), intp, or None

        Returns
        -------
        ndarray of shape (n,) or (n_rows,), float64
            May be a view: do not write to it.
        """
        index = self._index(rows)
        if self._base is not None and j not in self._columns:
            return self._base[index, j].astype(np.float64, copy=False)
        return self._columns[j](index)

    def take(self, rows: ArrayLike) -> Table:
        """The table of these rows only, by position or by mask. Nothing is copied but the positions."""
        chosen = np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.intp, copy=False)
        if self._rows is not None:
            chosen = self._rows[chosen]
        return Table(self._base, self._columns, len(chosen), self.n_features, self.feature_names, chosen)

    def _index(self, rows: NDArray[np.intp] | None) -> Index:
        if self._rows is None:
            return slice(None) if rows is None else rows
        return self._rows if rows is None else self._rows[rows]


@dataclass(frozen=True, eq=False)
class Schema:
    """What a model remembers of its table: enough to read another one in the same way.

    Parameters
    ----------
    n_features : int
    feature_names : tuple of str or None
        None if the training table had no column names, or names that are not text.
    is_categorical : ndarray of shape (n_features,), bool
    categories : tuple
        For each feature the sorted tuple of its levels, or None if it is numeric.
    handle_unknown : {"missing", "error"}
        What becomes of a level that is not in the table.
    """

    n_features: int
    feature_names: tuple[str, ...] | None
    is_categorical: NDArray[np.bool_]
    categories: tuple[tuple[Level, ...] | None, ...]
    handle_unknown: HandleUnknown = "missing"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _all_numeric(self) -> bool:
        return not self.is_categorical.any()

    def read(self, X: Any, *, estimator_name: str = "this model") -> Table:
        """Read a table as the training table was read.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
        estimator_name : str
            What an error or a warning calls the model.

        Returns
        -------
        Table

        Raises
        ------
        ValueError
            If the columns are not those of the training table, in number, name and order; if a numeric column holds
            text; if a level is unknown and ``handle_unknown`` is ``"error"``.
        """
        # the way of a single row through predict: no more than these checks
        if type(X) is np.ndarray and X.dtype.kind in "fiub" and X.ndim == 2 and self._all_numeric and len(X) > 0:
            if self.feature_names is not None:
                self._check_names(None, estimator_name)
            self._check_n_features(X.shape[1], estimator_name)
            return Table(X, {}, X.shape[0], self.n_features, self.feature_names)
        source = open_source(X)
        self._check_names(source.names, estimator_name)
        self._check_n_features(source.n_features, estimator_name)
        check_not_empty(source)
        if source.array is not None:
            columns = {
                j: self._level_reader(j, source.array[:, j]) for j in np.flatnonzero(self.is_categorical).tolist()
            }
        else:
            columns = {j: self._reader(j, raw) for j, raw in enumerate(source.columns)}
        return Table(source.array, columns, source.n_rows, self.n_features, self.feature_names)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, text and numbers that JSON can hold."""
        return {
            "n_features": self.n_features,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "categories": [None if levels is None else list(levels) for levels in self.categories],
            "handle_unknown": self.handle_unknown,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Schema from what ``to_dict`` gave.

        Raises
        ------
        ValueError
            If the data is anything else: it may come from a file that nobody vouches for.
        """
        wanted = {"n_features", "feature_names", "categories", "handle_unknown"}
        if not isinstance(data, Mapping) or set(data) != wanted:
            raise ValueError(f"A schema must be a mapping with exactly the keys {sorted(wanted)}.")
        n_features, categories = data["n_features"], data["categories"]
        if type(n_features) is not int or n_features < 1:
            raise ValueError(f"n_features of a schema must be a positive integer, got {n_features!r:.80}.")
        if not isinstance(categories, list | tuple) or len(categories) != n_features:
            raise ValueError(f"categories of a schema must be a list of {n_features} tables of levels or nulls.")
        if data["handle_unknown"] not in ("missing", "error"):
            raise ValueError(f"handle_unknown must be 'missing' or 'error', got {data['handle_unknown']!r:.80}.")
        names = _checked_names(data["feature_names"], n_features)
        return cls(
            n_features=n_features,
            feature_names=names,
            is_categorical=np.array([levels is not None for levels in categories]),
            categories=tuple(
                None if levels is None else checked_levels(levels, column_label(names, j))
                for j, levels in enumerate(categories)
            ),
            handle_unknown=data["handle_unknown"],
        )

    def _reader(self, feature: int, raw: RawColumn) -> Reader:
        if self.categories[feature] is not None:
            return self._level_reader(feature, raw)
        try:
            return numeric_reader(raw, column_label(self.feature_names, feature))
        except ValueError as error:
            raise ValueError(f"{error} (the column was numeric during fit)") from error

    def _level_reader(self, feature: int, raw: RawColumn) -> Reader:
        label = column_label(self.feature_names, feature)
        values, codes = factorize(raw, label)
        levels = self.categories[feature] or ()
        return partial(
            read_numbers, level_numbers(values, codes, levels, handle_unknown=self.handle_unknown, label=label)
        )

    def _check_n_features(self, n_features: int, estimator_name: str) -> None:
        if n_features != self.n_features:
            raise ValueError(
                f"X has {n_features} features, but {estimator_name} is expecting {self.n_features} features as input."
            )

    def _check_names(self, names: tuple[str, ...] | None, estimator_name: str) -> None:
        """As scikit-learn does, with its words."""
        if names == self.feature_names:
            return
        if names is None:
            warnings.warn(
                f"X does not have valid feature names, but {estimator_name} was fitted with feature names", stacklevel=3
            )
        elif self.feature_names is None:
            warnings.warn(f"X has feature names, but {estimator_name} was fitted without feature names", stacklevel=3)
        else:
            raise ValueError(_names_message(self.feature_names, names))


def learn_schema(
    X: Any,
    *,
    categorical_features: CategoricalFeatures = "from_dtype",
    handle_unknown: HandleUnknown = "missing",
    rows: NDArray[np.intp] | None = None,
) -> tuple[Schema, Table]:
    """Read a training table and learn how to read the next one.

    Parameters
    ----------
    X : array-like or frame of shape (n_rows, n_features)
    categorical_features : "from_dtype", None, or array-like
        ``"from_dtype"``: columns of text and of a frame's category types. None: no column. Otherwise a boolean mask,
        positions, or names; it must list all columns of text.
    handle_unknown : {"missing", "error"}
        What becomes of a level at predict that was not in training.
    rows : ndarray of shape (n,), intp, or None
        The rows whose levels are learned; levels found only in others are read as missing. None for all rows.

    Returns
    -------
    schema : Schema
    table : Table
        All rows of ``X``.
    """
    if handle_unknown not in ("missing", "error"):
        raise ValueError(f"handle_unknown must be 'missing' or 'error', got {handle_unknown!r}.")
    source = open_source(X)
    check_not_empty(source)
    mask = categorical_mask(text_columns(source), source.names, categorical_features)
    readers: dict[int, Reader] = {}
    categories: list[tuple[Level, ...] | None] = [None] * source.n_features
    for j in range(source.n_features):
        label = column_label(source.names, j)
        if mask[j]:
            values, codes = factorize(source.column(j), label)
            seen = np.bincount((codes if rows is None else codes[rows]) + 1, minlength=len(values) + 1)[1:] > 0
            levels = sorted_levels((value for value, occurs in zip(values, seen, strict=True) if occurs), label)
            numbers = level_numbers(values, codes, levels, handle_unknown="missing", label=label)
            categories[j] = levels
            readers[j] = partial(read_numbers, numbers)
        elif source.array is None:
            readers[j] = numeric_reader(source.column(j), label)
    schema = Schema(source.n_features, source.names, mask, tuple(categories), handle_unknown)
    return schema, Table(source.array, readers, source.n_rows, source.n_features, source.names)


def text_columns(source: Source) -> NDArray[np.bool_]:
    """Which columns are categorical by their type, shape (n_features,)."""
    by_type = np.zeros(source.n_features, dtype=np.bool_)
    if source.array is None:
        for j, raw in enumerate(source.columns):
            by_type[j] = is_categorical(raw, column_label(source.names, j))
    return by_type


def categorical_mask(
    by_type: NDArray[np.bool_], names: tuple[str, ...] | None, categorical_features: CategoricalFeatures
) -> NDArray[np.bool_]:
    """Which columns are categorical, shape (n_features,); ``by_type`` is from `text_columns`."""
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return by_type
    listed = _listed_mask(categorical_features, names, len(by_type))
    left_out = np.flatnonzero(by_type & ~listed)
    if len(left_out):
        labels = ", ".join(column_label(names, j) for j in left_out[:5].tolist())
        raise ValueError(
            f"categorical_features leaves out what holds text or categories: {labels}. List it there, use "
            '"from_dtype", or convert it to numbers.'
        )
    return listed


def _listed_mask(listed: CategoricalFeatures, names: tuple[str, ...] | None, n_features: int) -> NDArray[np.bool_]:
    mask = np.zeros(n_features, dtype=np.bool_)
    if listed is None:
        return mask
    if isinstance(listed, str | bytes):
        raise ValueError(
            f'categorical_features must be "from_dtype", None, or a list of columns; got {listed!r}. '
            "A single column is a list of one."
        )
    entries = np.asarray(list(listed) if isinstance(listed, set | frozenset) else listed)
    if entries.ndim != 1:
        raise ValueError(f"categorical_features must be one-dimensional, got an array of shape {entries.shape}.")
    if entries.size == 0:
        return mask
    if entries.dtype == np.bool_:
        if len(entries) != n_features:
            raise ValueError(
                f"categorical_features is a mask of length {len(entries)}, but X has {n_features} features."
            )
        return entries.copy()
    if entries.dtype.kind in "iu":
        outside = entries[(entries < 0) | (entries >= n_features)]
        if len(outside):
            raise ValueError(f"categorical_features has the position {outside[0]}, but X has {n_features} features.")
        mask[entries] = True
        return mask
    if not all(isinstance(entry, str) for entry in entries.tolist()):
        raise ValueError("categorical_features must be a mask of booleans, integer positions, or column names.")
    if names is None:
        raise ValueError("categorical_features has column names, but X has none; give positions or a mask.")
    for entry in entries.tolist():
        if entry not in names:
            raise ValueError(f"categorical_features has {entry!r}, which is not a column of X.")
        mask[names.index(entry)] = True
    return mask


def column_label(names: tuple[str, ...] | None, feature: int) -> str:
    """What an error calls a column."""
    return f"Column {feature}" if names is None else f"Column {names[feature]!r}"


def _names_message(fitted: Sequence[str], given: Sequence[str]) -> str:
    def listing(names: set[str]) -> str:
        shown = sorted(names)
        return "".join(f"- {name}\n" for name in shown[:5]) + ("- ...\n" if len(shown) > 5 else "")

    message = "The feature names should match those that were passed during fit.\n"
    unseen, gone = set(given) - set(fitted), set(fitted) - set(given)
    if unseen:
        message += "Feature names unseen at fit time:\n" + listing(unseen)
    if gone:
        message += "Feature names seen at fit time, yet now missing:\n" + listing(gone)
    if not unseen and not gone:
        message += "Feature names must be in the same order as they were in fit.\n"
    return message


def _checked_names(names: Any, n_features: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if (
        not isinstance(names, list | tuple)
        or len(names) != n_features
        or not all(type(name) is str for name in names)
        or len(set(names)) != n_features
    ):
        raise ValueError(f"feature_names of a schema must be null or {n_features} distinct texts.")
    return tuple(names)
