"""The boosting loop: gradients → roles → tree → leaf values → raw predictions.

`Booster.run_ahead` is one iteration, or several, and `Booster._grow_tree` is a tree, top to bottom. Everything random
comes from hashes of (seed, tree, row), and every sum over rows is an integer sum, so the model does not depend on
threads, blocks or the order in which work was done.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import BinMapper, Bins
from unbiasedgbm.exact import fixed_unit
from unbiasedgbm.kernels import code_for, hash_key
from unbiasedgbm.losses import Loss
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.evidence import EvidenceMemory, bonus_weight
from unbiasedgbm.training.gradients import Packing, choose_packing, coarse, count_bits, drawn_bound, largest_weight
from unbiasedgbm.training.grower import ASK_PARTITION, DONE, grow, start_tree
from unbiasedgbm.training.harvest import GrownTree, count_splits
from unbiasedgbm.training.leaves import NewtonStep, newton_step, quantile_step
from unbiasedgbm.training.nodes import LARGE, N_LEAVES, N_NODES, PARENT, SMALL, Evidence
from unbiasedgbm.training.partition import add_tree
from unbiasedgbm.training.shard import BLOCK_ROWS, Draw, Shard
from unbiasedgbm.training.splitting import EVIDENCE, SPLIT_RULES, Rule
from unbiasedgbm.training.team import STOP
from unbiasedgbm.training.workspace import Rows, TrainingParameters, Workspace, count_lanes, team_size

FloatArray = npt.NDArray[np.float64]

# Trees of each output in a row, of all bags together, whose roots could not be split, after which boosting ends.
PATIENCE = 30

# Boosting ends after so many times the iterations in which its trees' worth was highest, and so many more. What a tree
# explains of rows is missing from what the next ones find in them, so that the worth ends to rise before accuracy does.
_PEAKS = 2
_BEYOND = 10

# A root that is divided on trial is one of many choices: so many times the best of all features. With less, noise is
# given more trees before boosting ends; with more, features that act together are found as well.
_TRIAL_CHOICES = 8.0

# Steps in which the weights of the split search become more alike: few, so that two trees in a row have the same.
_SPREADS = 16

# Gradients are kept in float32.
_MAX_GRADIENT = float(np.finfo(np.float32).max)

# Streams of random bits.
_STREAM_ROLES, _STREAM_ROWS, _STREAM_NODES, _STREAM_SAMPLE = 0, 1, 2, 4
# Of what is not drawn.
_NO_KEY = np.uint64(0)


@dataclass
class Progress:
    """All that an interrupted training needs to go on as if nothing had happened.

    Attributes
    ----------
    n_iterations : int
    idle : int
        Iterations in a row in which no root could be split.
    worth : float
        Sum of the honest scores of all splits made so far, mean 0 for noise.
    peak : int
        Iterations after which it was highest.
    peak_worth : float
        What it was then.
    memories : list of EvidenceMemory
        Of each bag and output, outputs of a bag together: as many as an iteration has trees.
    importance : ndarray of shape (p,), float64
        Sum of the acceptance scores of each feature's splits, rejected candidates included.
    n_splits : ndarray of shape (p,), int64
    start_dispersion : float
        Dispersion before anything was fitted, where it is measured once and for all; NaN where it was not.
    start_squares : ndarray of shape (n_outputs,), float64
        Sum of the squared gradients of each output before the first iteration; NaN where it was not measured.
    n_line : int
        Trees of the line that the fit began from, which come before those of the first iteration.
    """

    n_iterations: int
    idle: int
    memories: list[EvidenceMemory]
    importance: FloatArray
    n_splits: npt.NDArray[np.int64]
    start_dispersion: float
    start_squares: FloatArray
    n_line: int = 0
    worth: float = 0.0
    peak: int = 0
    peak_worth: float = 0.0

    @classmethod
    def start(cls, n_features: int, n_outputs: int, n_bags: int) -> Progress:
        """Before the first iteration."""
        memories = [EvidenceMemory.empty(n_features) for _ in range(n_bags * n_outputs)]
        importance, n_splits = np.zeros(n_features), np.zeros(n_features, np.int64)
        return cls(0, 0, memories, importance, n_splits, math.nan, np.full(n_outputs, math.nan))

    def copy(self) -> Progress:
        """A progress of its own."""
        return Progress(
            self.n_iterations,
            self.idle,
            [memory.copy() for memory in self.memories],
            self.importance.copy(),
            self.n_splits.copy(),
            self.start_dispersion,
            self.start_squares.copy(),
            self.n_line,
            self.worth,
            self.peak,
            self.peak_worth,
        )


class Tops(NamedTuple):
    """Largest |g| and h of an iteration, of any row and output, weights applied."""

    g: float
    h: float


class Sums(NamedTuple):
    """Sums over all rows of one output's |g|, h, g² and h², weights applied, and of its g² times the weight."""

    g: float
    h: float
    g2: float
    h2: float
    square: float


