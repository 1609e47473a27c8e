"""The boosting loop: gradients → roles → tree → leaf values → raw predictions.

`Booster.iterate` is one iteration, top to bottom. Everything random comes from hashes of (seed, tree, row), and every
sum over rows is an integer sum, so the model does not depend on threads, blocks or the order in which work was done.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import BinMapper, Bins
from unbiasedgbm.ensemble.trees import Tree
from unbiasedgbm.kernels import hash_key
from unbiasedgbm.losses import Loss
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.evidence import EvidenceMemory
from unbiasedgbm.training.gradients import (
    PACK_ROWS,
    Packing,
    choose_packing,
    count_bits,
    drawn_bound,
    pack,
    sum_chunks,
    sum_rows,
)
from unbiasedgbm.training.grower import (
    ASK_HISTOGRAM,
    ASK_PARTITION,
    DONE,
    N_NODES,
    REQUEST,
    Evidence,
    grow,
    start_tree,
)
from unbiasedgbm.training.partition import add_tree, add_values
from unbiasedgbm.training.splitting import EVIDENCE, Rule
from unbiasedgbm.training.workspace import BLOCK_ROWS, STREAM_ROLES, TrainingData, TrainingParameters, Workspace

FloatArray = npt.NDArray[np.float64]

# Iterations without a split at any root after which boosting ends.
PATIENCE = 30

# Gradients are kept in float32.
_MAX_GRADIENT = float(np.finfo(np.float32).max)

# Streams of random bits.
_STREAM_ROWS, _STREAM_NODES = 1, 2

# Rows whose gradients are computed together: few enough for the nearer caches, and so many that two threads do not
# spend their time handing the interpreter lock to each other.
_GRADIENT_ROWS = 32768


@dataclass
class Progress:
    """All that an interrupted training needs to go on as if nothing had happened.

    Attributes
    ----------
    n_iterations : int
    idle : int
        Iterations in a row in which no root could be split.
    memories : list of EvidenceMemory, one an output
    importance : ndarray of shape (p,), float64
        Sum of the acceptance scores of each feature's splits, rejected candidates included.
    n_splits : ndarray of shape (p,), int64
    start_dispersion : float
        Dispersion before the first iteration, where it is measured once and for all; NaN where it was not.
    """

    n_iterations: int
    idle: int
    memories: list[EvidenceMemory]
    importance: FloatArray
    n_splits: npt.NDArray[np.int64]
    start_dispersion: float = math.nan

    @classmethod
    def start(cls, n_features: int, n_outputs: int) -> Progress:
        """Before the first iteration."""
        memories = [EvidenceMemory.empty(n_features) for _ in range(n_outputs)]
        return cls(0, 0, memories, np.zeros(n_features), np.zeros(n_features, np.int64))

    def copy(self) -> Progress:
        """A progress of its own."""
        memories = [memory.copy() for memory in self.memories]
        return replace(self, memories=memories, importance=self.importance.copy(), n_splits=self.n_splits.copy())


class Gradients(NamedTuple):
    """Gradients of an iteration."""

    g: npt.NDArray[np.float32]
    """(n_outputs, n)"""
    h: npt.NDArray[np.float32]
    max_g: float
    """Largest |g| of any output, weights applied."""
    max_h: float


class Sums(NamedTuple):
    """Sums over all rows of one output's |g|, h, g² and h², weights applied."""

    g: float
    h: float
    g2: float
    h2: float


@dataclass
class GrownTree:
    """A tree as the grower left it, on bins, with its leaf values."""

    tree: Tree
    node: npt.NDArray[np.void]
    levels: npt.NDArray[np.uint64] | None
    value: FloatArray


