"""Signs that rows which chose the splits judge them, too, so that noise looks useful."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from unbiasedgbm.ensemble.adapters import TreeModel
from unbiasedgbm.ensemble.adapters.neutral import column_names
from unbiasedgbm.importance.result import FloatArray
from unbiasedgbm.importance.rows import GainRows, RowSet

UIntArray = npt.NDArray[np.uint64]

# Two tables that agree in targets and predictions are one if there are as many different pairs of them. With fewer,
# where a model tells no more than classes apart, sorted tables of different rows agree as well.
_TELLING = 20

# Rows of other tables fall into the leaves of a tree with about 0.5 √(rows · leaves) of them in another leaf than the
# training rows did. Less than this share of that is put down to rounding.
_OTHER_ROWS = 0.1

# A tree of fewer leaves may find as many held-out rows in each by chance.
_TELLING_LEAVES = 5


class TrainingRowsWarning(UserWarning):
    """Training or held-out rows are not those that they should be, which makes noise look useful."""


def check_tables(X_train: Any, X_val: Any, rows: GainRows, given_weight: FloatArray | None) -> str | None:
    """What to warn of if held-out rows are among the training rows, or had a part in training otherwise.

    Parameters
    ----------
    X_train, X_val : tables
    rows : GainRows
        The same rows as the model sees them, in one set each.
    given_weight : ndarray of shape (n_val,), float64, or None
        ``sample_weight_val``.
    """
    (train,), (held,) = rows.train, rows.held
    if _same_table(rows, 2 if X_train is X_val else _TELLING):
        return (
            "X_val and y_val are the training rows: targets and predictions are the same, row by row. Judged by rows "
            "that chose the splits, noise looks useful. Give held-out rows, or use cross_unbiased_gain."
        )
    n_common, n_held, n_expected = common_rows(X_train, train, X_val, held)
    n_excess = n_common - n_expected
    if n_excess > max(2.0, 0.01 * n_held) and n_excess > 5.0 * np.sqrt(n_expected + 1.0):
        return (
            f"{n_common} of the {n_held} rows of X_val are in X_train, too, with the same target. Judged by rows "
            "that chose the splits, noise looks useful. Remove them from X_val."
        )
    stopped_by = getattr(held.rows, "stopped_by", None)
    if stopped_by is not None and stopped_by(held.y, given_weight):
        return (
            "X_val and y_val are the rows that stopped the training of this model early, so they had a part in "
            "choosing its trees. Give rows that had none, or use cross_unbiased_gain."
        )
    return None


def check_leaves(model: TreeModel, train: FloatArray, held: FloatArray) -> str | None:
    """What to warn of if the model was trained on more, fewer or other rows than those given.

    Parameters
    ----------
    model : TreeModel
    train, held : ndarray of shape (n_nodes,), float64
        Training and held-out rows in each leaf of the first tree, or their weights where the model knows weights.
    """
    if model.leaf_rows is None or not len(train):
        return None
    known, given = float(model.leaf_rows.sum()), float(train.sum())
    close = 0.5 + 1e-4 * known
    trained = f"rows that weigh {known:.0f} in all" if model.leaf_weights else f"{known:.0f} rows"
    advice = "Give the rows that fit() was called with as X_train and y_train, and others as X_val and y_val."
    if model.leaf_weights:
        advice += " Weights that fit() was given go into sample_weight_train."
    swapped = (
        (model.leaf_rows > 0.0).sum() >= _TELLING_LEAVES
        and abs(float(held.sum()) - known) < close
        and _distance(held, model.leaf_rows) <= _tolerance(model.leaf_rows)
        and (abs(given - known) >= close or _distance(train, model.leaf_rows) > _tolerance(model.leaf_rows))
    )
    if swapped:
        return f"X_val holds the rows that the model was trained on: are X_train and X_val swapped? {advice}"
    if given + close < known:
        return (
            f"The model was trained on {trained}, but X_train has {given:.0f}: some of the others may be among the "
            f"rows of X_val. {advice}"
        )
    if model.all_rows and given - close > known:
        return f"The model was trained on {trained}, but X_train has {given:.0f}. {advice}"
    if abs(given - known) <= close and (moved := _distance(train, model.leaf_rows)) > _tolerance(model.leaf_rows):
        return (
            f"X_train does not hold the rows that the model was trained on: at least {moved:.0f} of {given:.0f} fall "
            f"into another leaf of its first tree. {advice}"
        )
    return None


def _distance(found: FloatArray, known: FloatArray) -> float:
    """Rows that must have moved to other leaves."""
    return 0.5 * float(np.abs(found - known).sum())


def _tolerance(known: FloatArray) -> float:
    return max(
        1.0, 1e-5 * float(known.sum()), _OTHER_ROWS * float(np.sqrt(known.sum() * max((known > 0.0).sum() - 1, 0)))
    )


def _same_table(rows: GainRows, telling: int) -> bool:
    """Whether the held-out rows have the targets and predictions of the training rows, one by one.

    Parameters
    ----------
    telling : int
        Different pairs of target and prediction that there must be, among rows with weight on both sides.
    """
    (train,), (held,) = rows.train, rows.held
    if train.y.shape != held.y.shape or not (train.y == held.y).all():
        return False
    (expected, predicted), sample = rows.expected, rows.samples[0]
    if not np.array_equal(expected, predicted) or (expected == expected[0]).all():
        return False
    present = np.ones(len(sample), dtype=np.bool_)
    for part in (train, held):
        if part.weight is not None:
            present &= part.weight[sample] > 0.0
    pairs = np.column_stack([train.y[sample], expected])[present]
    return len(np.unique(pairs, axis=0)) >= telling


def common_rows(X_train: Any, train: RowSet, X_val: Any, held: RowSet) -> tuple[int, int, float]:
    """Number of held-out rows that are training rows, too; of all of them; and of twins that chance would make.

    Tables of few different values hold the same row more than once; where the training rows do, as large a share of the
    held-out rows is expected to have a twin among them. Tables whose columns cannot be seen have none in common, and
    rows of weight zero are absent.
    """
    keys: list[UIntArray] = []
    sides = (_columns(X_train), train), (_columns(X_val), held)
    if any(columns is None for columns, _ in sides) or train.y.ndim != held.y.ndim:
        return 0, len(held.y), 0.0
    numbers = [all(map(_is_number, pair)) for pair in zip(*(columns or [] for columns, _ in sides), strict=False)]
    for text in (False, True):
        # Text takes much longer, and is only looked at if the numbers agree.
        found = [_keys(columns or [], rows.y, numbers, text)[rows.masses() > 0.0] for columns, rows in sides]
        keys = [own + other for own, other in zip(keys, found, strict=True)] if keys else found
        n_common = int(np.isin(keys[1], keys[0]).sum())
        if n_common == 0:
            return 0, len(keys[1]), 0.0
    _, place, counts = np.unique(keys[0], return_inverse=True, return_counts=True)
    return n_common, len(keys[1]), float((counts[place] > 1).mean()) * len(keys[1])


def _columns(X: Any) -> list[Any] | None:
    """The columns of a table as arrays or narwhals series; None if it shows none."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return list(X.T)
    if isinstance(X, list | tuple):
        return _columns(np.asarray(X, dtype=object))
    if not column_names(X):
        return None
    try:
        frame = nw.from_native(X, eager_only=True)
    except (TypeError, ValueError, nw.exceptions.NarwhalsError):
        return None
    return [frame[:, j] for j in range(frame.shape[1])]


