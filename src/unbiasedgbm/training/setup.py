"""From rows to a booster: bins, features, constraints, start values."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import BinMapper, Bins, content_hash, learn_bins, sample_rows
from unbiasedgbm.ensemble.predict import prepare, raw_predict
from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.exact import Scale, units_sum, weight_unit
from unbiasedgbm.frames import Schema, Table
from unbiasedgbm.kernels import hash_key, hash_rows
from unbiasedgbm.losses import CustomLoss, Loss
from unbiasedgbm.targets import group_numbers
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.booster import Booster, Progress
from unbiasedgbm.training.line import LINE_ROWS, Line, add_line, find_line
from unbiasedgbm.training.loop import Validation
from unbiasedgbm.training.roles import usable_rule
from unbiasedgbm.training.shard import Shard, TrainingData
from unbiasedgbm.training.splitting import FEATURE
from unbiasedgbm.training.workspace import TrainingParameters, make_layout

FloatArray = npt.NDArray[np.float64]

_MAX_COUNT = 65_535

_STREAM_HOLD_OUT = 5

# Of a hash of rows: rows that are read at once, and what bits are mixed with.
_DIGEST_ROWS = 65_536
_DIGEST_STEP = np.uint64(0x632BE59BD9B4E019)
_DIGEST_FACTOR = np.uint64(0x9E3779B97F4A7C15)

# Weights that add up to more are no counts: their sum would leave no room for hessians in a packed word.
MOST_COUNTED = 2.0**32


@dataclass(frozen=True)
class Rows:
    """A table with its target.

    Attributes
    ----------
    table : Table
    y : ndarray of shape (n,), float64
        Class numbers or targets.
    sample_weight : ndarray of shape (n,), float64, or None
    groups : ndarray of shape (n,), uint32, or None
        See `TrainingData`.
    """

    table: Table
    y: FloatArray
    sample_weight: FloatArray | None
    groups: npt.NDArray[np.uint32] | None = None

    def take(self, rows: npt.NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        groups = None if self.groups is None else group_numbers(self.groups[rows])
        return Rows(self.table.take(rows), self.y[rows], weight, groups)

    def digest(self) -> str:
        """Tells these rows from others; their order does not count."""
        return digest_text(digest_of(self.table, self.y, self.sample_weight))

    def counts(self) -> npt.NDArray[np.uint16] | None:
        """Rows that each row stands for: its weight, if all weights are whole numbers."""
        weight = self.sample_weight
        if weight is None or float(weight.max()) == 1.0 or (weight != np.floor(weight)).any():
            return None
        if float(weight.sum()) > MOST_COUNTED:
            return None
        return repetitions(weight)


def digest_of(table: Table, y: FloatArray, weight: FloatArray | None) -> npt.NDArray[np.uint64]:
    """Sum of the hashes of rows, shape (1,): those of several parts of a table add up. No weight is no row."""
    total = np.zeros(1, np.uint64)
    for start in range(0, len(y), _DIGEST_ROWS):
        stop = min(start + _DIGEST_ROWS, len(y))
        own = np.ones(stop - start) if weight is None else weight[start:stop]
        hashes = np.zeros(stop - start, np.uint64)
        for column in (*table.block(start, stop).T, y[start:stop], own):
            # one zero, and one value that is missing
            bits = np.where(np.isnan(column), np.nan, column + 0.0).view(np.uint64)
            hashes = (hashes + bits + _DIGEST_STEP) * _DIGEST_FACTOR
            hashes ^= hashes >> np.uint64(29)
        total += hashes[own > 0].sum(dtype=np.uint64)
    return total


def digest_text(digest: npt.NDArray[np.uint64]) -> str:
    """A digest as model files have it."""
    return f"{int(digest[0]):016x}"


def repetitions(weight: FloatArray) -> npt.NDArray[np.uint16]:
    """Rows that each row stands for, of weights that are whole numbers."""
    return np.minimum(weight, _MAX_COUNT).astype(np.uint16)


def hold_out(rows: Rows, fraction: float | int, stratify: bool, seed: int) -> tuple[Rows, Rows]:
    """Split rows into training and validation rows: those with the smallest hashes of their numbers are held out."""
    n = len(rows.y)
    if rows.groups is not None:
        return _hold_out_groups(rows, rows.groups, fraction, stratify, seed)
    kind = rows.y.astype(np.intp) if stratify else np.zeros(n, np.intp)
    wanted = held_out_counts(np.bincount(kind), fraction)
    if len(wanted) == 1:
        kind = np.zeros(n, np.intp)
    keys = np.empty(n, np.uint64)
    hash_rows(hold_out_key(seed), np.uint64(0), keys)
    held = np.zeros(n, np.bool_)
    for k, count in enumerate(wanted.tolist()):
        members = np.flatnonzero(kind == k)
        if count:
            held[members[np.argpartition(keys[members], count - 1)[:count]]] = True
    return rows.take(np.flatnonzero(~held)), rows.take(np.flatnonzero(held))


def _hold_out_groups(
    rows: Rows, groups: npt.NDArray[np.uint32], fraction: float | int, classify: bool, seed: int
) -> tuple[Rows, Rows]:
    """Hold whole groups out, those with the smallest hashes that fit into the number of rows that was asked for.

    Two groups at least, and rows of every class, are left to train.
    """
    wanted = int(held_out_counts(np.array([len(groups)]), fraction)[0])
    kind = rows.y.astype(np.intp) if classify else np.zeros(len(groups), np.intp)
    n_groups, n_kinds = int(groups.max()) + 1, int(kind.max()) + 1
    keys = np.empty(n_groups, np.uint64)
    hash_rows(hold_out_key(seed), np.uint64(0), keys)
    sizes = np.bincount(groups)
    # row by row of a sparse table: kinds of each group, with their numbers
    pairs, count = np.unique(groups.astype(np.int64) * n_kinds + kind, return_counts=True)
    first = np.searchsorted(pairs, np.arange(n_groups + 1) * n_kinds)
    left = np.bincount(kind, minlength=n_kinds)
    chosen: list[int] = []
    for group in np.argsort(keys, kind="stable").tolist():
        if wanted == 0:
            break
        own = slice(first[group], first[group + 1])
        present = pairs[own] % n_kinds
        if sizes[group] <= wanted and len(chosen) < n_groups - 2 and (left[present] > count[own]).all():
            chosen.append(group)
            wanted -= int(sizes[group])
            left[present] -= count[own]
    if not chosen:
        raise ValueError(
            f"validation_fraction={fraction}: none of the {n_groups} groups is small enough to be held out, with two "
            "groups and every class left to train; give X_val, or a larger share."
        )
    held = np.isin(groups, chosen)
    return rows.take(np.flatnonzero(~held)), rows.take(np.flatnonzero(held))


def hold_out_key(seed: int) -> np.uint64:
    """Key of the hashes that say which rows are held out."""
    return hash_key(seed, _STREAM_HOLD_OUT)


def held_out_counts(sizes: npt.NDArray[np.int64], fraction: float | int) -> npt.NDArray[np.int64]:
    """Rows to hold out of each class, in proportion, or of all rows where one part has no room for all classes.

    Parameters
    ----------
    sizes : ndarray of shape (n_classes,), int64
        Rows of each class.
    fraction : float or int
        Share of all rows, or their number.

    Returns
    -------
    ndarray of shape (n_classes,) or (1,), int64
    """
    n = int(sizes.sum())
    n_rest = int(fraction) if isinstance(fraction, numbers.Integral) else math.ceil(fraction * n)
    if n_rest >= n:
        raise ValueError(f"validation_fraction={fraction} leaves no training rows of {n}; give X_val, or more rows.")
    present = sizes[sizes > 0]
    if len(present) < 2 or present.min() < 2 or len(present) > min(n_rest, n - n_rest):
        return np.array([n_rest])
    exact = sizes * (n_rest / n)
    wanted = np.floor(exact).astype(np.int64)
    # what is left goes to the largest remainders; the first class where they are equal
    order = np.argsort(wanted - exact, kind="stable")
    wanted[order[: n_rest - int(wanted.sum())]] += 1
    wanted = np.minimum(wanted, np.maximum(sizes - 1, 0))
    # what small classes have no room for, the largest ones take
    for k in np.argsort(wanted - sizes, kind="stable"):
        wanted[k] += min(n_rest - int(wanted.sum()), max(int(sizes[k]) - 1, 0) - int(wanted[k]))
    return wanted


def make_features(
    mapper: BinMapper, monotone: npt.NDArray[np.int64], content: npt.NDArray[np.uint64]
) -> npt.NDArray[np.void]:
    """The features as the split search reads them, shape (p,), FEATURE."""
    features = np.zeros(len(mapper.n_bins), FEATURE)
    features["offset"] = mapper.offset()
    features["n_bins"] = mapper.n_bins
    features["column"] = mapper.column()
    features["categorical"] = mapper.categorical
    features["monotone"] = monotone
    features["tie"] = content
    return features


@dataclass(frozen=True)
class Constraints:
    """Monotone signs, shape (p,), and interaction groups, shape (n_groups, p)."""

    monotone: npt.NDArray[np.int64]
    groups: npt.NDArray[np.uint8]


class Start(NamedTuple):
    """Where a fit begins."""

    base: FloatArray
    """(n_outputs,)"""
    trees: TreeEnsemble | None
    """Of a line, or of the model to go on from."""
    n_line: int
    """The first of them, which are a line's."""
    new: bool
    """Whether there are no others, and the line is over the bins of this fit."""