@dataclass
class Booster:
    """Grows trees one iteration at a time.

    Parameters
    ----------
    parameters : TrainingParameters
    loss : Loss
    data : TrainingData
    mapper : BinMapper
    features : ndarray of shape (p,), FEATURE
    groups : ndarray of shape (n_groups, p), uint8
        Interaction groups.
    raw : ndarray of shape (n, n_outputs), float64
        Raw predictions so far; advanced by every iteration.
    progress : Progress
        Advanced by every iteration.
    pool : Pool
    """

    parameters: TrainingParameters
    loss: Loss
    data: TrainingData
    mapper: BinMapper
    features: npt.NDArray[np.void]
    groups: npt.NDArray[np.uint8]
    raw: FloatArray
    progress: Progress
    pool: Pool
    _memory: Workspace = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._memory = Workspace(
            self.parameters, self.data, self.mapper, self.features, self.groups, self.raw.shape[1], self.pool
        )

    @property
    def exhausted(self) -> bool:
        """Whether so many iterations in a row found no split that more of them are hopeless."""
        return self.progress.idle >= PATIENCE

    def iterate(self) -> list[GrownTree]:
        """One iteration: a tree for each output, all from the gradients at its start."""
        n_outputs = self.raw.shape[1]
        gradients = self._gradients()
        grown = []
        for output in range(n_outputs):
            number = self.progress.n_iterations * n_outputs + output
            grown.append(self._grow_tree(gradients, output, number))
        self.progress.n_iterations += 1
        split = any(len(tree.node) > 1 for tree in grown)
        self.progress.idle = 0 if split else self.progress.idle + 1
        return grown

    # -- gradients ---------------------------------------------------------------------------------------------------

    def _gradients(self) -> Gradients:
        """Derivatives of the loss at the current raw predictions, by blocks of rows."""
        memory, y, loss = self._memory, self.data.y, self.loss
        raw = self.raw[:, 0] if self.raw.shape[1] == 1 else self.raw
        loss.prepare(y, raw, self.data.sample_weight)

        def work(begin: int, end: int) -> tuple[float, float]:
            top_g, top_h = loss.bounds or (0.0, 0.0)
            for start in range(begin, end, _GRADIENT_ROWS):
                stop = min(start + _GRADIENT_ROWS, end)
                g, h = loss.gradients(y[start:stop], raw[start:stop])
                with np.errstate(over="ignore"):
                    memory.g[:, start:stop] = g.T
                    memory.h[:, start:stop] = h.T
                if loss.bounds is None:
                    top_g = max(top_g, float(g.max()), -float(g.min()))
                    top_h = max(top_h, float(h.max()))
            return top_g, top_h

        tops = self.pool.run(work, memory.blocks)
        # float32 rounding may have gone up
        max_g = max(top[0] for top in tops) * 1.000001
        max_h = max(top[1] for top in tops) * 1.000001
        if not (max_g < _MAX_GRADIENT and max_h < _MAX_GRADIENT):
            raise ValueError("loss: a gradient is not finite in float32; the target or the learning rate is too large.")
        return Gradients(memory.g, memory.h, max_g * memory.max_weight, max_h * memory.max_weight)

    # -- one tree ----------------------------------------------------------------------------------------------------

    def _grow_tree(self, gradients: Gradients, output: int, number: int) -> GrownTree:
        """Roles, packed gradients, growth, leaf values, update."""
        memory, parameters = self._memory, self.parameters
        counts = memory.draw_roles(parameters, number)
        sums = self._sums(gradients, output)
        packing = self._pack(gradients, sums, output, number)
        dispersion = self._dispersion(sums)
        rule = self._rule(packing, gradients, dispersion, number)
        evidence = self._evidence(output)
        memory.draw_columns(parameters, number)
        start_tree(counts, memory.nodes, memory.free, memory.state)
        self._answer_questions(rule, evidence, number)
        if parameters.split_rule == "evidence":
            self.progress.memories[output].learn(evidence.found)
        return self._finish(gradients, output, packing, dispersion)

    def _sums(self, gradients: Gradients, output: int) -> Sums:
        """Σ|g|, Σh, Σg², Σh² of all rows, weights applied, in fixed point."""
        memory = self._memory
        n = len(self.raw)
        units = [_unit(top, n) for top in (gradients.max_g, gradients.max_h, gradients.max_g**2, gradients.max_h**2)]
        parts = np.zeros((len(memory.blocks), 4), np.int64)
        self.pool.run(
            sum_rows,
            [
                (gradients.g[output], gradients.h[output], memory.weight, begin, end, *units, parts[k])
                for k, (begin, end) in enumerate(memory.blocks)
            ],
        )
        return Sums(*(float(total) / unit for total, unit in zip(parts.sum(axis=0), units, strict=True)))

    def _pack(self, gradients: Gradients, sums: Sums, output: int, number: int) -> Packing:
        """Pack the gradients of all rows for the split search."""
        memory, parameters = self._memory, self.parameters
        key = hash_key(parameters.seed, _STREAM_ROWS, number)
        bits = count_bits(parameters.min_samples_leaf)
        room_g, room_h = sums.g, sums.h
        if memory.drawn:
            room_g = drawn_bound(sums.g, sums.g2, gradients.max_g, memory.max_draw)
            room_h = drawn_bound(sums.h, sums.h2, gradients.max_h, memory.max_draw)
        packing = choose_packing(room_g, room_h, memory.n_rows, bits)
        totals = np.zeros((len(memory.blocks), 2), np.int64)
        self.pool.run(
            pack,
            [
                (
                    gradients.g[output],
                    gradients.h[output],
                    memory.weight,
                    memory.counts,
                    memory.table,
                    key,
                    begin,
                    end,
                    *packing,
                    memory.packed,
                    totals[k],
                    np.empty(PACK_ROWS, np.uint64),
                    np.empty(PACK_ROWS),
                )
                for k, (begin, end) in enumerate(memory.blocks)
            ],
        )
        sum_g, sum_h = (int(total) for total in totals.sum(axis=0))
        if not packing.holds(sum_g, sum_h, memory.n_rows):
            raise AssertionError("packed gradients overflow; this is a bug, please report it")
        return packing

    def _dispersion(self, sums: Sums) -> float:
        """Mean square of a gradient in units of the hessian: what one unit of noise is worth."""
        if self.parameters.split_rule != "evidence":
            return 1.0
        ratio = max(sums.g2 / max(sums.h, 1e-300), 1e-300)
        if not self.loss.unit_dispersion:
            return ratio
        # Known to be one; weights change it once and for all, so it is measured before anything was fitted.
        if self.data.sample_weight is None:
            return 1.0
        if math.isnan(self.progress.start_dispersion):
            self.progress.start_dispersion = ratio
        return self.progress.start_dispersion

    def _rule(self, packing: Packing, gradients: Gradients, dispersion: float, number: int) -> Rule:
        """The split rule in units of this tree's packing."""
        memory, parameters = self._memory, self.parameters
        top_h = gradients.max_h * memory.max_draw
        return Rule(
            code=memory.code,
            n_roles=memory.n_roles,
            bits=packing.count_bits,
            reg_lambda=max(parameters.reg_lambda * packing.h_scale, 1e-9),
            cat_smooth=parameters.cat_smooth * packing.h_scale,
            min_samples=parameters.min_samples_leaf,
            sure_hessian=int(min(parameters.min_samples_leaf * (top_h * packing.h_scale + 1.0), 2.0**60)) + 1,
            min_hessian=math.ceil(min(parameters.min_child_weight * packing.h_scale, 2.0**60)),
            unit=packing.h_scale / packing.g_scale**2 / dispersion,
            null_mean=2.0 if memory.drawn else 1.0,
            node_share=parameters.colsample_bynode,
            node_key=hash_key(parameters.seed, _STREAM_NODES, number),
        )

    def _evidence(self, output: int) -> Evidence:
        """What earlier trees say, and room for what this one finds."""
        bonus = self.progress.memories[output].bonus()
        return Evidence(bonus, np.zeros_like(bonus))

    def _answer_questions(self, rule: Rule, evidence: Evidence, number: int) -> None:
        """Let the grower run, and do on the pool what it asks for."""
        memory = self._memory
        limits = memory.limits(self.parameters, hash_key(self.parameters.seed, STREAM_ROLES, number + 1, 1))
        while True:
            question = grow(
                memory.state,
                memory.nodes,
                self.data.bins,
                self.features,
                memory.levels,
                memory.node_groups,
                rule,
                limits,
                memory.node_share,
                evidence,
                memory.packed,
                memory.rows,
                memory.spare,
                memory.hist,
                memory.free,
                memory.tree_allowed,
                memory.allowed,
                memory.scratch[0],
                memory.candidates,
            )
            if question == DONE:
                return
            node = int(memory.state[REQUEST])
            if question == ASK_PARTITION:
                memory.partition(node)
            elif question == ASK_HISTOGRAM:
                memory.build_histogram(node)
            else:
                memory.scan(node, rule, evidence)

    def _finish(self, gradients: Gradients, output: int, packing: Packing, dispersion: float) -> GrownTree:
        """Leaf values from all rows, raw predictions, importance, and the tree itself."""
        memory = self._memory
        m = int(memory.state[N_NODES])
        node, count = memory.nodes.node[:m], memory.nodes.count[:m]
        leaf = np.flatnonzero(node["left"] < 0)
        begin = node["begin"][leaf]
        end = begin + count[leaf, :3].sum(axis=1)
        if self.loss.renews_leaves:
            leaf_value = self._renewed_values(output, begin, end)
        else:
            leaf_value = self._newton_values(gradients, output, begin, end)
        scale = packing.h_scale / packing.g_scale
        leaf_value = np.clip(leaf_value, node["low"][leaf] * scale, node["high"][leaf] * scale)
        value = np.zeros(m)
        value[leaf] = self.parameters.learning_rate * leaf_value
        self._add(output, begin, end + count[leaf, 3], value[leaf])
        self._count_importance(node, dispersion)
        return self._export(node, value, output)

    def _newton_values(
        self, gradients: Gradients, output: int, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
    ) -> FloatArray:
        """−G/(H + λ) of every leaf, in fixed point."""
        memory = self._memory
        n = len(self.raw)
        g_unit = _unit(gradients.max_g, n)
        h_unit = _unit(gradients.max_h, n)
        owner, begins, ends = memory.chunks(begin, end)
        sums = np.zeros((len(begins), 2), np.int64)
        self.pool.run(
            sum_chunks,
            [
                (
                    gradients.g[output],
                    gradients.h[output],
                    memory.weight,
                    memory.rows,
                    begins,
                    ends,
                    first,
                    last,
                    g_unit,
                    h_unit,
                    sums,
                )
                for first, last in memory.groups(len(begins))
            ],
        )
        if owner is not None:
            sums = np.stack([np.add.reduceat(sums[:, k], owner) for k in (0, 1)], axis=1)
        g, h = sums[:, 0] / g_unit, sums[:, 1] / h_unit
        return -g / np.maximum(h + self.parameters.reg_lambda, 1e-300)

    def _renewed_values(self, output: int, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> FloatArray:
        """Leaf values that the loss finds from residuals."""
        rows, weight = self._memory.rows, self.data.sample_weight

        def one(first: int, last: int) -> float:
            chosen = rows[first:last]
            residual = self.data.y[chosen] - self.raw[chosen, output]
            return self.loss.renew(residual, None if weight is None else weight[chosen]) if last > first else 0.0

        return np.array([one(int(b), int(e)) for b, e in zip(begin, end, strict=True)])

    def _add(self, output: int, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64], value: FloatArray) -> None:
        """Add the leaves' values to the raw predictions of all their rows, also of those left out of the tree."""
        memory = self._memory
        owner, begins, ends = memory.chunks(begin, end)
        values = value if owner is None else np.repeat(value, np.diff(np.append(owner, len(begins))))
        flat = self.raw.reshape(-1)
        step = self.raw.shape[1]
        self.pool.run(
            add_values,
            [
                (flat, output, step, memory.rows, begins, ends, values, first, last)
                for first, last in memory.groups(len(begins))
            ],
        )

    def _count_importance(self, node: npt.NDArray[np.void], dispersion: float) -> None:
        """Add the worth of every split made, and of every candidate that was turned away (the paper's Remark)."""
        feature = node["feature"]
        made = node["left"] >= 0
        counted = made | ((feature >= 0) & (node["score"] <= self.parameters.min_split_gain))
        worth = node["worth"][counted]
        if self._memory.code == EVIDENCE:
            worth = 0.5 * dispersion * worth
        p = len(self.features)
        self.progress.importance += np.bincount(feature[counted], worth, p)
        self.progress.n_splits += np.bincount(feature[made], minlength=p)

    def _export(self, node: npt.NDArray[np.void], value: FloatArray, output: int) -> GrownTree:
        """Copy the tree out of the workspace, with thresholds instead of bins."""
        m = len(node)
        left = node["left"].astype(np.int32)
        inner = left >= 0
        feature = np.where(inner, node["feature"], -1).astype(np.int32)
        bins = node["bin"]
        start, edges = self.mapper.flat_edges
        set_start = np.full(m, -1, dtype=np.int64)
        set_words = np.zeros(m, dtype=np.int32)
        sets = np.empty(0, np.uint64)
        categorical = inner & self.mapper.categorical[feature]
        levels = self._memory.levels
        if levels is not None and categorical.any():
            set_words[categorical] = (self.mapper.n_bins[feature[categorical]] + 63) // 64
            set_start[categorical] = np.cumsum(set_words[categorical]) - set_words[categorical]
            sets = np.concatenate([levels[k, : set_words[k]] for k in np.flatnonzero(categorical)])
        # the last bin has no upper edge: all values on the left, missing ones on the right
        open_end = inner & ~categorical & (bins == self.mapper.n_bins[feature] - 1)
        cut = inner & ~categorical & ~open_end
        threshold = np.where(open_end, np.inf, 0.0)
        threshold[cut] = edges[start[feature[cut]] + bins[cut] - 1]
        tree = Tree(
            output=output,
            left=left,
            feature=feature,
            threshold=threshold,
            missing_left=inner & ~categorical & (node["missing_left"] != 0),
            set_start=set_start,
            set_words=set_words,
            sets=sets,
            value=value,
            cover=self._memory.nodes.count[:m, :3].sum(axis=1).astype(np.float64),
            score=np.where(np.isfinite(node["score"]), node["score"], 0.0),
        )
        return GrownTree(tree, node.copy(), None if levels is None else levels[:m].copy(), value)

    def add_to(self, grown: GrownTree, bins: Bins, raw: FloatArray) -> None:
        """Add a tree to the raw predictions of another table that was binned by the same mapper."""
        flat, step = raw.reshape(-1), raw.shape[1]
        tree = (bins, self.features, grown.node, grown.levels, grown.value, flat, grown.tree.output, step)
        self.pool.run(add_tree, [(*tree, begin, end) for begin, end in self.pool.blocks(len(raw), BLOCK_ROWS)])


def _unit(top: float, n: int) -> float:
    """Largest power of two by which n numbers up to ``top`` can be multiplied and still be added up in 62 bits."""
    exponent = 62 - math.frexp(max(top, 1e-280))[1] - (n + 1).bit_length()
    return math.ldexp(1.0, min(exponent, 900))
