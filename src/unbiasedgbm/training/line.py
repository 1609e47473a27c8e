"""The line that a fit begins from, where the rows say that there is one.

Trees climb a slope in steps, many small ones. So a short chain of trees goes ahead and looks for a line beside them, in
the values and the ranks of numeric features and the levels of categories: in every iteration S1 says which way (a ridge
step), S2 how far, and not at all where it does not agree. Over bins, such a line is one tree for each feature; these
trees come before the first iteration, and nothing but the number of them tells a model with a line from one without.

Sums that depend on the order of rows would make models differ by threads and workers, so the features are whole
numbers here, and so are gradients and slopes: products of matrices are exact, whoever adds them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import MOST_NARROW, BinMapper, Bins
from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.kernels import hash_key
from unbiasedgbm.losses import Loss
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.booster import Booster, Progress
from unbiasedgbm.training.harvest import GrownTree, to_ensemble
from unbiasedgbm.training.nodes import NODE_TYPE
from unbiasedgbm.training.shard import Shard, TrainingData
from unbiasedgbm.training.workspace import TrainingParameters, make_layout

FloatArray = npt.NDArray[np.float64]

# Rows that a line is learned from, about: more of them say nothing new of so few numbers.
LINE_ROWS = 20_000

# Numeric features of a line, and functions of all its features, at most: the work grows with their square; and its
# trees, one for each feature and output.
MOST_FEATURES = 256
_MOST_FUNCTIONS = 512
MOST_TREES = 1024

# The chain of trees that goes ahead.
_N_ITERATIONS = 20
_NUM_LEAVES = 31
_RATE = 0.2

# A line is drawn if rows that did not choose its first step find it so many standard errors from useless.
_SURE = 3.0

_STREAM_LINE = 6

# Rows that the ridge adds to those that a slope is learned from, and to those of a level.
_RIDGE = 1.0
_LEVEL_RIDGE = 5.0

# Leaves of a feature's part of a line, and their rows: enough of them to be judged by others.
_MOST_LEAVES = 64
_LEAF_ROWS = 20

# A standardised feature ends so many standard deviations from its mean, and has so many whole numbers in one of them.
_END = 8.0
_FINE = 512.0

# Bits of a gradient, a slope, and a weight: with twelve of a feature and fifteen of the rows, sums stay below 53.
_BITS = 24
_WEIGHT_BITS = 12

_BLOCK_ROWS = 1024


class Line(NamedTuple):
    """A line as a part of a model."""

    trees: TreeEnsemble
    """For each feature that it rises or falls with, a tree for each output."""
    importance: FloatArray
    """(p,) what leaving a feature out of the steps would cost S2, in units of the loss summed over the rows."""
    dispersion: float
    """What a unit of noise was worth before the line; see `Progress`."""


def find_line(
    data: TrainingData,
    mapper: BinMapper,
    features: npt.NDArray[np.void],
    order: npt.NDArray[np.intp],
    groups: npt.NDArray[np.uint8],
    parameters: TrainingParameters,
    loss: Loss,
    base: FloatArray,
    pool: Pool,
) -> Line | None:
    """The line of some rows, or None if they do not say that there is one.

    Parameters
    ----------
    data : TrainingData
    mapper : BinMapper
    features : ndarray of shape (p,), FEATURE
    order : ndarray of shape (p,), intp
        The features in an order that does not depend on the table's.
    groups : ndarray of shape (n_groups, p), uint8
    parameters : TrainingParameters
        Of the fit that begins from the line.
    loss : Loss
    base : ndarray of shape (n_outputs,), float64
        Where raw predictions start.
    pool : Pool
    """
    room = MOST_TREES // loss.n_outputs
    columns = _columns(data, mapper, features, order)
    if sum(column.levels is None for column in columns) > room:
        return None
    columns = columns[:room]
    if not columns:
        return None
    raw = np.repeat(base[None], len(data.y), axis=0)
    scout = replace(
        parameters,
        split_rule="evidence", role_ratio=None, role_draw="tree", n_bags=1, num_leaves=_NUM_LEAVES, max_depth=None,
        learning_rate=_RATE, min_split_gain=0.0, subsample=1.0, colsample_bytree=1.0, colsample_bynode=1.0,
        seed=int(hash_key(parameters.seed, _STREAM_LINE) >> np.uint64(1)),
    )  # fmt: skip
    shard = Shard(data, raw, [raw], make_layout(scout, mapper), pool)
    progress = Progress.start(len(features), loss.n_outputs, 1)
    booster = Booster(scout, loss, shard, mapper, features, groups, progress, pool)
    slopes = Slopes(shard, columns, pool)
    for _ in range(_N_ITERATIONS):
        booster.iterate()
        slopes.step()
        if not slopes.sure.any() or booster.exhausted:
            break
    if not slopes.total.any():
        return None
    importance = np.zeros(len(features))
    importance[[column.feature for column in columns]] = slopes.worth
    trees = [
        (_tree if column.levels is None else _level_tree)(column, slopes.total[output, own], output)
        for column, own in zip(columns, slopes.blocks, strict=True)
        for output in range(loss.n_outputs)
    ]
    return Line(to_ensemble(mapper, base, trees), importance, progress.start_dispersion)


def add_line(trees: TreeEnsemble, mapper: BinMapper, bins: Bins, raw: FloatArray, pool: Pool) -> None:
    """Add a line to the raw predictions of binned rows, as walking its trees would.

    Parameters
    ----------
    trees : TreeEnsemble
        Of a line and nothing else.
    mapper : BinMapper
    bins : Bins
    raw : ndarray of shape (n, n_outputs), float64
    pool : Pool
    """
    feature = np.maximum(trees.feature[trees.tree_start[:-1]], 0)
    height = _heights(trees, mapper, feature)
    column, table = mapper.column()[feature].tolist(), bins.narrow.reshape(len(raw), bins.n_bytes)

    def work(begin: int, end: int) -> None:
        # so few rows at a time that their bins stay in the nearest cache
        for first in range(begin, end, _BLOCK_ROWS):
            rows = slice(first, min(first + _BLOCK_ROWS, end))
            for k, output in enumerate(trees.output.tolist()):
                raw[rows, output] += height[k][table[rows, column[k]]]

    pool.run(work, pool.blocks(len(raw), _BLOCK_ROWS))


def _heights(trees: TreeEnsemble, mapper: BinMapper, feature: npt.NDArray[np.int32]) -> FloatArray:
    """What each tree of a line adds in each bin of its feature, shape (n_trees, 256)."""
    value = np.full((len(feature), MOST_NARROW), np.inf)
    value[:, 0] = np.nan
    for k, j in enumerate(feature.tolist()):
        # a bin's last value
        value[k, 1 : len(mapper.edges[j]) + 1] = mapper.edges[j]
    root = trees.tree_start[:-1, None]
    node = np.repeat(root, MOST_NARROW, axis=1)
    # sets are read word by word; those of other nodes, and what lies behind a set's end, are empty
    sets, (word, bit) = np.append(trees.sets, np.uint64(0)), np.divmod(np.arange(MOST_NARROW), 64)
    while (inner := trees.left[node] >= 0).any():
        left = np.where(np.isnan(value), trees.missing_left[node], value <= trees.threshold[node])
        own = sets[np.where(word < trees.set_words[node], trees.set_start[node] + word, -1)]
        left = np.where(trees.set_start[node] >= 0, (own >> bit.astype(np.uint64)) & np.uint64(1) != 0, left)
        node = np.where(inner, root + trees.left[node] + ~left, node)
    return trees.value[node]


class Column(NamedTuple):
    """A feature of a line."""

    feature: int
    bins: npt.NDArray[np.uint8]
    """(n,) bin of each row."""
    n_rows: npt.NDArray[np.int64]
    """(n_bins,) rows of each bin."""
    value: FloatArray
    """(k, n_bins) functions of the bin, in whole numbers. Of a number one or two, standardised; 0 for missing values.
    Of a category, one for each of ``levels``: whether it is this one, less the mean."""
    levels: npt.NDArray[np.intp] | None
    """(k,) bins of a category that have enough rows; None for a number."""


def _columns(
    data: TrainingData, mapper: BinMapper, features: npt.NDArray[np.void], order: npt.NDArray[np.intp]
) -> list[Column]:
    """The features that vary and that nobody constrains, in a given order, numbers first."""
    suitable = (mapper.n_bins > 2) & (features["monotone"] == 0)
    numeric = order[(suitable & ~mapper.categorical)[order]].tolist()
    categorical = order[(suitable & mapper.categorical & mapper.narrow)[order]].tolist()
    if len(numeric) > MOST_FEATURES:
        return []
    table = data.bins.narrow.reshape(len(data.y), data.bins.n_bytes)
    weight = _whole_weights(data.sample_weight)
    columns = []
    n_functions = 0
    for j in numeric + categorical:
        bins = np.ascontiguousarray(table[:, features["column"][j]])
        n_rows = np.bincount(bins, minlength=mapper.n_bins[j])
        mass = np.bincount(bins, weight, mapper.n_bins[j]).astype(np.float64)
        levels = None
        if mapper.categorical[j]:
            levels = np.flatnonzero((n_rows >= _LEAF_ROWS) & (mass > 0.0))
            n_leaves = len(levels) + (n_rows.sum() - n_rows[levels].sum() >= _LEAF_ROWS)
            if n_leaves < 2 or len(levels) > min(_MOST_LEAVES, _MOST_FUNCTIONS - n_functions):
                continue
            value = np.rint((np.eye(len(mass))[levels] - mass[levels, None] / mass.sum()) * _FINE)
        else:
            value = _numeric_functions(mapper.edges[j], mass[1:])
        if len(value):
            columns.append(Column(j, bins, n_rows, value, levels))
            n_functions += len(value)
    return columns


def _numeric_functions(edges: FloatArray, mass: FloatArray) -> FloatArray:
    """Values and ranks of the bins of a number, of which each has a mass; shape (k, n_bins)."""
    # a feature of two values has one line
    shapes = [_middles(edges), np.cumsum(mass) - 0.5 * mass][: len(mass) - 1]
    found = [value for shape in shapes if (value := _standardised(shape, mass)) is not None]
    return np.array([np.append(0.0, value) for value in found])


def _whole_weights(weight: FloatArray | None) -> FloatArray | None:
    """Weights as whole numbers of few bits."""
    if weight is None:
        return None
    return np.rint(np.ldexp(weight, _WEIGHT_BITS - int(np.frexp(weight.max())[1])))


def _middles(edges: FloatArray) -> FloatArray:
    """A value for each bin, in any unit: its middle, and for the first and the last, half a bin beyond the edge."""
    if len(edges) == 1:
        return np.array([0.0, 1.0])
    finite = edges[np.isfinite(edges)]
    if not len(finite):
        return np.zeros(len(edges) + 1)
    edges = np.clip(edges, finite.min(), finite.max())
    # in units of the largest, so that no square is too large or too small
    edges = np.ldexp(edges, -int(np.frexp(np.abs(edges).max())[1]))
    ends = 1.5 * edges[[0, -1]] - 0.5 * edges[[1, -2]]
    return np.concatenate([ends[:1], edges[:-1] + 0.5 * np.diff(edges), ends[1:]])


def _standardised(value: FloatArray, mass: FloatArray) -> FloatArray | None:
    """Values less their mean, in units of their deviation, as whole numbers; None if that cannot be said."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value = value - (value * mass).sum() / mass.sum()
        deviation = np.sqrt((value * value * mass).sum() / mass.sum())
        scaled = value / deviation
    return np.rint(np.clip(scaled, -_END, _END) * _FINE) if np.isfinite(scaled).all() else None