def make_booster(
    rows: Rows,
    extra_weight: FloatArray | None,
    schema: Schema,
    constraints: Constraints,
    parameters: TrainingParameters,
    max_bins: int | None,
    loss: Loss,
    before: tuple[TreeEnsemble, Progress] | None,
    pool: Pool,
) -> tuple[Booster, Shard, Start]:
    """Bin the rows and set a booster on them.

    Parameters
    ----------
    extra_weight : ndarray of shape (n,), float64, or None
        Multiplied with the rows' own weights; does not count as repetition.
    before : tuple or None
        Trees to go on from, and where their training stood.

    Returns
    -------
    booster : Booster
    shard : Shard
        Its rows.
    start : Start
    """
    table, weight = rows.table, _product(rows.sample_weight, extra_weight)
    n_levels = np.array([0 if levels is None else len(levels) for levels in schema.categories], dtype=np.int64)
    mapper = learn_bins(table, schema.is_categorical, n_levels, rows.sample_weight, max_bins, pool)
    relative = weights_are_relative(parameters.split_rule)
    counts = None if relative else rows.counts()
    if relative and weight is not None:
        scale = Scale(float(weight.max()))
        total = scale.value(units_sum(weight, None, scale))
        weight = _product(weight / weight_unit(total, len(weight), scale.top), None)
    bins = mapper.transform(table, pool)
    content = content_hash(bins, mapper.column(), len(rows.y), counts) ^ mapper.edge_hash()
    features = make_features(mapper, constraints.monotone, content)
    data = TrainingData(bins, rows.y, weight, counts, rows.groups)
    if before is None:
        base = loss.start(rows.y, weight)
        sample = partial(_sample, rows, data, mapper, pool)
        progress, start = begin(base, sample, len(rows.y), mapper, constraints, parameters, loss, pool)
    else:
        progress, start = go_on(*before)
    raw, bags = start_raw(start, parameters.n_bags, table, mapper, bins, pool)
    shard = Shard(data, raw, bags, make_layout(parameters, mapper), pool)
    booster = Booster(parameters, loss, shard, mapper, features, constraints.groups, progress, pool)
    return booster, shard, start