def _keys(columns: Iterable[Any], y: FloatArray, numbers: list[bool], text: bool) -> UIntArray:
    """A key for each row, from its target and its numeric columns, or from the other columns alone."""
    keys = np.zeros(len(y), dtype=np.uint64)
    if not text:
        for column in np.atleast_2d(y.T):
            keys = _mixed(keys, _bits(column))
    for column, is_number in zip(columns, numbers, strict=False):
        if is_number != text:
            keys = _mixed(keys, _text_bits(column) if text else _bits(_as_float(column)))
    return keys


def _as_float(column: Any) -> FloatArray:
    if isinstance(column, np.ndarray):
        return column.astype(np.float64)
    values: FloatArray = column.cast(nw.Float64).fill_null(float("nan")).to_numpy().astype(np.float64)
    return values


def _is_number(column: Any) -> bool:
    if isinstance(column, np.ndarray):
        return column.dtype.kind in "biuf"
    return bool(column.dtype.is_numeric() or column.dtype == nw.Boolean)


def _bits(values: FloatArray) -> UIntArray:
    # one zero, and one value that is missing
    bits: UIntArray = np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)
    return bits


def _text_bits(column: Any) -> UIntArray:
    values = column.to_list() if hasattr(column, "to_list") else column.tolist()
    return np.array([hash(str(value)) & 0xFFFFFFFFFFFFFFFF for value in values], dtype=np.uint64)


def _mixed(keys: UIntArray, bits: UIntArray) -> UIntArray:
    keys = (keys + bits + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed: UIntArray = keys ^ (keys >> np.uint64(29))
    return mixed
