"""Inputs: Dask arrays, data frames and lists of delayed tables become one list of delayed partitions."""

from __future__ import annotations

from typing import Any

import dask.array as da
from dask import delayed
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
        cut = [None] * len(tables) if column is None else pieces(_cut_like(column, X))
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
    if isinstance(collection, list | tuple) and any(isinstance(piece, Delayed) for piece in collection):
        return list(collection)
    if isinstance(collection, da.Array):
        if collection.ndim > 1:
            collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
        blocks: list[Any] = collection.to_delayed().ravel().tolist()
        return blocks
    if is_dask_collection(collection) and hasattr(collection, "to_delayed"):
        return list(collection.to_delayed())
    if is_dask_collection(collection):
        raise TypeError(
            f"A Dask array, a Dask data frame or a list of delayed tables is needed, got {type(collection).__name__}."
        )
    return [delayed(collection, pure=False, traverse=False)]


def _cut_like(column: Any, X: Any) -> Any:
    """The column, cut where X is, if both know their rows."""
    if not isinstance(X, da.Array) or any(size != size for size in X.chunks[0]):
        return column
    if isinstance(column, da.Array):
        known = not any(size != size for size in column.chunks[0])
        if known and column.chunks[0] != X.chunks[0] and column.shape[0] == X.shape[0]:
            return column.rechunk({0: X.chunks[0]})
        return column
    if not is_dask_collection(column) and hasattr(column, "shape") and column.shape[0] == X.shape[0]:
        return da.from_array(column, chunks=(X.chunks[0], *column.shape[1:]))
    return column