def go_on(trees: TreeEnsemble, progress: Progress) -> tuple[Progress, Start]:
    """A fit that goes on from a model."""
    return progress.copy(), Start(trees.base, trees, progress.n_line, False)


def begin(
    base: FloatArray,
    sample: Callable[[], TrainingData],
    n_rows: int,
    mapper: BinMapper,
    constraints: Constraints,
    parameters: TrainingParameters,
    loss: Loss,
    pool: Pool,
) -> tuple[Progress, Start]:
    """A fit before its first iteration, from a line or a constant; ``sample()`` are some of the ``n_rows`` rows."""
    progress = Progress.start(len(mapper.n_bins), loss.n_outputs, parameters.n_bags)
    line = None
    if _wants_line(parameters, loss):
        line = _draw_line(sample(), n_rows, mapper, constraints, parameters, loss, base, pool)
    if line is None:
        return progress, Start(base, None, 0, True)
    progress.importance += line.importance
    progress.start_dispersion = line.dispersion
    progress.n_splits += np.bincount(line.trees.feature[line.trees.left >= 0], minlength=len(mapper.n_bins))
    progress.n_line = line.trees.n_trees
    return progress, Start(base, line.trees, progress.n_line, True)


def _wants_line(parameters: TrainingParameters, loss: Loss) -> bool:
    """Whether a fit looks for a line to begin from."""
    suits = loss.leaf_level is None and not isinstance(loss, CustomLoss)
    if parameters.linear_start and not suits:
        raise ValueError(f"linear_start must be None or False with loss={loss.name!r}, which has no Newton steps.")
    asked = parameters.split_rule == "evidence" if parameters.linear_start is None else parameters.linear_start
    return suits and asked


