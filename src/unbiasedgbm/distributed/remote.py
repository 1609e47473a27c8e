"""Remote rows: what the booster asks of rows, asked of stations.

Round trips cost more than work, so questions wait for company: what needs no answer goes with the next question, and
when a node is to be divided, so are all leaves that will probably be divided after it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import Bins
from unbiasedgbm.distributed.brief import Brief
from unbiasedgbm.distributed.foresight import Foresight, Outlook
from unbiasedgbm.distributed.shelf import Shelf
from unbiasedgbm.distributed.station import Step
from unbiasedgbm.distributed.statistics import Ask, RemoteStatistics, quantiles
from unbiasedgbm.distributed.tree_rows import BOTH, LEFT, NEITHER, RIGHT, Splits, used_cells
from unbiasedgbm.losses import Loss
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.gradients import Packing
from unbiasedgbm.training.nodes import N_LEAVES, N_NODES, Evidence
from unbiasedgbm.training.shard import Draw
from unbiasedgbm.training.splitting import Rule
from unbiasedgbm.training.workspace import HIST_BYTES, Workspace

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Trees that are grown at the same time; each of them takes memory on the stations.
_MOST_LANES = 4

# Divisions too many that cost less than a round too many.
_FEW_MORE = 16


class RemoteRows:
    """Training rows on the stations of a crew, as one tree at a time sees them; see `training.workspace.Rows`.

    Parameters
    ----------
    brief : Brief
    lane : int
        Which of the trees that are grown at the same time.
    """

    ask: Ask
    """Asks all stations; see `begin`."""

    def __init__(self, brief: Brief, lane: int) -> None:
        facts = brief.facts
        self.n, self.n_rows = facts.n, facts.n_rows
        self.weighted, self.counted, self.max_weight = facts.weighted, facts.counted, facts.max_weight
        self.layout = brief.layout
        # the grower's own hands are empty
        narrow = np.empty(0, np.uint8)
        self.bins = Bins(narrow, narrow.view(np.uint64), 0, 8, np.empty(0, np.uint16), np.empty(0, np.int64), narrow)
        self.packed = np.empty(0, np.int64)
        self.rows = np.empty(0, np.uint32)
        self.spare = np.empty(0, np.uint32)
        self._brief, self._lane, self._parameters = brief, lane, brief.parameters
        self._first: list[Step] = []
        self._added: list[Step] = []
        # see `equip`
        self._shelf: Shelf
        self._foresight: Foresight
        # of the last tree of an output
        self._packings: dict[int, Packing] = {}
        self._lowest: dict[int, float] = {}
        # of the tree that is being grown
        self._packed: tuple[Packing | None, list[Any]] = (None, [])
        self._draw_key = np.uint64(0)
        self._bag = self._output = 0
        self._paths: dict[int, int] = {}
        self._sides: dict[int, IntArray] = {}
        # its leaves, and sums of those that it will probably end with, in units of the last tree
        self._ends: set[int] = set()
        self._leaf_sums: dict[int, IntArray] = {}
        self._units: tuple[float, float] | None = None
        # best splits: of its leaves, and of nodes that it does not have yet
        self._leaves: dict[int, Outlook] = {}
        self._outlooks: dict[int, Outlook] = {}

    @property
    def elsewhere(self) -> RemoteRows:
        """Who answers what the grower asks."""
        return self

    def equip(self, memory: Workspace) -> None:
        """Look at the nodes of the trees that are grown in a workspace."""
        brief = self._brief
        room = max(4, HIST_BYTES // (8 * memory.node_size * brief.n_lanes))
        # more than a tree ever has, divisions in advance included; and two for the children of a node that is divided
        # when all places are taken
        n = min(room, 4 * self._parameters.num_leaves + 4) + 2
        self._shelf = Shelf(n, memory.node_size, memory.n_roles, used_cells(brief.mapper, brief.layout))
        self._foresight = Foresight(memory, self._shelf)

    def lanes(self, pools: Sequence[Pool]) -> list[RemoteRows]:
        """The same rows, once: who grows other trees at the same time has rows of its own."""
        return [self]

    def begin(self, ask: Ask) -> None:
        """Begin an iteration, and give up what is left of another one.

        Parameters
        ----------
        ask : callable
            Asks all stations.
        """
        self.ask = ask
        self._first, self._added = [], []

    # -- a tree ------------------------------------------------------------------------------------------------------

    def gradients(self, loss: Loss, bag: int) -> tuple[float, float]:
        """Derivatives at a bag's raw predictions; returns the largest |g| and h, unweighted."""
        loss.prepare_over(RemoteStatistics(self.ask, str(bag), self.n, self.weighted))
        self._bag = bag
        step = ("gradients", (self._lane, loss if loss.prepares else None, bag))
        if loss.bounds is None:
            tops: tuple[float, float] = self.ask(step)[0]
            return tops
        self._first = [step]
        return loss.bounds

    def begin_tree(self, draw: Draw, output: int, units: Sequence[float]) -> tuple[IntArray, IntArray]:
        """Draw roles, add up gradients; returns rows of each role, and the sums."""
        self._paths, self._sides, self._leaves, self._outlooks = {0: 1}, {}, {}, {}
        self._ends, self._leaf_sums = {1}, {}
        self._shelf.clear()
        self._draw_key, self._output = draw.node_key, output
        first, self._first = self._first, []
        steps: list[Step] = [*first, ("begin_tree", (self._lane, draw, output, units))]
        guess = self._packings.get(output)
        if guess is not None:
            # scales are powers of two, most often those of the tree before; if so, this saves a round
            steps += [("pack", (self._lane, draw, output, guess)), ("histogram", (self._lane, 1))]
        (counts, sums), *packed = self.ask(*steps)[len(first) :]
        self._packed = (guess, packed)
        return counts, sums

    def pack(self, draw: Draw, output: int, packing: Packing) -> IntArray:
        """Pack gradients; returns the sums of what was packed."""
        self._packings[output] = packing
        guess, packed = self._packed
        if guess != packing:
            packed = self.ask(("pack", (self._lane, draw, output, packing)), ("histogram", (self._lane, 1)))
        totals, root = packed
        self._shelf.put(1, root)
        return totals

    def partition(self, memory: Workspace, node: int, rule: Rule, evidence: Evidence) -> None:
        """Divide a node's rows; the numbers go to ``side_count``."""
        path = self._paths[node]
        first = self._leaves.pop(path)
        if path not in self._sides:
            self._divide(memory, path, first, rule, evidence)
        memory.nodes.side_count[:] = self._sides[path]
        left = int(memory.state[N_NODES])
        self._paths[left], self._paths[left + 1] = 2 * path, 2 * path + 1
        _divide_end(self._ends, path)
        # from here on the children's are all that is needed
        self._shelf.drop(path)

    def find_split(self, memory: Workspace, node: int, rule: Rule, evidence: Evidence) -> None:
        """Enter a node's best split."""
        path = self._paths[node]
        foreseen = self._outlooks.pop(path, None)
        if foreseen is not None:
            self._foresight.enter(node, foreseen, evidence)
            self._leaves[path] = foreseen
            return
        if path not in self._shelf:
            self._trim(path)
            self._shelf.put(path, self.ask(("histogram", (self._lane, path)))[0])
        limits = memory.limits(self._parameters, self, self._draw_key)
        self._leaves[path] = self._foresight.look_at(node, path, rule, limits, evidence)

    def undivide(self) -> None:
        """Have all rows in the root again."""
        self.ask(("undivide", (self._lane,)))

    def leaf_sums(
        self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, units: tuple[float, float]
    ) -> IntArray:
        """Σg and Σh of every leaf, in fixed point."""
        paths = self._leaf_paths(leaf)
        foreseen = units == self._units and all(path in self._leaf_sums for path in paths)
        self._units = units
        if foreseen:
            return np.array([self._leaf_sums[path] for path in paths])
        sums: IntArray = self.ask(("leaf_sums", (self._lane, paths, output, units)))[0]
        return sums

    def leaf_quantiles(self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, level: float) -> FloatArray:
        """A quantile of every leaf's residuals."""
        rank = ("rank_residuals", (self._lane, self._leaf_paths(leaf), output))
        return quantiles(self.ask, rank, len(leaf), level)

    def add(self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, value: FloatArray) -> None:
        """Add leaves' values to raw predictions, when `added` is sent."""
        made = memory.nodes.node[: int(memory.state[N_NODES])]
        made = made[made["left"] >= 0]
        # a tree that ended for want of leaves says what score the next one will end at
        full = int(memory.state[N_LEAVES]) == self._parameters.num_leaves
        self._lowest[output] = made["score"].min(initial=math.inf) if full else -math.inf
        self._added.append(("add", (self._lane, self._bag, self._leaf_paths(leaf), output, value)))

    def added(self) -> list[Step]:
        """What is still to be added to raw predictions; forgotten here."""
        added, self._added = self._added, []
        return added

    def _leaf_paths(self, leaf: npt.NDArray[np.intp]) -> list[int]:
        return [self._paths[k] for k in leaf.tolist()]

    # -- dividing nodes ----------------------------------------------------------------------------------------------

    def _divide(self, memory: Workspace, asked: int, outlook: Outlook, rule: Rule, evidence: Evidence) -> None:
        """Divide a node, and with it all that are next in line."""
        shelf = self._shelf
        self._trim(asked)
        chosen, ends = self._next_in_line(memory, asked, outlook)
        splits = self._splits(memory, chosen)
        steps: list[Step] = [("split", (self._lane, splits))]
        if ends and self._units is not None:
            # with these divisions the tree may be full, and then this saves a round
            steps.append(("leaf_sums", (self._lane, ends, self._output, self._units)))
        (counts, histograms), *sums = self.ask(*steps)
        if sums:
            self._leaf_sums.update(zip(ends, sums[0], strict=True))
        n_arrived = 0
        # children, those whose histograms have come before the others
        children: list[int] = []
        number: list[int] = []
        sibling: list[int] = []
        for path, kind, sides in zip(splits.paths, splits.build.tolist(), counts, strict=True):
            self._sides[path] = sides
            place = -1
            for child in [2 * path + side for side in (0, 1) if kind >> side & 1]:
                place = shelf.reserve(child)
                children.append(child)
                number.append(n_arrived)
                sibling.append(-1)
                n_arrived += 1
            if kind in (LEFT, RIGHT):
                # nobody looks at a node again that is divided, so its memory is the other child's
                other = 2 * path + (1 if kind == LEFT else 0)
                shelf.inherit(path, other)
                children.append(other)
                number.append(-1)
                sibling.append(place)
        if children:
            arrivals = shelf.arrivals(histograms.reshape(-1), number, sibling)
            if self._foresight.possible:
                count = np.stack([self._sides[child >> 1][child & 1] for child in children])
                limits = memory.limits(self._parameters, self, self._draw_key)
                outlooks = self._foresight.look_ahead(children, count, arrivals, rule, limits, evidence)
                self._outlooks.update(zip(children, outlooks, strict=True))
            else:
                shelf.take_in(children, arrivals)

    def _trim(self, spared: int) -> None:
        """Have room for the histograms of two more nodes; those that are dropped are asked for again when needed.

        Parameters
        ----------
        spared : int
            Path of a node whose histogram stays.
        """
        shelf = self._shelf
        for path in shelf.paths():
            if len(shelf) <= self._room():
                return
            if path != spared:
                shelf.drop(path)

    def _room(self) -> int:
        """Histograms to keep."""
        return len(self._shelf.cells) - 2

    def _splits(self, memory: Workspace, chosen: list[tuple[int, Outlook, int]]) -> Splits:
        """Splits as stations want them: of paths, each with its outlook and the histograms of children to build."""
        outlooks = [outlook for _, outlook, _ in chosen]
        feature = memory.features[[outlook.feature for outlook in outlooks]]
        bins, missing_left = zip(*((outlook.bin, outlook.missing_left) for outlook in outlooks), strict=True)
        redraw = None
        if memory.node_share is not None:
            children = int(memory.state[N_NODES]) + np.arange(2, dtype=np.uint64)
            redraw = (self._draw_key ^ children)[None]
        return Splits(
            [path for path, _, _ in chosen],
            np.stack([feature["column"], feature["categorical"], bins, missing_left], axis=1),
            None if memory.levels is None else np.array([outlook.levels for outlook in outlooks]),
            np.array([kind for _, _, kind in chosen]),
            redraw,
        )

    def _next_in_line(
        self, memory: Workspace, path: int, first: Outlook
    ) -> tuple[list[tuple[int, Outlook, int]], list[int]]:
        """Nodes to divide now, how, and which histograms of their children to build; the one asked for comes first.

        The tree is grown on as far as its nodes are known, and what it would divide next is divided now. If it is full
        then, its leaves are returned, too.
        """
        room = self._parameters.num_leaves - int(memory.state[N_LEAVES])
        if memory.node_share is not None:
            return [(path, first, BOTH if room > 1 else NEITHER)], []
        heap = [(-math.inf, path, first), *self._ready(self._leaves)]
        heapq.heapify(heap)
        # what scores as much as what the tree before divided, this one is likely to divide, and half of its leaves; if
        # there was none, half of what it may divide at all. Beyond that half, children may take the place of others
        likely = min(self._lowest.get(self._output, math.inf), first.score)
        n_likely = (min(room, len(heap)) if self._output in self._lowest else room) // 2
        n_most = room // 2 + _FEW_MORE
        ends = set(self._ends)
        chosen: list[tuple[int, Outlook, int]] = []
        while heap and room > 0 and (not chosen or len(self._shelf) + 2 * len(chosen) < self._room()):
            _, path, outlook = heapq.heappop(heap)
            if chosen and (n_most <= 0 or (n_likely <= 0 and outlook.score <= likely)):
                break
            room -= 1
            n_likely -= 1
            n_most -= 1
            _divide_end(ends, path)
            if path not in self._sides:
                # children of what can only be the last split are leaves for good, as are those at the greatest depth
                last = room == 0 or path.bit_length() == self._parameters.max_depth
                chosen.append((path, outlook, NEITHER if last else self._to_build(path, outlook)))
                continue
            for entry in self._ready({k: self._outlooks[k] for k in (2 * path, 2 * path + 1) if k in self._outlooks}):
                heapq.heappush(heap, entry)
        return chosen, [] if room > 0 else sorted(ends)

    def _ready(self, outlooks: dict[int, Outlook]) -> list[tuple[float, int, Outlook]]:
        """Nodes that may be divided, as entries of a heap."""
        least = self._parameters.min_split_gain
        return [(-one.score, path, one) for path, one in outlooks.items() if one.feature >= 0 and one.score > least]

    def _to_build(self, path: int, outlook: Outlook) -> int:
        """Histograms of children to build: the smaller one's, or both where there is nothing to subtract it from."""
        return outlook.smaller if path in self._shelf else BOTH


def _divide_end(ends: set[int], path: int) -> None:
    """Have the children of a leaf in its place."""
    ends.remove(path)
    ends.update((2 * path, 2 * path + 1))


def n_lanes(loss: Loss, n_bags: int) -> int:
    """Trees to grow at the same time: of several bags, unless stations must put rows in order for each of them."""
    return 1 if loss.leaf_level is not None or loss.prepares else min(n_bags, _MOST_LANES)
