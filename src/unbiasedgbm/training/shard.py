"""Shard: the rows of one process, and what a tree asks of them.

A local fit has one shard with all rows; in a distributed fit every worker has one with its share. All answers are
counts, maxima or integer sums, so those of several shards can be put together, and the model does not depend on where
its rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import Bins, with_columns
from unbiasedgbm.exact import Scale, weight_units, weighted_quantile
from unbiasedgbm.losses import Loss
from unbiasedgbm.metrics import Metric
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.gradients import (
    PACK_ROWS,
    Packing,
    begin_rows,
    draw_roles,
    pack,
    search_weights,
    sort_rows,
    sum_rows,
)
from unbiasedgbm.training.leaves import NewtonStep, add_values, finish_leaves, sum_chunks
from unbiasedgbm.training.nodes import N_NODES

if TYPE_CHECKING:
    from unbiasedgbm.training.booster import Booster
    from unbiasedgbm.training.harvest import GrownTree
    from unbiasedgbm.training.workspace import Workspace

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Rows of a block of work on a thread.
BLOCK_ROWS = 16_384

# Gradients that are computed together: few enough for the nearer caches, and so many that two threads do not
# spend their time handing the interpreter lock to each other.
_GRADIENT_ROWS = 32_768


@dataclass
class TrainingData:
    """Rows to learn from, as the loop wants them.

    Attributes
    ----------
    bins : Bins
    y : ndarray of shape (n,), float64
    sample_weight : ndarray of shape (n,), float64, or None
    counts : ndarray of shape (n,), uint16, or None
        Rows that each row stands for, where weights are whole numbers.
    groups : ndarray of shape (n,), uint32, or None
        Numbers of groups of rows that always have the same role.
    """

    bins: Bins
    y: FloatArray
    sample_weight: FloatArray | None
    counts: npt.NDArray[np.uint16] | None
    groups: npt.NDArray[np.uint32] | None = None


class Layout(NamedTuple):
    """How a tree's rows are divided into roles, and what their histograms look like."""

    share: FloatArray
    """(3,) upper ends of the roles in [0, 1]."""
    n_roles: int
    drawn: bool
    """Whether the split search gives rows random weights."""
    hist_size: int
    """Bins of one role's histogram."""
    leaf_role: int
    """First role whose rows leaf values are computed of."""


class Draw(NamedTuple):
    """Keys of what is random in a tree."""

    role_key: np.uint64
    sample_key: np.uint64
    """Of the rows that are left out."""
    pack_key: np.uint64
    """Of rounding, and of the weights of the split search."""
    node_key: np.uint64
    """Of the roles that nodes draw anew."""
    subsample: float