def _sample(rows: Rows, data: TrainingData, mapper: BinMapper, pool: Pool) -> TrainingData:
    """The rows that a line is learned from."""
    chosen = sample_rows(len(rows.y), wanted=LINE_ROWS)
    if chosen is None:
        return data
    weight = None if data.sample_weight is None else data.sample_weight[chosen]
    counts = None if data.counts is None else data.counts[chosen]
    groups = None if data.groups is None else group_numbers(data.groups[chosen])
    return TrainingData(mapper.transform(rows.table.take(chosen), pool), data.y[chosen], weight, counts, groups)


def _draw_line(
    sample: TrainingData,
    n_rows: int,
    mapper: BinMapper,
    constraints: Constraints,
    parameters: TrainingParameters,
    loss: Loss,
    base: FloatArray,
    pool: Pool,
) -> Line | None:
    """The line that a sample of ``n_rows`` rows tells of, if any."""
    n = len(sample.y)
    n_counted = n if sample.counts is None else int(sample.counts.sum(dtype=np.int64))
    if usable_rule("evidence", None, n_counted, parameters.min_samples_leaf) != "evidence":
        return None
    content, edges = content_hash(sample.bins, mapper.column(), n, sample.counts), mapper.edge_hash()
    features = make_features(mapper, constraints.monotone, content ^ edges)
    # by the bins first, so that a feature has its place in any unit; by the order of their rows last
    order = np.lexsort((_digests(sample.bins, n, mapper.column()), edges, content))
    line = find_line(sample, mapper, features, order, constraints.groups, parameters, loss, base, pool)
    return None if line is None else line._replace(importance=line.importance * (n_rows / n))


def _digests(bins: Bins, n_rows: int, column: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A number for each narrow feature's bins in the order of the rows, shape (p,)."""
    table = bins.narrow.reshape(n_rows, bins.n_bytes)
    digests = [blake2b(table[:, c].tobytes(), digest_size=8).digest() if c >= 0 else bytes(8) for c in column.tolist()]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def start_raw(
    start: Start, n_bags: int, table: Table, mapper: BinMapper, bins: Bins, pool: Pool
) -> tuple[FloatArray, list[FloatArray]]:
    """Raw predictions of a table's rows so far, shape (n, n_outputs), and those of each bag."""
    raw = _raw_after(start, table, mapper, bins, pool)
    if n_bags == 1:
        return raw, [raw]
    if start.new:
        return raw, [raw.copy() for _ in range(n_bags)]
    return raw, [_raw_after(_chain(start, bag, n_bags), table, mapper, bins, pool) for bag in range(n_bags)]


def _raw_after(start: Start, table: Table, mapper: BinMapper, bins: Bins, pool: Pool) -> FloatArray:
    """Raw predictions of a table's rows where a fit begins, shape (n, n_outputs)."""
    base, trees = start.base, start.trees
    if trees is not None and not start.new:
        return raw_predict(prepare(trees), base, table, 0, trees.n_trees, pool)
    raw = np.repeat(base[None], table.n_rows, axis=0)
    if trees is not None:
        add_line(trees, mapper, bins, raw, pool)
    return raw


def _chain(start: Start, bag: int, n_bags: int) -> Start:
    """The line and the trees of one bag as a model of their own."""
    base, trees, n_line, _ = start
    assert trees is not None
    number = np.arange(trees.n_trees)
    shared = number < n_line
    own = trees.take(number[shared | (bag_of(number - n_line, trees.n_outputs, n_bags) == bag)])
    # a line is the same in every bag
    times = np.where(np.arange(own.n_nodes) < own.tree_start[n_line], 1.0, n_bags)
    return Start(base, replace(own, value=own.value * times), n_line, False)


def bag_of(number: Any, n_outputs: int, n_bags: int) -> Any:
    """Bag of a tree by its number, a line not counted: all outputs of the first bag, then of the next, and again."""
    return number // n_outputs % n_bags


def watch(rows: Rows, booster: Booster, start: Start) -> Validation:
    """Rows for a booster to record metrics of."""
    bins = booster.mapper.transform(rows.table, booster.pool)
    raw = _raw_after(start, rows.table, booster.mapper, bins, booster.pool)
    return Validation(bins, rows.y, rows.sample_weight, raw)


def weights_are_relative(split_rule: str) -> bool:
    """Whether weights only say what rows count beside each other, even if they are whole numbers.

    Under the default rule a row is one observation, whatever its weight: it has one role. So a weight is no number of
    rows, neither for the smallest leaf nor for what depends on the size of a table, and its unit means nothing.
    """
    return split_rule == "evidence"


def _product(a: FloatArray | None, b: FloatArray | None) -> FloatArray | None:
    """Product of two weights of every row; None if it is one everywhere."""
    product = (a if b is None else b) if a is None or b is None else a * b
    return None if product is None or (product == 1.0).all() else product
