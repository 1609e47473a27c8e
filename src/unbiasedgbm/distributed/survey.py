"""Surveys: what each partition says of its columns, targets and weights, and what all of them agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.categories import Level, as_level, sorted_levels
from unbiasedgbm.columns import factorize, holds_numbers
from unbiasedgbm.frames import Schema, categorical_mask, column_label, text_columns
from unbiasedgbm.sources import Source, check_not_empty, open_source
from unbiasedgbm.targets import distinct_labels, finite_numbers, read_target, read_weight

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PartSurvey:
    """What a partition says before anything is agreed.

    Attributes
    ----------
    n_rows : int
        Rows of the table.
    names : tuple of str or None
    text : ndarray of shape (n_features,), bool
        Columns that are categorical by their type.
    target : ndarray
        Distinct classes, or the smallest and the largest target; empty if no row has weight.
    """

    n_rows: int
    names: tuple[str, ...] | None
    text: npt.NDArray[np.bool_]
    target: npt.NDArray[Any]


def present_rows(weight: FloatArray | None) -> npt.NDArray[np.intp] | None:
    """Rows whose weight is positive; None for all."""
    return None if weight is None or weight.all() else np.flatnonzero(weight)


def read_part_weight(weight: Any, name: str) -> FloatArray | None:
    """Weights of a partition, which may all be zero: only all partitions together may not."""
    return read_weight(weight, name, whole=False)


def n_rows_of(X: Any) -> int:
    """Rows of a partition's table."""
    shape = getattr(X, "shape", ())
    return int(shape[0]) if shape else open_source(X).n_rows


def check_some_rows(n_rows: int, n_features: int) -> None:
    """Raise if all partitions together have no rows."""
    check_not_empty(Source(n_rows, n_features, None, None))


def read_part_target(y: Any, weight: FloatArray | None, n_rows: int, suffix: str) -> npt.NDArray[Any]:
    """Target of a partition, which may have no rows."""
    if n_rows == 0 and np.size(y) == 0 and (weight is None or len(weight) == 0):
        return np.asarray(y).reshape(-1)
    return read_target(y, weight, n_rows, f"y{suffix}", f"sample_weight{suffix}")


def survey_part(X: Any, y: Any, weight: Any, classify: bool) -> PartSurvey:
    """Look at one partition of the training rows."""
    source = open_source(X)
    weights = read_part_weight(weight, "sample_weight")
    target = read_part_target(y, weights, source.n_rows, "")
    rows = present_rows(weights)
    target = target if rows is None else target[rows]
    if classify:
        summary = distinct_labels(target)
    elif len(target):
        values = finite_numbers(target, "y")
        summary = np.array([values.min(), values.max()])
    else:
        summary = target[:0]
    text = text_columns(source) if source.n_rows else np.zeros(source.n_features, np.bool_)
    return PartSurvey(source.n_rows, source.names, text, summary)


def agree_columns(parts: Sequence[PartSurvey]) -> tuple[tuple[str, ...] | None, npt.NDArray[np.bool_]]:
    """Names and categorical types of the columns of all partitions.

    Raises
    ------
    ValueError
        If the partitions have different columns, or no rows.
    """
    filled = [part for part in parts if part.n_rows]
    check_some_rows(sum(part.n_rows for part in filled), len((filled or parts)[0].text))
    first = filled[0]
    for part in filled:
        if part.names != first.names or len(part.text) != len(first.text):
            raise ValueError(
                f"Partitions of X have different columns: {list(first.names or range(len(first.text)))} and "
                f"{list(part.names or range(len(part.text)))}."
            )
    return first.names, np.logical_or.reduce([part.text for part in filled])


def agree_target(parts: Sequence[PartSurvey]) -> npt.NDArray[Any]:
    """Distinct classes of all partitions, or smallest and largest targets of each."""
    found = [part.target for part in parts if len(part.target)]
    if not found:
        raise ValueError("sample_weight is zero in every row.")
    kinds = {target.dtype.kind for target in found}
    if len(kinds) > 1 and not kinds <= set("biuf"):
        # as they are: NumPy would make text of numbers next to text
        found = [target.astype(object) for target in found]
    return np.concatenate(found)


@dataclass(frozen=True)
class ColumnLevels:
    """Levels of one categorical column in one partition.

    Attributes
    ----------
    levels : set of str, int, float or bool
    numbers : bool
        Whether cells are numbers, so that True is a 1.
    """

    levels: frozenset[Level]
    numbers: bool


def survey_levels(X: Any, weight: Any, mask: npt.NDArray[np.bool_]) -> dict[int, ColumnLevels]:
    """Levels of a partition's categorical columns in rows that have weight."""
    source = open_source(X)
    rows = present_rows(read_part_weight(weight, "sample_weight"))
    found: dict[int, ColumnLevels] = {}
    if source.n_rows == 0:
        return found
    for j in np.flatnonzero(mask).tolist():
        column = source.column(j)
        values, codes = factorize(column, column_label(source.names, j))
        seen = np.bincount((codes if rows is None else codes[rows]) + 1, minlength=len(values) + 1)[1:] > 0
        levels = [as_level(value) for value, occurs in zip(values, seen, strict=True) if occurs]
        kept = frozenset(level for level in levels if level is not None)
        typed = any(not isinstance(level, str | bool) for level in kept)
        found[j] = ColumnLevels(kept, typed or holds_numbers(column))
    return found


def agree_schema(
    names: tuple[str, ...] | None,
    text: npt.NDArray[np.bool_],
    categorical_features: Any,
    levels: Sequence[dict[int, ColumnLevels]],
    handle_unknown: Any,
) -> Schema:
    """How all partitions are read: the table of levels that a table of all rows would give."""
    mask = categorical_mask(text, names, categorical_features)
    categories: list[tuple[Level, ...] | None] = [None] * len(mask)
    for j in np.flatnonzero(mask).tolist():
        parts = [part[j] for part in levels if j in part]
        numbers = any(part.numbers for part in parts)
        union: set[Level] = set()
        for part in parts:
            union |= {int(level) if numbers and isinstance(level, bool) else level for level in part.levels}
        categories[j] = sorted_levels(union, column_label(names, j))
    return Schema(len(mask), names, mask, tuple(categories), handle_unknown)