class Shard:
    """Rows and all that is kept of them.

    Parameters
    ----------
    data : TrainingData
    raw : ndarray of shape (n, n_outputs), float64
        Raw predictions so far, the mean of the bags; with several bags kept up by `advance` alone.
    bags : list of ndarrays of shape (n, n_outputs), float64
        The same of each bag, advanced by every tree; with one bag, ``raw`` itself.
    layout : Layout
    pool : Pool
    runs : sequence of (first row here, its number among all rows), default=((0, 0),)
        Rows of a run have consecutive numbers.
    weight_scale : Scale or None
        Of the weights of all rows; None for those here.
    """

    elsewhere = None
    alone: bool
    """Whether one thread is enough for the leaves of a tree."""

    def __init__(
        self,
        data: TrainingData,
        raw: FloatArray,
        bags: list[FloatArray],
        layout: Layout,
        pool: Pool,
        runs: Sequence[tuple[int, int]] = ((0, 0),),
        weight_scale: Scale | None = None,
    ) -> None:
        n, n_outputs = raw.shape
        self.data, self.raw, self.bags, self.layout = data, raw, bags, layout
        self.bag = bags[0]
        self.n, self._runs, self._weight_scale = n, runs, weight_scale
        self.n_rows = n if data.counts is None else int(data.counts.sum(dtype=np.int64))
        self.bins = with_columns(data.bins, n, pool)
        self.weight = np.empty(0) if data.sample_weight is None else data.sample_weight
        self.weighted = data.sample_weight is not None
        self.max_weight = float(self.weight.max(initial=0.0)) or 1.0
        self.counts = np.empty(0, np.uint16) if data.counts is None else data.counts
        self.counted = data.counts is not None
        self.roles = np.zeros(n, np.uint8)
        self.packed = np.zeros(n, np.int64)
        self.rows = np.zeros(n, np.uint32)
        self.spare = np.zeros(n, np.uint32)
        self.g = np.zeros((n_outputs, n), np.float32)
        self.h = np.zeros((n_outputs, n), np.float32)
        self._use(pool)

    def lanes(self, pools: Sequence[Pool]) -> list[Shard]:
        """The same rows and raw predictions, to grow so many trees at the same time, each on threads of its own.

        The first of them works in this shard's own arrays.
        """
        lanes = [copy(self) for _ in pools]
        for lane, pool in zip(lanes, pools, strict=True):
            lane._use(pool)
        for lane in lanes[1:]:
            for name in ("roles", "packed", "rows", "spare", "g", "h"):
                setattr(lane, name, np.zeros_like(getattr(self, name)))
        return lanes

    def _use(self, pool: Pool) -> None:
        """Work on the threads of a pool."""
        self.pool = pool
        self.alone = pool.n_threads == 1 or self.n < 4 * BLOCK_ROWS
        self.blocks: list[tuple[int, int]] = []
        self.offsets: list[np.uint64] = []
        for (first, number), (last, _) in pairwise([*self._runs, (self.n, 0)]):
            for begin, end in pool.blocks(last - first, BLOCK_ROWS):
                self.blocks.append((first + begin, first + end))
                self.offsets.append(np.uint64(number - first))
        # of a block's gradients before they are rounded, by its first row
        shape = as_outputs(self.raw).shape[1:]
        most = max(1, _GRADIENT_ROWS // self.raw.shape[1])
        self._gradient_room = {
            begin: np.empty((2, max(1, min(end - begin, most)), *shape)) for begin, end in self.blocks
        }
        self._pack_room = [(np.empty(PACK_ROWS, np.uint64), np.empty(PACK_ROWS)) for _ in self.blocks]
        # rows of each role in each block, of the current tree
        self._role_counts = np.zeros((len(self.blocks), 4), np.int64)

    # -- an iteration ------------------------------------------------------------------------------------------------

    def gradients(self, loss: Loss, bag: int) -> tuple[float, float]:
        """Derivatives of the loss at a bag's raw predictions; returns the largest |g| and h, unweighted.

        The trees that follow belong to this bag.
        """
        loss.prepare(self.data.y, as_outputs(self.bags[bag]), self.data.sample_weight)
        return self.block_gradients(loss, bag)

    def block_gradients(self, loss: Loss, bag: int) -> tuple[float, float]:
        """`gradients` of a loss that is prepared, by blocks of rows."""
        self.bag = self.bags[bag]
        y, raw = self.data.y, as_outputs(self.bag)

        def work(begin: int, end: int) -> tuple[float, float]:
            top_g, top_h = loss.bounds or (0.0, 0.0)
            room = self._gradient_room[begin]
            step = room.shape[1]
            for start in range(begin, end, step):
                stop = min(start + step, end)
                g, h = room[:, : stop - start]
                loss.fill_gradients(y[start:stop], raw[start:stop], g, h)
                if loss.bounds is not None:
                    self.g[:, start:stop], self.h[:, start:stop] = g.T, h.T
                    continue
                with np.errstate(over="ignore"):
                    self.g[:, start:stop], self.h[:, start:stop] = g.T, h.T
                top_g = max(top_g, float(g.max()), -float(g.min()))
                top_h = max(top_h, float(h.max()))
            return top_g, top_h

        tops = self.pool.run(work, self.blocks)
        return max(top[0] for top in tops), max(top[1] for top in tops)

    def advance(self, booster: Booster, grown: Sequence[GrownTree]) -> None:
        """Add the trees of an iteration to the mean of the bags, which is what metrics are measured of."""
        if len(self.bags) > 1:
            for one in grown:
                booster.add_to(one, self.bins, self.raw)

    def measure(self, metric: Metric) -> float:
        """A metric of all rows."""
        return metric.compute(self.data.y, as_outputs(self.raw), self.data.sample_weight)

    # -- a tree ------------------------------------------------------------------------------------------------------

    def begin_tree(self, draw: Draw, output: int, units: Sequence[float]) -> tuple[IntArray, IntArray]:
        """Draw a tree's roles and sort the rows by them; add up an output's gradients.

        Parameters
        ----------
        draw : Draw
        output : int
        units : sequence of 5 floats
            Of the fixed-point sums.

        Returns
        -------
        counts : ndarray of shape (4,), int64
            Rows of each role.
        sums : ndarray of shape (5,), int64
            Σ|g|, Σh, Σg², Σh², weights applied, and Σg² times the weight.
        """
        if len(self.blocks) != 1:
            return self._draw_roles(draw), self._sums(output, units)
        # a call costs as much as the work on a small table
        (counts, place), sums = np.empty((2, 4), np.int64), np.empty(5, np.int64)
        begin_rows(
            *(draw.role_key, self.layout.share, draw.sample_key, draw.subsample, self.n, self.offsets[0]),
            *(self.data.groups, self.roles, counts, place, self.rows),
            *(self.g[output], self.h[output], self.weight, *units, sums),
        )
        self._role_counts[0] = counts
        return counts, sums

    def _draw_roles(self, draw: Draw) -> IntArray:
        share, counts = self.layout.share, self._role_counts
        if share[0] == 1.0 and draw.subsample == 1.0:
            self.rows[:] = np.arange(self.n, dtype=np.uint32)
            return np.array([self.n, 0, 0, 0])
        drawn = (draw.role_key, share, draw.sample_key, draw.subsample)
        self.pool.run(
            draw_roles,
            [
                (*drawn, begin, end, offset, self.data.groups, self.roles, counts[k])
                for k, ((begin, end), offset) in enumerate(zip(self.blocks, self.offsets, strict=True))
            ],
        )
        self.undivide()
        return counts.sum(axis=0)

    def undivide(self) -> None:
        """Sort all rows by their roles, as at the beginning of a tree."""
        counts = self._role_counts
        if len(self.blocks) == 1:
            # no places to find for many blocks, which costs as much as the roles of a small table
            sort_rows(self.roles, 0, self.n, counts[0].cumsum() - counts[0], self.rows)
            return
        total = counts.sum(axis=0)
        place = total.cumsum() - total + counts.cumsum(axis=0) - counts
        self.pool.run(
            sort_rows, [(self.roles, begin, end, place[k], self.rows) for k, (begin, end) in enumerate(self.blocks)]
        )

    def _sums(self, output: int, units: Sequence[float]) -> IntArray:
        parts = np.zeros((len(self.blocks), 5), np.int64)
        self.pool.run(
            sum_rows,
            [
                (self.g[output], self.h[output], self.weight, begin, end, *units, parts[k])
                for k, (begin, end) in enumerate(self.blocks)
            ],
        )
        return parts.sum(axis=0)

    def pack(self, draw: Draw, output: int, packing: Packing) -> IntArray:
        """Pack an output's gradients for the split search; returns Σ|g| and Σh of the packed integers, shape (2,)."""
        rows = (self.g[output], self.h[output], self.weight, self.counts, search_weights(packing.spread), draw.pack_key)
        totals = np.zeros((len(self.blocks), 2), np.int64)
        self.pool.run(
            pack,
            [
                (*rows, begin, end, offset, *packing[:5], self.packed, totals[k], *self._pack_room[k])
                for k, ((begin, end), offset) in enumerate(zip(self.blocks, self.offsets, strict=True))
            ],
        )
        return totals[0] if len(totals) == 1 else totals.sum(axis=0)

    # -- leaves ------------------------------------------------------------------------------------------------------

    def finish_leaves(self, memory: Workspace, output: int, step: NewtonStep) -> FloatArray:
        """Values of all nodes, added to the raw predictions; see `leaves.newton_step`."""
        m = int(memory.state[N_NODES])
        value = np.empty(m)
        finish_leaves(
            *(memory.nodes.node[:m], memory.nodes.count, self.layout.leaf_role),
            *(self.g[output], self.h[output], self.weight, self.rows, *step, output, self.bag.shape[1]),
            *(self.bag.reshape(-1), len(self.bags), np.empty((m, 2), np.int64), value),
        )
        return value

    def leaf_sums(
        self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, units: tuple[float, float]
    ) -> IntArray:
        """Σg and Σh of the rows that a leaf's value is computed of, in fixed point, weights applied.

        Returns
        -------
        ndarray of shape (n_leaves, 2), int64
        """
        return self.range_sums(*_ranges(memory, leaf, self.layout.leaf_role, 3), output, units)

    def leaf_quantiles(self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, level: float) -> FloatArray:
        """A quantile of every leaf's residuals y − F; 0 where it has no rows, shape (n_leaves,)."""

        def one(begin: int, end: int) -> float:
            if end == begin:
                return 0.0
            chosen = self.rows[begin:end]
            residual = self.data.y[chosen] - self.bag[chosen, output]
            return weighted_quantile(residual, None if self.weight_units is None else self.weight_units[chosen], level)

        begin, end = _ranges(memory, leaf, self.layout.leaf_role, 3)
        return np.array(self.pool.run(one, list(zip(begin.tolist(), end.tolist(), strict=True))))

    @cached_property
    def weight_units(self) -> IntArray | None:
        """Weights as whole numbers, for quantiles."""
        if not self.weighted:
            return None
        scale = self._weight_scale or Scale.of(self.weight, self.weight)
        return weight_units(self.weight, scale.heaviest, scale.whole)

    def add(self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, value: FloatArray) -> None:
        """Add the leaves' values to the raw predictions of all their rows, also of those left out of the tree."""
        # computed from what the model adds: a model that goes on knows nothing else
        self.add_ranges(self.bag, *_ranges(memory, leaf, 0, 4), output, value * len(self.bags))

    def range_sums(self, begin: IntArray, end: IntArray, output: int, units: tuple[float, float]) -> IntArray:
        """`leaf_sums` of ranges of the sorted rows."""
        owner, begins, ends = self._chunks(begin, end)
        sums = np.zeros((len(begins), 2), np.int64)
        self.pool.run(
            sum_chunks,
            [
                (self.g[output], self.h[output], self.weight, self.rows, begins, ends, first, last, *units, sums)
                for first, last in self._groups(len(begins))
            ],
        )
        if owner is None:
            return sums
        return np.stack([np.add.reduceat(sums[:, k], owner) for k in (0, 1)], axis=1)

    def add_ranges(self, raw: FloatArray, begin: IntArray, end: IntArray, output: int, value: FloatArray) -> None:
        """`add` to some raw predictions, for ranges of the sorted rows."""
        owner, begins, ends = self._chunks(begin, end)
        values = value if owner is None else np.repeat(value, np.diff(np.append(owner, len(begins))))
        self.pool.run(
            add_values,
            [
                (raw.reshape(-1), output, raw.shape[1], self.rows, begins, ends, values, first, last)
                for first, last in self._groups(len(begins))
            ],
        )

    def _chunks(self, begin: IntArray, end: IntArray) -> tuple[IntArray | None, IntArray, IntArray]:
        """Cut leaves into pieces that threads can share.

        Returns
        -------
        owner : ndarray of shape (n_leaves,), int64, or None
            First chunk of each leaf; None if every leaf is one chunk.
        begins, ends : ndarrays of shape (n_chunks,), int64
        """
        if self.alone:
            return None, begin, end
        pieces = np.maximum(1, (end - begin) // BLOCK_ROWS)
        owner = np.cumsum(pieces) - pieces
        piece = np.arange(int(pieces.sum())) - np.repeat(owner, pieces)
        size = np.repeat(end - begin, pieces)
        first = np.repeat(begin, pieces)
        total = np.repeat(pieces, pieces)
        return owner, first + size * piece // total, first + size * (piece + 1) // total

    def _groups(self, n_chunks: int) -> list[tuple[int, int]]:
        """Ranges of chunks, a few to a thread."""
        if self.alone:
            return [(0, n_chunks)]
        return self.pool.blocks(n_chunks, 1)


def as_outputs(raw: FloatArray) -> FloatArray:
    """Raw predictions as losses want them: a vector where there is one output."""
    return raw[:, 0] if raw.shape[1] == 1 else raw


def _ranges(memory: Workspace, leaf: npt.NDArray[np.intp], first: int, last: int) -> tuple[IntArray, IntArray]:
    """Where the rows of leaves begin and end, those of the roles first..last−1; role 3 are rows left out."""
    # a loop over so few roles costs less than a sum along an axis
    count = memory.nodes.count[leaf]
    begin = memory.nodes.node["begin"][leaf]
    for role in range(first):
        begin = begin + count[:, role]
    end = begin
    for role in range(first, last):
        end = end + count[:, role]
    return begin, end
