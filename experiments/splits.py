"""Training, validation and test rows: thirds, stratified by class, decided by the seed alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from experiments.catalogue.table import Table

MINIMUM_CLASS_ROWS = 3
"""A class with fewer training rows than this leaves a multiclass task, in all parts."""


@dataclass(frozen=True)
class Part:
    """Some rows of a table: `X` of shape (n, p), `y` and, where it is known which belong together, `groups` (n,)."""

    X: pd.DataFrame
    y: np.ndarray
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class Parts:
    """The rows of one split. `valid` is None where there is nothing to tune."""

    train: Part
    valid: Part | None
    test: Part


def thirds(y: np.ndarray, seed: int, *, stratify: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Deal the rows into three equal parts.

    Every class is shuffled and dealt like cards, going on where the class before it ended, so that both the classes and
    the parts are as even as they can be.

    Parameters
    ----------
    y : ndarray of shape (n,)
    seed : int
    stratify : bool
        False treats all rows as one class.

    Returns
    -------
    train, valid, test : ndarray of int64
        Sorted row numbers.
    """
    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(y == label) for label in np.unique(y)] if stratify else [np.arange(len(y))]
    deck = np.concatenate([rng.permutation(group) for group in groups])
    hands = np.arange(len(y)) % 3
    return tuple(np.sort(deck[hands == hand]) for hand in rng.permutation(3))


def tuning_parts(table: Table, seed: int, max_rows: int | None = None) -> Parts:
    """Split as the paper does: a third to train, a third to choose parameters, a third to test."""
    return _parts(table, thirds(table.y, seed, stratify=table.task != "regression"), seed, max_rows)


def untuned_parts(table: Table, seed: int, max_rows: int | None = None) -> Parts:
    """Split for methods at their defaults: the same test third, and everything else to train."""
    train, valid, test = thirds(table.y, seed, stratify=table.task != "regression")
    return _parts(table, (np.sort(np.concatenate([train, valid])), None, test), seed, max_rows)


def grouped_parts(table: Table, groups: np.ndarray, seed: int, max_rows: int | None = None) -> Parts:
    """Split by groups of rows: a third of them to test, the others to train.

    Parameters
    ----------
    groups : ndarray of shape (n,)
        Number of each row's group.
    """
    number = np.random.default_rng(seed).permutation(int(groups.max()) + 1)[groups]
    test = number < round((int(groups.max()) + 1) / 3)
    return _parts(table, (np.flatnonzero(~test), None, np.flatnonzero(test)), seed, max_rows, groups)


def _parts(
    table: Table,
    rows: tuple[np.ndarray | None, ...],
    seed: int,
    max_rows: int | None,
    groups: np.ndarray | None = None,
) -> Parts:
    rng = np.random.default_rng([seed, 1])
    train, valid, test = (None if part is None else _at_most(part, max_rows, rng) for part in rows)
    y = table.y
    if table.task == "multiclass":
        y = _frequent_classes(y, train)
        train, valid, test = (None if part is None else part[y[part] >= 0] for part in (train, valid, test))

    def part(rows: np.ndarray | None) -> Part | None:
        if rows is None:
            return None
        own = None if groups is None else groups[rows]
        return Part(table.X.iloc[rows].reset_index(drop=True), y[rows], own)

    return Parts(part(train), part(valid), part(test))


def _at_most(rows: np.ndarray, max_rows: int | None, rng: np.random.Generator) -> np.ndarray:
    if max_rows is None or len(rows) <= max_rows:
        return rows
    return np.sort(rng.choice(rows, max_rows, replace=False))


def _frequent_classes(y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Renumber the classes with enough training rows 0..k-1; the others become -1."""
    labels, counts = np.unique(y[train], return_counts=True)
    kept = labels[counts >= MINIMUM_CLASS_ROWS]
    place = np.clip(np.searchsorted(kept, y), 0, len(kept) - 1)
    return np.where(kept[place] == y, place, -1)
