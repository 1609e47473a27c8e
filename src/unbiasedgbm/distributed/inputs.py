"""Inputs: Dask arrays, data frames and lists of delayed tables become one list of delayed partitions."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask import compute, delayed
from dask.base import is_dask_collection
from dask.delayed import Delayed


def partitions(X: Any, y: Any, sample_weight: Any, suffix: str = "") -> list[Delayed]:
    """Delayed tuples (table, target, weights or None), one a partition.

    Parameters
    ----------
    X, y, sample_weight
        Dask collections or lists of delayed tables, cut at the same rows; a table that is no collection is one
        partition. ``sample_weight`` may be None.
    suffix : str
        What errors append to the names, "_val" for validation rows.
    """
    if isinstance(X, da.Array) and X.ndim != 2:
        raise ValueError(f"Expected 2D array, got an array of {X.ndim} dimensions instead: X{suffix}.")
    tables = pieces(X)
    columns: list[list[Any]] = []
    for name, column in (("y", y), ("sample_weight", sample_weight)):
        cut = [None] * len(tables) if column is None else pieces(_cut_like(column, X, name, suffix))
        if len(cut) != len(tables):
            raise ValueError(
                f"X{suffix} has {len(tables)} partitions, but {name}{suffix} has {len(cut)}. Cut them at the same "
                "rows, for example by taking both from one data frame, or by rechunking."
            )
        columns.append(cut)
    pack = delayed(_pack, pure=False, traverse=False)
    return [pack(*piece) for piece in zip(tables, *columns, strict=True)]


def _pack(table: Any, target: Any, weight: Any) -> tuple[Any, Any, Any]:
    return table, target, weight


def pieces(collection: Any) -> list[Any]:
    """Delayed parts of a collection, in the order of the rows."""
    if isinstance(collection, Delayed):
        return [collection]
    if isinstance(collection, list | tuple) and is_lazy(collection):
        return list(collection)
    if isinstance(collection, da.Array):
        if collection.ndim > 1:
            collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
        blocks: list[Any] = collection.to_delayed().ravel().tolist()
        return blocks
    if is_dask_collection(collection):
        parts = collection.to_delayed() if hasattr(collection, "to_delayed") else None
        if isinstance(parts, list | tuple):
            return list(parts)
        raise TypeError(
            f"A Dask array, a Dask data frame or a list of delayed tables is needed, got {type(collection).__name__}."
        )
    return [delayed(collection, pure=False, traverse=False)]


def is_lazy(X: Any) -> bool:
    """Whether something is a collection or a list of delayed tables."""
    return is_dask_collection(X) or (isinstance(X, list | tuple) and any(isinstance(part, Delayed) for part in X))


def in_memory(*columns: Any) -> tuple[Any, ...]:
    """Columns in this process, computed together; those that are no collections as they are."""
    lazy = [pieces(column) if is_lazy(column) else None for column in columns]
    computed = compute(*lazy)
    return tuple(column if parts is None else _joined(parts) for column, parts in zip(columns, computed, strict=True))


def _joined(parts: list[Any]) -> npt.NDArray[Any]:
    """One array of the parts that have rows: those without may have another type."""
    arrays = [np.asarray(part) for part in parts]
    return np.concatenate([array for array in arrays if len(array)] or arrays[:1])


def _cut_like(column: Any, X: Any, name: str, suffix: str) -> Any:
    """The column, cut where X is, if both know their rows.

    Raises
    ------
    ValueError
        If the column is a single value, or has another number of rows than X.
    """
    if not is_lazy(column):
        column = np.asarray(column)
    elif not isinstance(column, da.Array):
        return column
    if column.ndim == 0:
        raise ValueError(f"{name}{suffix} must have a value for each row of X{suffix}, got a single one.")
    if not isinstance(X, da.Array) or np.isnan([X.shape[0], column.shape[0]]).any():
        return column
    if column.shape[0] != X.shape[0]:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X{suffix} has {X.shape[0]} rows, but "
            f"{name}{suffix} has {column.shape[0]}."
        )
    if isinstance(column, da.Array):
        return column if column.chunks[0] == X.chunks[0] else column.rechunk({0: X.chunks[0]})
    return da.from_array(column, chunks=(X.chunks[0], *column.shape[1:]))
