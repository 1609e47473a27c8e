"""TreeRows: where the rows of a tree's nodes lie in one station's shard.

Nodes are known by their paths: the root is 1, the children of p are 2p and 2p + 1. Nodes may be divided before it is
certain that the tree divides them; the rows of such a node are those of its children.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import BinMapper
from unbiasedgbm.distributed.kernels import answer_splits, redraw_roles
from unbiasedgbm.distributed.pooled import divide, histogram
from unbiasedgbm.distributed.wire import Coded, Coder
from unbiasedgbm.training.gradients import Packing
from unbiasedgbm.training.shard import Draw, Layout, Shard

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# From so many (row, feature) pairs on, a node's rows are worth all threads; smaller nodes are done side by side.
_POOL_PAIRS = 1_000_000

# Which histograms of children are asked for, and how many these are.
NEITHER, LEFT, RIGHT, BOTH = range(4)
_N_BUILT = np.array([0, 1, 1, 2])


class Splits(NamedTuple):
    """Splits of several nodes, asked for at once."""

    paths: list[int]
    rule: IntArray
    """(m, 4) column, categorical, bin, missing_left of `partition.split_rows`."""
    levels: npt.NDArray[np.uint64] | None
    """(m, words) bins on the left of categorical splits; None for a table without categories."""
    build: IntArray
    """(m,) NEITHER, LEFT, RIGHT or BOTH."""
    redraw: npt.NDArray[np.uint64] | None = None
    """(m, 2) keys of the children's roles, where every node draws its own."""


class _Divisions(NamedTuple):
    """Splits of several nodes in a shard; see `kernels.answer_splits`."""

    rule: IntArray
    levels: npt.NDArray[np.uint64] | None
    build: IntArray
    begin: IntArray
    sizes: IntArray
    """(m, 4) rows of each role."""
    sides: IntArray
    place: IntArray
    """(m,) first of a node's histograms."""
    histograms: IntArray
    """(n_histograms, n_used)."""


def used_cells(mapper: BinMapper, layout: Layout) -> npt.NDArray[np.intp] | slice:
    """Cells of a histogram that can hold anything: the bins of all features, role by role; a slice if that is all."""
    one = np.concatenate(
        [start + np.arange(n) for start, n in zip(mapper.offset().tolist(), mapper.n_bins.tolist(), strict=True)]
    )
    if len(one) == layout.hist_size:
        return slice(None)
    one.sort()
    return np.concatenate([one + role * layout.hist_size for role in range(layout.n_roles)])


def used_runs(used: npt.NDArray[np.intp], size: int) -> tuple[IntArray, IntArray]:
    """First cell and length of each run of used cells among the first ``size``, which are those of one role."""
    used = used[used < size]
    first = np.flatnonzero(np.diff(used, prepend=-2) != 1)
    return used[first].astype(np.int64), np.diff(first, append=len(used)).astype(np.int64)


class BagRows:
    """Raw predictions of a bag, and those at the start of an order, to go back to if a worker is lost in it.

    Parameters
    ----------
    raw : ndarray of shape (n, n_outputs), float64

    Attributes
    ----------
    n_trees : int
        Trees that were added.
    """

    def __init__(self, raw: FloatArray) -> None:
        self.raw = raw
        self.n_trees = 0
        self._start = 0
        self._before = raw.copy()

    def begin(self) -> None:
        """Note that an order begins."""
        self._start = self.n_trees
        np.copyto(self._before, self.raw)

    def undo(self) -> None:
        """Go back to its start."""
        self.n_trees = self._start
        np.copyto(self.raw, self._before)

    def nbytes(self) -> int:
        """Bytes of the copy."""
        return self._before.nbytes


def kept_bytes(lanes: Sequence[Shard], held: Sequence[BagRows]) -> int:
    """Bytes of the arrays of rows, which stay for the whole fit; histograms do not grow with the rows."""
    shard = lanes[0]
    bags = shard.bags if len(shard.bags) > 1 else []
    bins = shard.bins
    arrays: list[Any] = [
        bins.narrow,
        bins.columns,
        bins.wide,
        shard.data.y,
        shard.weight,
        shard.counts,
        shard.raw,
        *bags,
    ]
    arrays += [array for lane in lanes for array in (lane.roles, lane.packed, lane.rows, lane.spare, lane.g, lane.h)]
    return sum(array.nbytes for array in arrays) + sum(bag.nbytes() for bag in held)