class Slopes:
    """Slopes that are found step by step beside a chain of trees.

    Parameters
    ----------
    shard : Shard
        Rows of the chain; their raw predictions are advanced by every step.
    columns : sequence of Column
    pool : Pool

    Attributes
    ----------
    total : ndarray of shape (n_outputs, m), float64
        Sum of all steps, for each function of each column.
    sure : ndarray of shape (n_outputs,), bool
        Outputs that have a line.
    blocks : list of slices
        The functions of each column.
    worth : ndarray of shape (n_columns,), float64
        What leaving a column out of each step would have cost S2, in units of the loss summed over the rows.
    """

    def __init__(self, shard: Shard, columns: Sequence[Column], pool: Pool) -> None:
        n_outputs = shard.raw.shape[1]
        self._shard, self._pool = shard, pool
        self._rows = [slice(k, k + _BLOCK_ROWS) for k in range(0, shard.n, _BLOCK_ROWS)]
        self._ridge = np.array([_RIDGE if c.levels is None else _LEVEL_RIDGE for c in columns for _ in c.value])
        ends = np.cumsum([0, *(len(column.value) for column in columns)]).tolist()
        self.blocks = [slice(*pair) for pair in pairwise(ends)]
        self._matrix = np.empty((shard.n, ends[-1]))
        for column, own in zip(columns, self.blocks, strict=True):
            self._matrix[:, own] = column.value[:, column.bins].T
        # in units of the heaviest, so that no product is too large or too small
        self._exponent = int(np.frexp(shard.max_weight)[1])
        self._weight = np.ldexp(shard.weight if shard.weighted else np.ones(shard.n), -self._exponent)
        self._square = self._sum_squares()
        # of functions of the same column
        column_of = np.repeat(np.arange(len(columns)), np.diff(ends))
        self._within = np.where(column_of[:, None] == column_of, self._square, 0.0)
        self._inverse: FloatArray | None = None
        self.total = np.zeros((n_outputs, ends[-1]))
        self.sure = np.ones(n_outputs, dtype=np.bool_)
        self.worth = np.zeros(len(columns))

    def step(self) -> None:
        """One step of every output, from the gradients and by the roles of the chain's last iteration."""
        shard, weight = self._shard, self._weight
        first, second = shard.roles == 0, shard.roles == 1
        hessian = (shard.h[:, first] * weight[first]).sum(axis=1) / shard.n
        if not hessian.min() > 0.0:
            self.sure[:] = False
            return
        if self._inverse is None:
            unit = weight.mean() / hessian.mean()
            self._inverse = _inverse(self._square + np.diag(self._ridge * unit))
        for output in np.flatnonzero(self.sure).tolist():
            g, h = shard.g[output] * weight, shard.h[output] * weight
            # S1: which way
            whole, unit = _whole(g)
            sums = self._sum_products(np.stack([whole * first, whole * second])) / unit / _FINE
            way, fine = _whole(-(self._inverse * sums[0]).sum(axis=1) / hessian[output])
            # S2: how far
            rise = self._rise(way) / fine / _FINE
            way /= fine
            found = -(g * rise)[second]
            if not self.total[output].any() and not self._is_sure(found, second):
                self.sure[output] = False
                continue
            square = (h * rise * rise)[second].sum()
            length = _RATE * min(max(found.sum() / max(square, 1e-300), 0.0), 1.0)
            self.total[output] += length * way
            shard.raw[:, output] += length * rise
            self._judge(way, sums[1] * (weight.sum() / weight[second].sum()), h.sum() / shard.n)

    def _is_sure(self, found: FloatArray, second: npt.NDArray[np.bool_]) -> bool:
        """Whether what the rows of S2 find, each of them as often as it counts, is far enough above zero.

        Rows of a group are one observation.
        """
        groups = self._shard.data.groups
        if groups is not None:
            squares: FloatArray = np.bincount(groups[second], found).astype(np.float64) ** 2
        else:
            squares = found * found / (self._shard.counts[second] if self._shard.counted else 1.0)
        return bool(found.sum() > _SURE * np.sqrt(squares.sum()))

    def _judge(self, way: FloatArray, gradient: FloatArray, hessian: float) -> None:
        """Add to each column's worth what the step would have lost without it, by S2's gradients."""
        push = -gradient - hessian * ((self._square - 0.5 * self._within) * way).sum(axis=1)
        worth = np.add.reduceat(way * push, [own.start for own in self.blocks])
        self.worth += np.ldexp(worth, self._exponent)

    def _sum_squares(self) -> FloatArray:
        """The functions' products, summed over rows as if their mean weight were one, shape (m, m)."""
        weight = _whole_weights(self._shard.weight if self._shard.weighted else None)
        if weight is None:
            return self._matrix.T @ self._matrix / _FINE**2
        square = np.zeros((self._matrix.shape[1],) * 2)
        for rows in self._rows:
            square += (self._matrix[rows] * weight[rows, None]).T @ self._matrix[rows]
        return square * (len(weight) / weight.sum()) / _FINE**2

    # The products of every step are einsum's. Those of NumPy's BLAS are no faster, and its threads, as many as the
    # machine has cores, stay awake for a while after each of them, beside those that grow trees.

    def _sum_products(self, values: FloatArray) -> FloatArray:
        """Sums over the rows of each function times each of the values of shape (k, n); all are whole numbers."""

        def work(rows: slice) -> FloatArray:
            return np.einsum("ki,ij->kj", values[:, rows], self._matrix[rows])

        return sum(self._pool.run(work, [(rows,) for rows in self._rows]))

    def _rise(self, way: FloatArray) -> FloatArray:
        """Every row's sum of its functions' values times a step of theirs, shape (n,); all are whole numbers."""

        def work(rows: slice) -> FloatArray:
            return np.einsum("ij,j->i", self._matrix[rows], way)

        return np.concatenate(self._pool.run(work, [(rows,) for rows in self._rows]))


