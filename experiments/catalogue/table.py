"""A prepared table: features and target ready for the methods, and the checksum that identifies it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from experiments.catalogue.entry import Entry

TARGET = "target"


@dataclass(frozen=True)
class Table:
    """Features and target of one task.

    Parameters
    ----------
    name : str
        As asked for, including its view, see :meth:`~experiments.catalogue.loading.TableSource.load`.
    task : {"binary", "multiclass", "regression"}
    X : DataFrame of shape (n, p)
        Numbers, and ``category`` columns whose levels are text.
    y : ndarray of shape (n,)
        int64 labels 0..k-1, or float64.
    """

    name: str
    task: str
    X: pd.DataFrame
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)


def is_category(column: pd.Series) -> bool:
    """Tell whether a column is handed to the libraries as categories: everything that is not a number."""
    return not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype)


def checksum(frame: pd.DataFrame) -> str:
    """SHA-256 of a prepared table, target included.

    It depends on the names, the kinds and the values of the columns, in order, and neither on the file format nor on
    the version of pandas: numbers count as little-endian float64 with one NaN, everything else as text with one
    missing mark.
    """
    digest = hashlib.sha256()
    for name, column in frame.items():
        kind = "category" if is_category(column) else "number"
        digest.update(f"{name}\x1f{kind}\x1e".encode())
        if kind == "number":
            values = column.to_numpy(dtype="<f8", na_value=np.nan)
            digest.update(np.where(np.isnan(values), np.nan, values).astype("<f8").tobytes())
        else:
            text = column.astype(object).map(lambda value: "\x00" if pd.isna(value) else str(value))
            digest.update("\x1f".join(text).encode())
    return digest.hexdigest()


def make_table(entry: Entry, frame: pd.DataFrame, *, name: str, task: str) -> Table:
    """Turn a prepared frame into a task.

    Parameters
    ----------
    entry : Entry
    frame : DataFrame
        The prepared table, target last.
    name : str
        The table's name in the store.
    task : {"binary", "multiclass", "regression"}
        `entry.task`, or `entry.raw_task` to use the target before it was made binary.
    """
    X = frame.drop(columns=TARGET)
    for column in X.columns[[is_category(X[column]) for column in X]]:
        X[column] = _text_levels(X[column])
    return Table(name, task, X, _target(entry, frame[TARGET], task))


def _text_levels(column: pd.Series) -> pd.Series:
    """Return the column as unordered categories of text, only levels that occur, in sorted order."""
    text = column.astype(object).map(str, na_action="ignore")
    return text.astype(pd.CategoricalDtype(sorted(text.dropna().unique())))


def _target(entry: Entry, column: pd.Series, task: str) -> np.ndarray:
    if task == "regression":
        return column.to_numpy(dtype=np.float64)
    values = column.to_numpy()
    if entry.binarise is not None and task == "binary":
        return entry.binarise(values)
    labels = np.unique(values.astype(str), return_inverse=True)[1].astype(np.int64)
    if task == "binary" and labels.max() != 1:
        raise ValueError(f"{entry.name}: {labels.max() + 1} classes, but the catalogue says binary and gives no rule")
    return labels