class TreeRows:
    """A shard, and the nodes that its rows are in.

    Parameters
    ----------
    shard : Shard
    mapper : BinMapper
    runs : sequence of (first row here, its number among all rows)
    room : ndarray of shape (n_threads, node_size), int64
        For a histogram of each thread, which trees that are grown at the same time share.
    """

    def __init__(self, shard: Shard, mapper: BinMapper, runs: Sequence[tuple[int, int]], room: IntArray) -> None:
        self.shard = shard
        self._used = used_cells(mapper, shard.layout)
        cells = np.arange(room.shape[1])[self._used]
        self._n_used = len(cells)
        self._used_runs = used_runs(cells, shard.layout.hist_size)
        self._runs = runs
        self._room = room
        self._coder = Coder(mapper.n_bins[np.argsort(mapper.offset())], shard.layout.n_roles)
        self._count_bits = 0
        self._n_features = len(mapper.n_bins)
        self._answer = np.empty((0, self._n_used), np.int64)
        self._begin: dict[int, int] = {}
        self._count: dict[int, IntArray] = {}

    @cached_property
    def _numbers(self) -> npt.NDArray[np.uint64]:
        """Number of each row among all rows, shape (n,)."""
        ends = [*(first for first, _ in self._runs[1:]), self.shard.n]
        return np.concatenate(
            [
                np.arange(number, number + end - first, dtype=np.uint64)
                for (first, number), end in zip(self._runs, ends, strict=True)
            ]
        )

    # -- a tree ------------------------------------------------------------------------------------------------------

    def begin(self, draw: Draw, output: int, units: Sequence[float]) -> tuple[IntArray, IntArray]:
        """Begin a tree; see `Shard.begin_tree`."""
        counts, sums = self.shard.begin_tree(draw, output, units)
        self._begin, self._count = {1: 0}, {1: counts}
        return counts, sums

    def pack(self, draw: Draw, output: int, packing: Packing) -> IntArray:
        """Pack gradients; see `Shard.pack`."""
        self._count_bits = packing.count_bits
        return self.shard.pack(draw, output, packing)

    def undivide(self) -> None:
        """Have all rows in the root again."""
        self.shard.undivide()
        self._begin, self._count = {1: 0}, {1: self._count[1]}

    def add(self, paths: list[int], output: int, values: FloatArray) -> None:
        """Add the leaves' values to the bag's raw predictions of all their rows."""
        ranges = [self._ranges(path, 0, 4) for path in paths]
        begin = np.array([begin for leaf in ranges for begin, _ in leaf], np.int64)
        end = np.array([end for leaf in ranges for _, end in leaf], np.int64)
        value = np.repeat(values, [len(leaf) for leaf in ranges])
        self.shard.add_ranges(self.shard.bag, begin, end, output, value * len(self.shard.bags))

    # -- nodes -------------------------------------------------------------------------------------------------------

    def histogram(self, path: int) -> IntArray:
        """Histogram of any node, its used cells; of one that is divided already, the sum of its children's."""
        if 2 * path in self._begin:
            # its rows are no longer sorted by role
            return self.histogram(2 * path) + self.histogram(2 * path + 1)
        return self._histogram(self._begin[path], self._count[path]).copy()

    def split(self, splits: Splits) -> tuple[IntArray, IntArray]:
        """Divide nodes and build the histograms asked for.

        Returns
        -------
        counts : ndarray of shape (m, 2, 4), int64
            Rows of each role in both children.
        histograms : ndarray of shape (n_histograms, n_used), int64
            In the order of the splits, left before right. Only until this is called again: whoever asks for more has
            them, and memory that is new to the process takes longer to fill than to add up.
        """
        work = self._prepare(splits)
        large = np.full(len(splits.paths), False)
        if self.shard.pool.n_threads > 1 and splits.redraw is None:
            large = work.sizes.sum(axis=1) * self._n_features >= _POOL_PAIRS
        for k in np.flatnonzero(large).tolist():
            self._divide_pooled(work, k)
        self._divide_alone(work, np.flatnonzero(~large), work.build if splits.redraw is None else 0 * work.build)
        if splits.redraw is not None:
            for k, keys in enumerate(splits.redraw):
                self._redraw(keys, int(work.begin[k]), work.sides[k])
                self._fill(work, k)
        for path, begin, sides in zip(splits.paths, work.begin.tolist(), work.sides, strict=True):
            self._begin[2 * path], self._count[2 * path] = begin, sides[0]
            self._begin[2 * path + 1], self._count[2 * path + 1] = begin + int(sides[0].sum()), sides[1]
        return work.sides, work.histograms

    def _prepare(self, splits: Splits) -> _Divisions:
        """Where the nodes are, and room for what is found."""
        # arrays that come by wire are of another type to numba
        rule, build = np.array(splits.rule), np.array(splits.build)
        levels = None if splits.levels is None else np.array(splits.levels)
        begin = np.array([self._begin[path] for path in splits.paths])
        sizes = np.array([self._count[path] for path in splits.paths])
        n_built = _N_BUILT[build]
        n = int(n_built.sum())
        if len(self._answer) < n:
            self._answer = np.empty((n, self._n_used), np.int64)
        sides = np.zeros((len(begin), 2, 4), np.int64)
        return _Divisions(rule, levels, build, begin, sizes, sides, np.cumsum(n_built) - n_built, self._answer[:n])

    def _divide_pooled(self, work: _Divisions, k: int) -> None:
        """One node on all threads."""
        rule = (self.shard.bins, *work.rule[k].tolist(), work.levels, k)
        work.sides[k, 0] = divide(self.shard, int(work.begin[k]), work.sizes[k], rule)
        work.sides[k, 1] = work.sizes[k] - work.sides[k, 0]
        self._fill(work, k)

    def _divide_alone(self, work: _Divisions, chosen: npt.NDArray[np.intp], build: IntArray) -> None:
        """Some nodes, each on one thread: the largest first, in turns."""
        shard, layout, pool = self.shard, self.shard.layout, self.shard.pool
        chosen = chosen[np.argsort(-work.sizes[chosen].sum(axis=1), kind="stable")]
        rows = (shard.bins, shard.packed, shard.rows, shard.spare)
        nodes = (work.rule, work.levels, build, work.begin, work.sizes, work.sides)
        hist = (layout.n_roles, layout.hist_size, *self._used_runs)
        answer = (work.place * self._n_used, work.histograms.reshape(-1))
        n = min(pool.n_threads, len(chosen))
        shares = [(np.ascontiguousarray(chosen[k::n]), self._room[k]) for k in range(n)]
        pool.run(answer_splits, [(share, *rows, *nodes, *hist, room, *answer) for share, room in shares])

    def encode(self, histograms: IntArray) -> Coded:
        """Histograms of this tree as they are sent, until the next ones are."""
        return self._coder.encode(histograms, self._count_bits)

    def _redraw(self, keys: npt.NDArray[np.uint64], begin: int, sides: IntArray) -> None:
        """Draw the roles of both children's rows anew."""
        shard = self.shard
        for key, count in zip(keys, sides, strict=True):
            n = int(count.sum())
            redraw_roles(key, shard.layout.share, shard.rows, self._numbers, begin, count, shard.spare)
            begin += n

    def _fill(self, work: _Divisions, k: int) -> None:
        """Fill in the histograms of a node's children that are asked for, on all threads."""
        begin, sides, place = int(work.begin[k]), work.sides[k], int(work.place[k])
        starts = (begin, begin + int(sides[0].sum()))
        for side in _built(int(work.build[k])):
            work.histograms[place] = self._histogram(starts[side], sides[side])
            place += 1

    def _histogram(self, begin: int, count: IntArray) -> IntArray:
        """Used cells of the histogram of some rows, on all threads; only until there is another one."""
        histogram(self.shard, begin, count, self._room[1:], self._room[0])
        used: IntArray = self._room[0, self._used]
        return used

    # -- leaves ------------------------------------------------------------------------------------------------------

    def _ranges(self, path: int, first: int, last: int) -> list[tuple[int, int]]:
        """Where the rows of a node lie, those of the roles first..last−1."""
        if 2 * path in self._begin:
            return self._ranges(2 * path, first, last) + self._ranges(2 * path + 1, first, last)
        # sums of so few numbers take longer in NumPy
        count = self._count[path].tolist()
        begin = self._begin[path] + sum(count[:first])
        return [(begin, begin + sum(count[first:last]))]

    def _value_ranges(self, paths: list[int]) -> list[list[tuple[int, int]]]:
        """Where the rows lie that the values of leaves are computed of."""
        return [self._ranges(path, self.shard.layout.leaf_role, 3) for path in paths]

    def leaf_sums(self, paths: list[int], output: int, units: tuple[float, float]) -> IntArray:
        """Σg and Σh of every leaf in fixed point, shape (n_leaves, 2)."""
        ranges = self._value_ranges(paths)
        begin = np.array([begin for leaf in ranges for begin, _ in leaf], np.int64)
        end = np.array([end for leaf in ranges for _, end in leaf], np.int64)
        sums = self.shard.range_sums(begin, end, output, units)
        sizes = np.array([len(leaf) for leaf in ranges])
        return np.add.reduceat(sums, np.cumsum(sizes) - sizes)

    def residuals(self, paths: list[int], output: int) -> tuple[FloatArray, npt.NDArray[np.intp], IntArray | None]:
        """Residuals y − F of the rows of leaves, which leaf each is in, and their weights as whole numbers."""
        shard = self.shard
        pieces = [
            (leaf, shard.rows[begin:end])
            for leaf, ranges in enumerate(self._value_ranges(paths))
            for begin, end in ranges
        ]
        rows = np.concatenate([rows for _, rows in pieces])
        leaf = np.repeat([leaf for leaf, _ in pieces], [len(rows) for _, rows in pieces])
        units: Any = shard.weight_units
        return shard.data.y[rows] - shard.bag[rows, output], leaf, None if units is None else units[rows]


def _built(build: int) -> list[int]:
    """Sides whose histograms are asked for."""
    return [side for side in (0, 1) if (build >> side) & 1]