def _whole(values: FloatArray) -> tuple[FloatArray, float]:
    """Values as whole numbers of few bits, and how many of them are one."""
    top = float(np.abs(values).max())
    unit = 2.0 ** (_BITS - np.frexp(top)[1]) if top > 0 else 1.0
    return np.rint(values * unit), unit


def _inverse(matrix: FloatArray) -> FloatArray:
    """Inverse of a positive definite matrix by Gauss and Jordan, which is the same on any number of threads."""
    matrix = matrix.copy()
    for k in range(len(matrix)):
        pivot = matrix[k, k]
        row, column = matrix[k] / pivot, matrix[:, k].copy()
        matrix -= column[:, None] * row
        matrix[k] = row
        matrix[:, k] = -column / pivot
        matrix[k, k] = 1.0 / pivot
    return matrix


def _tree(column: Column, slope: FloatArray, output: int) -> GrownTree:
    """A line in one feature as a tree with leaves of about as many rows each; missing values add nothing."""
    rows, missing = column.n_rows[1:], int(column.n_rows[0])
    size = max(rows.sum() / _MOST_LEAVES, _LEAF_ROWS)
    step = np.floor((np.cumsum(rows) - 0.5 * rows) / size)
    # the last bin of each leaf; a bin without rows belongs to the leaf before it
    ends = np.flatnonzero(np.append(np.diff(step[rows > 0]) > 0, True))
    present = np.flatnonzero(rows)[ends] + 1
    height = rows * ((slope / _FINE)[:, None] * column.value[:, 1:]).sum(axis=0)
    rows, height = (np.add.reduceat(one, np.append(0, present[:-1])) for one in (rows, height))
    value = height / rows
    if not slope.any():
        present, rows, missing, value = present[:1], column.n_rows.sum(keepdims=True), 0, np.zeros(1)
    # where training has no missing values, they go to the leaf that adds least
    nearest = int(np.abs(value).argmin())
    grown = _new_tree(2 * (len(present) + (missing > 0)) - 1, output)
    at, n = 0, 1
    if missing:
        _divide(grown.node[0], 1, column.feature, len(column.n_rows) - 1, False)
        grown.count[[0, 2], 0] = rows.sum() + missing, missing
        at, n = 1, 3

    def divide(k: int, left: int, first: int, middle: int) -> None:
        _divide(grown.node[k], left, column.feature, int(present[middle]), nearest <= middle)

    _halve(grown, at, n, rows, value, divide)
    return grown