@dataclass
class Lane:
    """What trees are grown with, one at a time.

    Attributes
    ----------
    rows : Rows
    memory : Workspace
    pool : Pool
        Threads that grow a tree together.
    grow : callable or None
        Machine code of `grower.grow` for these rows and arrays; None before the first tree.
    """

    rows: Rows
    memory: Workspace
    pool: Pool
    grow: Callable[..., int] | None = None


@dataclass
class Booster:
    """Grows trees one iteration at a time.

    With `n_bags` > 1, as many chains of trees grow side by side, each from its own raw predictions and with its own
    roles; the model is their mean, so the trees of a chain enter it divided by `n_bags`. Unless a table is small or
    very large, threads grow trees of different chains, each in a lane of its own; if there are more threads, a lane has
    a team.

    Parameters
    ----------
    parameters : TrainingParameters
    loss : Loss
    rows : Rows
        The raw predictions of their bags are advanced by every iteration.
    mapper : BinMapper
    features : ndarray of shape (p,), FEATURE
    groups : ndarray of shape (n_groups, p), uint8
        Interaction groups.
    progress : Progress
        Advanced by every iteration.
    pool : Pool
    """

    parameters: TrainingParameters
    loss: Loss
    rows: Rows
    mapper: BinMapper
    features: npt.NDArray[np.void]
    groups: npt.NDArray[np.uint8]
    progress: Progress
    pool: Pool
    _lanes: list[Lane] = field(init=False, repr=False)

    seconds_ahead: ClassVar[float] = 0.5
    """Time that iterations may take in which chains need not wait for each other."""

    def __post_init__(self) -> None:
        self._lanes = self._make_lanes()
        # bounds of monotone features are means that a limit would move
        self._clip = math.inf if self.features["monotone"].any() else self.parameters.clip
        self._code = SPLIT_RULES[self.parameters.split_rule]
        self._bonus_weight = bonus_weight(self.rows.n_rows, self.loss.n_outputs)
        # features that have anything to cut
        self._log_useful = math.log(max(int((self.mapper.n_bins > 2).sum()), 1))
        heaviest = largest_weight(1.0 if self.rows.layout.drawn else 0.0)
        self._count_bits = count_bits(self.parameters.min_samples_leaf, heaviest)

    def _make_lanes(self) -> list[Lane]:
        pools, size = self._pools(), (self.rows.layout, self.mapper, self.features, self.groups)
        return [
            Lane(rows, Workspace(self.parameters, *size, self._team(pool), len(pools)), pool)
            for rows, pool in zip(self.rows.lanes(pools), pools, strict=True)
        ]

    def _pools(self) -> list[Pool]:
        """The threads of each lane."""
        size = (self.rows.n, len(self.features), self.parameters.n_bags, self.pool.n_threads)
        # what a loss learns of a chain's rows must not be mixed up
        n = 1 if self.loss.prepares else count_lanes(*size)
        each, more = divmod(self.pool.n_threads, n)
        return [Pool(each + (lane < more)) for lane in range(n)]

    def _team(self, pool: Pool) -> int:
        """Threads of a lane that grow a tree together."""
        return 1 if self.rows.elsewhere is not None else team_size(self.rows.n, pool.n_threads)

    @property
    def exhausted(self) -> bool:
        """Whether more iterations are hopeless."""
        return self._left() <= 0

    def _left(self) -> int:
        """Iterations after which boosting may end: the last ones found no splits, or none that were worth it."""
        progress, parameters = self.progress, self.parameters
        idle = -(-PATIENCE // parameters.n_bags) - progress.idle
        if self._code != EVIDENCE or parameters.min_split_gain == -math.inf:
            return idle
        return min(idle, _PEAKS * progress.peak + _BEYOND - progress.n_iterations)

    def iterate(self) -> list[GrownTree]:
        """One iteration: in each bag a tree for each output, all from the gradients at its start."""
        return self.run_ahead(1)[0]

    def run_ahead(self, n: int) -> list[list[GrownTree]]:
        """Up to ``n`` iterations, in which chains need not wait for each other; returns the trees of each."""
        bags, progress, lanes = range(self.parameters.n_bags), self.progress, self._lanes
        if not self._is_measured():
            # the first chain's first tree, before any other
            lanes = lanes[:1]
        # never beyond the iteration after which boosting may end
        n = max(1, min(n, self._left())) if len(lanes) > 1 else 1
        grown: list[list[list[GrownTree]]] = [[] for _ in bags]
        turns, going = deque(bags), True

        def trees(lane: Lane, bag: int) -> Iterator[GrownTree]:
            iteration = progress.n_iterations + len(grown[bag])
            tops = self._gradients(lane, bag)
            for output in range(self.loss.n_outputs):
                if going:
                    yield self._grow_tree(lane, tops, bag, output, iteration, progress)

        def work(lane: Lane) -> None:
            nonlocal going
            while going:
                try:
                    bag = turns.popleft()
                except IndexError:
                    # all chains that have not come so far are being grown
                    return
                try:
                    grown[bag].append(list(trees(lane, bag)))
                except BaseException:
                    going = False
                    raise
                if len(grown[bag]) < n:
                    turns.append(bag)

        try:
            self.pool.run(work, [(lane,) for lane in lanes])
        finally:
            # Ctrl-C may come while others are waited for: what they still do is no part of any progress that is kept
            going = False
        iterations = [[tree for bag in bags for tree in grown[bag][k]] for k in range(n)]
        for one in iterations:
            self._end_iteration(one)
        return iterations

    def _is_measured(self) -> bool:
        """Whether it is known what is measured once and for all, by the first tree of a fit."""
        progress = self.progress
        if self._code != EVIDENCE:
            return True
        dispersion = not (self.loss.unit_dispersion and self.rows.weighted) or not math.isnan(progress.start_dispersion)
        return dispersion and not np.isnan(progress.start_squares).any()

    def _end_iteration(self, grown: Sequence[GrownTree]) -> None:
        """Note what an iteration's trees, bag by bag, say of the progress."""
        progress = self.progress
        for tree in grown:
            limit = self.parameters.min_split_gain
            progress.worth += count_splits(tree.node, limit, progress.importance, progress.n_splits)
        progress.n_iterations += 1
        split = any(len(tree.node) > 1 for tree in grown)
        progress.idle = 0 if split else progress.idle + 1
        if progress.worth > progress.peak_worth:
            progress.peak, progress.peak_worth = progress.n_iterations, progress.worth

    # -- gradients ---------------------------------------------------------------------------------------------------

    def _gradients(self, lane: Lane, bag: int) -> Tops:
        """Derivatives of the loss at a bag's raw predictions."""
        max_g, max_h = lane.rows.gradients(self.loss, bag)
        # float32 rounding may have gone up
        max_g, max_h = max_g * 1.000001, max_h * 1.000001
        if not (max_g < _MAX_GRADIENT and max_h < _MAX_GRADIENT):
            raise ValueError("loss: a gradient is not finite in float32; the target or the learning rate is too large.")
        return Tops(max_g * self.rows.max_weight, max_h * self.rows.max_weight)

    # -- one tree ----------------------------------------------------------------------------------------------------

    def _grow_tree(
        self, lane: Lane, tops: Tops, bag: int, output: int, iteration: int, progress: Progress
    ) -> GrownTree:
        """Roles, packed gradients, growth, leaf values, update."""
        memory, parameters, memories = lane.memory, self.parameters, progress.memories
        place = bag * self.loss.n_outputs + output
        number = iteration * len(memories) + place
        draw = self._draw(number)
        counts, sums = self._begin_tree(lane, draw, tops, output)
        dispersion = self._dispersion(sums, progress)
        unexplained = self._unexplained(output, sums, progress)
        packing = self._pack(lane, draw, tops, sums, output, unexplained)
        rule = self._rule(packing, tops, dispersion, unexplained, number)
        evidence = self._evidence(memories[place], unexplained, rule)
        memory.draw_columns(parameters, number)
        start_tree(counts, memory.nodes, memory.free, memory.state)
        self._grow(lane, rule, evidence, draw)
        self._end_trial(lane, rule, unexplained)
        if parameters.split_rule == "evidence":
            memories[place].learn(evidence.found)
        return self._finish(lane, tops, output, packing, dispersion)

    def _draw(self, number: int) -> Draw:
        """Keys of what is random in a tree."""
        parameters, seed = self.parameters, self.parameters.seed
        return Draw(
            role_key=hash_key(seed, _STREAM_ROLES, 0 if parameters.role_draw == "fit" else number + 1),
            sample_key=hash_key(seed, _STREAM_SAMPLE, number) if parameters.subsample < 1.0 else _NO_KEY,
            pack_key=hash_key(seed, _STREAM_ROWS, number),
            node_key=hash_key(seed, _STREAM_ROLES, number + 1, 1) if parameters.role_draw == "node" else _NO_KEY,
            subsample=parameters.subsample,
        )

    def _begin_tree(self, lane: Lane, draw: Draw, tops: Tops, output: int) -> tuple[list[int], Sums]:
        """Roles of all rows, and sums over all rows, in fixed point."""
        most = (tops.g, tops.h, tops.g**2, tops.h**2, tops.g**2 / self.rows.max_weight)
        units = [fixed_unit(top, self.rows.n) for top in most]
        counts, totals = lane.rows.begin_tree(draw, output, units)
        return counts.tolist(), Sums._make([total / unit for total, unit in zip(totals.tolist(), units, strict=True)])

    def _pack(self, lane: Lane, draw: Draw, tops: Tops, sums: Sums, output: int, unexplained: float) -> Packing:
        """Pack the gradients of all rows for the split search.

        The default rule multiplies them with weights, so that no few rows decide. The less there is left to explain,
        the less of that is noise, and the less the weights differ. Nor may rows decide that are far from all others:
        where errors are squared, so that h is one, a gradient counts a few root mean squares at most. Leaf values and
        the noise that scores are measured in know no such limit.
        """
        rows = lane.rows
        n = rows.n
        spread = round(unexplained * _SPREADS) / _SPREADS if rows.layout.drawn else 0.0
        # sums in fixed point leave out less than a unit of each row, which is all of it where all rows are near zero
        room_g = drawn_bound(sums.g + n / fixed_unit(tops.g, n), sums.g2, tops.g, spread)
        room_h = drawn_bound(sums.h + n / fixed_unit(tops.h, n), sums.h2, tops.h, spread)
        g_limit = coarse(self._clip * math.sqrt(max(sums.square, 1e-300) / max(sums.h, 1e-300)))
        packing = choose_packing(room_g, room_h, rows.n_rows, self._count_bits, spread, g_limit)
        sum_g, sum_h = rows.pack(draw, output, packing).tolist()
        if not packing.holds(sum_g, sum_h, rows.n_rows):
            raise AssertionError("packed gradients overflow; this is a bug, please report it")
        return packing

    def _dispersion(self, sums: Sums, progress: Progress) -> float:
        """Mean square of a gradient in units of the hessian: what one unit of noise is worth."""
        if self.parameters.split_rule != "evidence":
            return 1.0
        ratio = max(sums.g2 / max(sums.h, 1e-300), 1e-300)
        if not self.loss.unit_dispersion:
            return ratio
        # Known to be one; weights change it once and for all, so it is measured before anything was fitted.
        if not self.rows.weighted:
            return 1.0
        if math.isnan(progress.start_dispersion):
            progress.start_dispersion = ratio
        return progress.start_dispersion

    def _rule(self, packing: Packing, tops: Tops, dispersion: float, unexplained: float, number: int) -> Rule:
        """The split rule in units of this tree's packing."""
        parameters, layout = self.parameters, self.rows.layout
        top_h = tops.h * largest_weight(packing.spread)
        return Rule(
            code=self._code,
            n_roles=layout.n_roles,
            bits=packing.count_bits,
            reg_lambda=max(parameters.reg_lambda * packing.h_scale, 1e-9),
            cat_smooth=parameters.cat_smooth * packing.h_scale,
            min_samples=parameters.min_samples_leaf,
            sure_hessian=int(min(parameters.min_samples_leaf * (top_h * packing.h_scale + 1.0), 2.0**60)) + 1,
            min_hessian=math.ceil(min(parameters.min_child_weight * packing.h_scale, 2.0**60)),
            unit=packing.h_scale / packing.g_scale**2 / dispersion,
            limit=1.0 + math.sqrt(unexplained),
            node_share=parameters.colsample_bynode,
            node_key=hash_key(parameters.seed, _STREAM_NODES, number) if parameters.colsample_bynode < 1.0 else _NO_KEY,
        )

    def _unexplained(self, output: int, sums: Sums, progress: Progress) -> float:
        """Share of an output's squared gradients before the first iteration that is left; only one rule asks for it."""
        start = progress.start_squares
        if self._code != EVIDENCE:
            return 1.0
        if math.isnan(start[output]):
            start[output] = sums.g2
        return min(sums.g2 / max(float(start[output]), 1e-300), 1.0)

    def _evidence(self, memory: EvidenceMemory, unexplained: float, rule: Rule) -> Evidence:
        """What earlier trees say, and room for what this one finds.

        The best of p useless features scores higher than one of them, by about the logarithm of p in units of the mean
        of one. A split has to make up for that as far as the target is still unexplained: where nearly all of it is
        explained, little of what is left is noise.
        """
        price = rule.limit * self._log_useful * unexplained if self._code == EVIDENCE else 0.0
        bonus = memory.bonus(self._bonus_weight, price)
        return Evidence(bonus, np.zeros(len(bonus)))

    def _grow(self, lane: Lane, rule: Rule, evidence: Evidence, draw: Draw) -> None:
        """Let the team grow the tree, and have done what it asks for."""
        memory, rows = lane.memory, lane.rows
        limits, table = memory.limits(self.parameters, rows, draw.node_key), memory.table(rows)
        memory.board[:] = 0

        def arguments(member: int) -> tuple[Any, ...]:
            return (
                member,
                memory.board,
                memory.state,
                memory.nodes,
                self.features,
                memory.levels,
                memory.node_groups,
                rule,
                limits,
                memory.node_share,
                evidence,
                table,
                memory.free,
                memory.tree_allowed,
                memory.allowed,
                memory.scratch[member],
                memory.candidates,
            )

        if lane.grow is None:
            lane.grow = code_for(grow, *arguments(0))
        code = lane.grow

        def work(member: int) -> int:
            return code(*arguments(member))

        def stop() -> None:
            memory.board[STOP] = 1

        others = [partial(work, member) for member in range(1, memory.n_members)]
        lead = partial(lane.pool.run_team, partial(work, 0), others, stop) if others else partial(work, 0)
        while (question := lead()) != DONE:
            if rows.elsewhere is None:
                raise AssertionError("the grower asks for rows that it has; this is a bug, please report it")
            if question == ASK_PARTITION:
                rows.elsewhere.partition(memory, int(memory.state[PARENT]), rule, evidence)
                continue
            for node in memory.state[[SMALL, LARGE]].tolist():
                if node >= 0:
                    rows.elsewhere.find_split(memory, node, rule, evidence)

    def _end_trial(self, lane: Lane, rule: Rule, unexplained: float) -> None:
        """Take back a root that was divided although its split was turned away, unless the splits below make up for it.

        What they score together must be as far above the limit as if it were the best of so many choices more.
        """
        memory, limit = lane.memory, self.parameters.min_split_gain
        root = memory.nodes.node[0]
        if root["left"] < 0 or root["score"] > limit:
            return
        made = memory.nodes.node[: int(memory.state[N_NODES])]
        score = made["score"][made["left"] >= 0]
        choice = rule.limit * max(self._log_useful, 1.0) * unexplained
        if len(score) > 1 and (score - limit).sum() > _TRIAL_CHOICES * choice:
            return
        root["left"] = -1
        memory.state[[N_NODES, N_LEAVES]] = 1
        lane.rows.undivide()

    def _finish(self, lane: Lane, tops: Tops, output: int, packing: Packing, dispersion: float) -> GrownTree:
        """Leaf values, raw predictions, and the tree itself."""
        memory, rows, parameters = lane.memory, lane.rows, self.parameters
        m = int(memory.state[N_NODES])
        step = NewtonStep(
            fixed_unit(tops.g, rows.n),
            fixed_unit(tops.h, rows.n),
            parameters.reg_lambda,
            parameters.pull,
            packing.h_scale / packing.g_scale,
            self.loss.max_step,
            parameters.learning_rate / parameters.n_bags,
        )
        if self.loss.leaf_level is not None:
            value = quantile_step(rows, memory, output, self.loss.leaf_level, step)
        elif isinstance(rows, Shard) and rows.alone:
            value = rows.finish_leaves(memory, output, step)
        else:
            value = newton_step(rows, memory, output, step)
        node = memory.nodes.node[:m].copy()
        node["worth"] *= (0.5 * dispersion if self._code == EVIDENCE else 1.0) / parameters.n_bags
        levels = None if memory.levels is None else memory.levels[:m].copy()
        return GrownTree(output, node, levels, value, memory.nodes.count[:m].copy())

    def add_to(self, grown: GrownTree, bins: Bins, raw: FloatArray) -> None:
        """Add a tree to the raw predictions of another table that was binned by the same mapper."""
        flat, step = raw.reshape(-1), raw.shape[1]
        tree = (bins, self.features, grown.node, grown.levels, grown.value, flat, grown.output, step)
        self.pool.run(add_tree, [(*tree, begin, end) for begin, end in self.pool.blocks(len(raw), BLOCK_ROWS)])
