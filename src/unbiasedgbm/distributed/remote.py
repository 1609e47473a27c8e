"""Remote rows: what the booster asks of rows, asked of a crew.

Round trips cost more than work, so questions wait for company: what needs no answer goes with the next question, and
when a node is to be divided, so are all leaves that will probably be divided after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import Bins
from unbiasedgbm.distributed.crew import Crew, WorkerLostError
from unbiasedgbm.distributed.station import TRAIN, WATCH, Plan, Step
from unbiasedgbm.distributed.statistics import RemoteStatistics, quantiles
from unbiasedgbm.distributed.tree_rows import BOTH, LEFT, NEITHER, RIGHT, Splits, used_cells
from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.losses import Loss
from unbiasedgbm.metrics import Metric
from unbiasedgbm.training.booster import Booster
from unbiasedgbm.training.gradients import G_SHIFT, Packing
from unbiasedgbm.training.harvest import GrownTree, Harvest
from unbiasedgbm.training.nodes import N_LEAVES, N_NODES
from unbiasedgbm.training.shard import Draw
from unbiasedgbm.training.workspace import HIST_BYTES, TrainingParameters, Workspace

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
T = TypeVar("T")

# Workers that may be lost while one loss is being made good.
_MOST_LOSSES = 10


@dataclass(frozen=True)
class Facts:
    """What is known of all training and validation rows.

    Attributes
    ----------
    n, n_rows, weighted, counted, max_weight
        As in `training.workspace.Rows`.
    n_watched : int
        Validation rows.
    watched_weighted : bool
    """

    n: int
    n_rows: int
    weighted: bool
    counted: bool
    max_weight: float
    n_watched: int
    watched_weighted: bool


class RemoteRows:
    """Training rows on the stations of a crew; see `training.workspace.Rows`.

    Parameters
    ----------
    crew : Crew
    facts : Facts
    plan : Plan
    script : list of Step
        What brings a new station from its partitions to where `Plan` is the next thing that it needs.
    features : ndarray of shape (p,), FEATURE
    parameters : TrainingParameters
    before : TreeEnsemble or None
        Trees that training goes on from.
    """

    def __init__(
        self,
        crew: Crew,
        facts: Facts,
        plan: Plan,
        script: list[Step],
        features: npt.NDArray[np.void],
        parameters: TrainingParameters,
        before: TreeEnsemble | None,
    ) -> None:
        self.n, self.n_rows = facts.n, facts.n_rows
        self.weighted, self.counted, self.max_weight = facts.weighted, facts.counted, facts.max_weight
        self.layout = plan.layout
        # the grower's own hands are empty
        narrow = np.empty(0, np.uint8)
        self.bins = Bins(narrow, narrow.view(np.uint64), 0, 8, np.empty(0, np.uint16), np.empty(0, np.int64), narrow)
        self.packed = np.empty(0, np.int64)
        self.rows = np.empty(0, np.uint32)
        self.spare = np.empty(0, np.uint32)
        self.elsewhere = self
        self.crew = crew
        self._facts, self._plan, self._script = facts, plan, script
        self._features, self._parameters = features, parameters
        self._used = used_cells(plan.mapper, plan.layout)
        self._waiting: list[Step] = []
        # of all finished iterations, and of the last one
        self._done = Harvest(plan.mapper, plan.base, before)
        self._last: Sequence[GrownTree] = ()
        self._packings: dict[int, Packing] = {}
        # of the tree that is being grown
        self._packed: tuple[Packing | None, list[Any]] = (None, [])
        self._count_bits = 0
        self._draw_key = np.uint64(0)
        self._paths: dict[int, int] = {}
        self._sides: dict[int, IntArray] = {}
        self._hists: dict[int, IntArray] = {}

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, *steps: Step) -> list[Any]:
        """Send the steps that wait, then these; returns the answers to these."""
        waiting = len(self._waiting)
        answers = self.crew.ask([*self._waiting, *steps])
        self._waiting = []
        return answers[waiting:]

    def steadily(self, work: Callable[[], T]) -> T:
        """Do something that may be done again from the last finished iteration, until no worker is lost in it."""
        while True:
            try:
                return work()
            except WorkerLostError:
                self._recover()

    def finished(self, grown: Sequence[GrownTree]) -> None:
        """Note that an iteration is finished: it is never done again."""
        self._done.add(grown)
        self._last = grown

    def recent(self) -> list[tuple[int, GrownTree]]:
        """The trees of the last iteration, by number."""
        first = self._done.n_trees - len(self._last)
        return [(first + k, tree) for k, tree in enumerate(self._last)]

    def _recover(self) -> None:
        """Put lost partitions on other workers, and bring all stations to the end of the last finished iteration."""
        for _ in range(_MOST_LOSSES):
            try:
                self._waiting = []
                self.crew.replace_lost()
                fresh = [member for member in self.crew.members if not member.loaded]
                n_trees = self._done.n_trees
                if fresh:
                    trees = self._done.ensemble() if n_trees else None
                    self.crew.ask([*self._script, ("build", (self._plan, trees))], fresh)
                for member in fresh:
                    member.loaded = True
                self.crew.ask([("rewind", (n_trees, self.recent(), self._features))])
                return
            except WorkerLostError:
                continue
        raise RuntimeError(f"{_MOST_LOSSES} workers were lost one after another; the fit gives up.")

    # -- an iteration ------------------------------------------------------------------------------------------------

    def statistics(self, which: str = TRAIN) -> RemoteStatistics:
        """Statistics of all rows."""
        facts = self._facts
        if which == WATCH:
            return RemoteStatistics(self.ask, WATCH, facts.n_watched, facts.watched_weighted)
        return RemoteStatistics(self.ask, TRAIN, facts.n, facts.weighted)

    def gradients(self, loss: Loss, bag: int) -> tuple[float, float]:
        """Derivatives at a bag's raw predictions; returns the largest |g| and h, unweighted."""
        loss.prepare_over(RemoteStatistics(self.ask, str(bag), self.n, self.weighted))
        prepared = type(loss).prepare_over is not Loss.prepare_over
        step = ("gradients", (loss if prepared else None, bag))
        if loss.bounds is None:
            tops: tuple[float, float] = self.ask(step)[0]
            return tops
        self._waiting.append(step)
        return loss.bounds

    def measure(self, metric: Metric, which: str = TRAIN) -> float:
        """A metric at the current raw predictions."""
        if metric.values is not None:
            values = metric.values
            return self.steadily(lambda: self.statistics(which).mean(values))
        y, raw, weight = self.steadily(lambda: [self._collect(which, what) for what in ("y", "raw", "weight")])
        return metric.compute(y, raw, weight)

    def _collect(self, which: str, what: str) -> Any:
        parts = sorted(self.ask(("collect", (which, what)))[0], key=lambda part: part[0])
        found = [part for _, part in parts if part is not None and len(part)]
        return np.concatenate(found) if found else None

    # -- a tree ------------------------------------------------------------------------------------------------------

    def begin_tree(self, draw: Draw, output: int, units: Sequence[float]) -> tuple[IntArray, IntArray]:
        """Draw roles, add up gradients; returns rows of each role, and the sums."""
        self._paths, self._sides, self._hists = {0: 1}, {}, {}
        self._draw_key = draw.node_key
        steps: list[Step] = [("begin_tree", (draw, output, units))]
        guess = self._packings.get(output)
        if guess is not None:
            # scales are powers of two, most often those of the tree before; if so, this saves a round
            steps += [("pack", (draw, output, guess)), ("histogram", (1,))]
        (counts, sums), *packed = self.ask(*steps)
        self._packed = (guess, packed)
        return counts, sums

    def pack(self, draw: Draw, output: int, packing: Packing) -> IntArray:
        """Pack gradients; returns the sums of what was packed."""
        self._count_bits = packing.count_bits
        self._packings[output] = packing
        guess, packed = self._packed
        if guess != packing:
            packed = self.ask(("pack", (draw, output, packing)), ("histogram", (1,)))
        totals, self._hists[1] = packed
        return totals

    def partition(self, memory: Workspace, node: int) -> None:
        """Divide a node's rows; the numbers go to ``side_count``."""
        path = self._paths[node]
        if path not in self._sides:
            self._split(memory, node)
        memory.nodes.side_count[:] = self._sides[path]
        left = int(memory.state[N_NODES])
        self._paths[left], self._paths[left + 1] = 2 * path, 2 * path + 1

    def build_histogram(self, memory: Workspace, node: int) -> None:
        """Fill the histogram in a node's slot."""
        path = self._paths[node]
        if path not in self._hists:
            self._hists[path] = self.ask(("histogram", (path,)))[0]
        at = int(memory.nodes.node[node]["slot"]) * memory.node_size
        memory.hist[at : at + memory.node_size][self._used] = self._hists[path]

    def leaf_sums(
        self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, units: tuple[float, float]
    ) -> IntArray:
        """Σg and Σh of every leaf, in fixed point."""
        sums: IntArray = self.ask(("leaf_sums", (self._leaf_paths(leaf), output, units)))[0]
        return sums

    def leaf_quantiles(self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, level: float) -> FloatArray:
        """A quantile of every leaf's residuals."""
        return quantiles(self.ask, ("rank_residuals", (self._leaf_paths(leaf), output)), len(leaf), level)

    def add(self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, value: FloatArray) -> None:
        """Add leaves' values to raw predictions, when the next question is asked."""
        self._waiting.append(("add", (self._leaf_paths(leaf), output, value)))

    def _leaf_paths(self, leaf: npt.NDArray[np.intp]) -> list[int]:
        return [self._paths[k] for k in leaf.tolist()]

    # -- dividing nodes ----------------------------------------------------------------------------------------------

    def _split(self, memory: Workspace, node: int) -> None:
        """Divide a node, and with it the leaves that are next in line."""
        chosen, build = self._next_splits(memory, node)
        record = memory.nodes.node[chosen]
        feature = memory.features[record["feature"]]
        rule = np.stack([feature["column"], feature["categorical"], record["bin"], record["missing_left"]], axis=1)
        paths = [self._paths[k] for k in chosen.tolist()]
        redraw = None
        if self._parameters.role_draw == "node":
            children = int(memory.state[N_NODES]) + np.arange(2, dtype=np.uint64)
            redraw = (self._draw_key ^ children)[None]
        levels = None if memory.levels is None else memory.levels[chosen]
        splits = Splits(paths, np.ascontiguousarray(rule), levels, build, redraw)
        counts, histograms = self.ask(("split", (splits,)))[0]
        at = 0
        for path, sides, kind in zip(paths, counts, build.tolist(), strict=True):
            self._sides[path] = sides
            whole = self._hists.pop(path, None)
            for side, bit in enumerate((LEFT, RIGHT)):
                if kind & bit:
                    self._hists[2 * path + side] = histograms[at]
                    if kind != BOTH and whole is not None:
                        self._hists[2 * path + 1 - side] = whole - histograms[at]
                    at += 1
        # a histogram that is dropped is asked for again when it is needed
        room = max(4, HIST_BYTES // (8 * memory.node_size))
        while len(self._hists) > room:
            del self._hists[next(iter(self._hists))]

    def _next_splits(self, memory: Workspace, node: int) -> tuple[npt.NDArray[np.intp], IntArray]:
        """Leaves to divide now, the one asked for first, and the histograms to build of each one's children."""
        nodes = memory.nodes.node[: int(memory.state[N_NODES])]
        room = self._parameters.num_leaves - int(memory.state[N_LEAVES])
        if self._parameters.role_draw == "node":
            return np.array([node]), np.array([BOTH if room > 1 else NEITHER])
        ready = (nodes["left"] < 0) & (nodes["feature"] >= 0) & (nodes["score"] > self._parameters.min_split_gain)
        ready[node] = False
        others = np.flatnonzero(ready)
        order = [node, *others[np.argsort(-nodes["score"][others], kind="stable")][: room - 1].tolist()]
        chosen, build = [], []
        for place, k in enumerate(order):
            if self._paths[k] in self._sides:
                continue
            chosen.append(k)
            # children of what can only be the last split are leaves for good, and so are those at the greatest depth
            last = place + 1 >= room or int(nodes["depth"][k]) + 1 == self._parameters.max_depth
            build.append(NEITHER if last else self._smaller_side(memory, k))
        return np.array(chosen), np.array(build)

    def _smaller_side(self, memory: Workspace, node: int) -> int:
        """The child with the smaller hessian, as its parent's histogram says; both where there is none."""
        record = memory.nodes.node[node]
        if self._paths[node] not in self._hists or int(record["slot"]) < 0:
            return BOTH
        feature = memory.features[int(record["feature"])]
        n_bins = int(feature["n_bins"])
        hist = memory.hist[int(record["slot"]) * memory.node_size :][: memory.node_size]
        cells = hist.reshape(memory.n_roles, -1)[:, int(feature["offset"]) :][:, :n_bins]
        hessian = ((cells & ((1 << G_SHIFT) - 1)) >> self._count_bits).sum(axis=0)
        bins = np.arange(n_bins)
        if memory.levels is not None and feature["categorical"]:
            left = (memory.levels[node, bins >> 6] >> (bins & 63).astype(np.uint64)) & np.uint64(1) != 0
        else:
            left = bins <= int(record["bin"])
            left[0] = record["missing_left"] != 0
        return LEFT if 2 * hessian[left].sum() <= hessian.sum() else RIGHT


class RemoteWatched:
    """Validation rows on the stations of a crew; see `training.loop.Watched`."""

    def __init__(self, rows: RemoteRows) -> None:
        self._rows = rows

    def advance(self, booster: Booster, grown: Sequence[GrownTree]) -> None:
        """Add the trees of an iteration to the raw predictions."""
        rows = self._rows
        rows.steadily(lambda: rows.ask(("advance", (rows.recent(), booster.features))))

    def measure(self, metric: Metric) -> float:
        """A metric at the current raw predictions."""
        return self._rows.measure(metric, WATCH)


@dataclass
class RemoteBooster(Booster):
    """A booster whose rows are on a cluster."""

    rows: RemoteRows

    def iterate(self) -> list[GrownTree]:
        """One iteration; begun again if a worker is lost in it."""
        start = self.progress.copy()

        def work() -> list[GrownTree]:
            self.progress = start.copy()
            return super(RemoteBooster, self).iterate()

        grown = self.rows.steadily(work)
        self.rows.finished(grown)
        return grown