def _level_tree(column: Column, slope: FloatArray, output: int) -> GrownTree:
    """A category's part of a line as a tree: a leaf for each level with enough rows, and for all others."""
    assert column.levels is not None
    height = ((slope / _FINE)[:, None] * column.value).sum(axis=0)
    leaves, value = [column.levels[k : k + 1] for k in range(len(column.levels))], height[column.levels]
    others = np.setdiff1d(np.arange(len(height)), column.levels)
    if not slope.any():
        leaves, value = [np.arange(len(height))], np.zeros(1)
    elif column.n_rows[others].sum() >= _LEAF_ROWS:
        leaves, value = [*leaves, others], np.append(value, height[others[0]])
    elif len(others):
        # too few for a leaf of their own: they go to the one that adds least
        nearest = int(np.abs(value).argmin())
        leaves[nearest] = np.append(leaves[nearest], others)
    order = np.argsort(value, kind="stable")
    leaves = [leaves[k] for k in order.tolist()]
    rows = np.array([column.n_rows[bins].sum() for bins in leaves])
    n_nodes = 2 * len(leaves) - 1
    levels = np.zeros((n_nodes, (len(height) + 63) // 64), np.uint64)
    grown = replace(_new_tree(n_nodes, output), levels=levels)

    def divide(k: int, left: int, first: int, middle: int) -> None:
        _divide(grown.node[k], left, column.feature, 0, False)
        for b in np.concatenate(leaves[first : middle + 1]).tolist():
            levels[k, b // 64] |= np.uint64(1 << b % 64)

    _halve(grown, 0, 1, rows, value[order], divide)
    return grown


def _new_tree(n_nodes: int, output: int) -> GrownTree:
    """A tree of leaves that add nothing."""
    node = np.zeros(n_nodes, NODE_TYPE)
    node["left"] = node["feature"] = -1
    return GrownTree(output, node, None, np.zeros(n_nodes), np.zeros((n_nodes, 4), np.int64))


def _halve(
    grown: GrownTree,
    k: int,
    n: int,
    rows: npt.NDArray[np.int64],
    value: FloatArray,
    divide: Callable[[int, int, int, int], None],
) -> None:
    """Divide node k, and again its halves, down to leaves of such rows and values; new nodes from the n-th on.

    ``divide(k, left, first, middle)`` makes an inner node of node k, with the leaves first..middle on the left.
    """
    waiting, ends = [(k, 0, len(rows) - 1)], [0, *np.cumsum(rows).tolist()]
    for k, first, last in waiting:
        grown.count[k, 0] = ends[last + 1] - ends[first]
        if first == last:
            grown.value[k] = value[first]
            continue
        middle = (first + last) // 2
        divide(k, n, first, middle)
        waiting += [(n, first, middle), (n + 1, middle + 1, last)]
        n += 2


def _divide(node: np.void, left: int, feature: int, last_bin: int, missing_left: bool) -> None:
    """Make an inner node of a leaf."""
    node["left"], node["feature"], node["bin"], node["missing_left"] = left, feature, last_bin, missing_left
