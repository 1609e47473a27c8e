"""Workspace: the arrays of a fit, made once, and the pool's answers to the grower's questions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import BinMapper, Bins
from unbiasedgbm.kernels import hash_key
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.gradients import draw_roles, exponential_table, sort_rows
from unbiasedgbm.training.grower import STATE_SIZE, Evidence, Limits, new_nodes
from unbiasedgbm.training.histogram import add_rows_alone
from unbiasedgbm.training.partition import place_rows_alone, split_rows_alone
from unbiasedgbm.training.roles import role_ends, role_shares
from unbiasedgbm.training.splitting import (
    CANDIDATE,
    EVIDENCE,
    SPLIT_RULES,
    Rule,
    new_scratch,
    scan_features_alone,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Rows of a block of work on a thread.
BLOCK_ROWS = 16_384

# Memory for histograms beyond which the least promising leaves lose theirs.
HIST_BYTES = 512 << 20

# Below so many (row, feature) pairs of a histogram, rows of a partition, or bins of a scan, a question to the pool
# costs more than it saves.
_ASK_PAIRS = 1_000_000
_ASK_ROWS = 100_000
_ASK_BINS = 40_000

# Streams of random bits.
STREAM_ROLES, _STREAM_COLUMNS, _STREAM_SAMPLE = 0, 3, 4


@dataclass(frozen=True)
class TrainingParameters:
    """What the loop needs to know; see the estimators for the meaning of each."""

    learning_rate: float
    split_rule: str
    role_ratio: tuple[float, ...] | None
    role_draw: str
    num_leaves: int
    max_depth: int | None
    min_samples_leaf: int
    min_child_weight: float
    min_split_gain: float
    reg_lambda: float
    cat_smooth: float
    subsample: float
    colsample_bytree: float
    colsample_bynode: float
    seed: int


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
    """

    bins: Bins
    y: FloatArray
    sample_weight: FloatArray | None
    counts: npt.NDArray[np.uint16] | None


class Workspace:
    """Arrays that are made once for a fit, and what the pool does with them.

    Parameters
    ----------
    parameters : TrainingParameters
    data : TrainingData
    mapper : BinMapper
    features : ndarray of shape (p,), FEATURE
    groups : ndarray of shape (n_groups, p), uint8
    n_outputs : int
    pool : Pool
    """

    def __init__(
        self,
        parameters: TrainingParameters,
        data: TrainingData,
        mapper: BinMapper,
        features: npt.NDArray[np.void],
        groups: npt.NDArray[np.uint8],
        n_outputs: int,
        pool: Pool,
    ) -> None:
        n, p = len(data.y), len(features)
        self.pool, self.features, self.bins = pool, features, data.bins
        self.code = SPLIT_RULES[parameters.split_rule]
        shares = role_shares(parameters.split_rule, parameters.role_ratio)
        self.n_roles = int((shares > 0).sum())
        self.share = role_ends(shares)
        self.blocks = pool.blocks(n, BLOCK_ROWS)
        # rows
        self.weight = np.empty(0) if data.sample_weight is None else data.sample_weight
        self.max_weight = float(self.weight.max(initial=0.0)) or 1.0
        self.counts = np.empty(0, np.uint16) if data.counts is None else data.counts
        self.drawn = self.code == EVIDENCE
        self.table = exponential_table() if self.drawn else np.ones_like(exponential_table())
        self.max_draw = float(self.table.max(initial=1.0))
        self.n_rows = n if data.counts is None else int(data.counts.sum(dtype=np.int64))
        self.roles = np.zeros(n, np.uint8)
        self.packed = np.zeros(n, np.int64)
        self.rows = np.zeros(n, np.uint32)
        self.spare = np.zeros(n, np.uint32)
        self.g = np.zeros((n_outputs, n), np.float32)
        self.h = np.zeros((n_outputs, n), np.float32)
        # nodes
        most_levels = int(features["n_bins"][mapper.categorical].max(initial=0))
        self.nodes = new_nodes(parameters.num_leaves, len(groups))
        # None where a fit has no use for it: `grow` is compiled without it
        self.levels = np.zeros((len(self.nodes.node), (most_levels + 63) // 64), np.uint64) if most_levels else None
        self.node_groups = groups if len(groups) or parameters.colsample_bynode < 1.0 else None
        self.node_share = self.share if parameters.role_draw == "node" else None
        self.state = np.zeros(STATE_SIZE, np.int64)
        self.candidates = np.zeros(p, CANDIDATE)
        self.tree_allowed = np.ones(p, np.uint8)
        self.allowed = self.tree_allowed if self.node_groups is None else np.ones(p, np.uint8)
        self.scratch = [new_scratch(int(features["n_bins"].max())) for _ in range(pool.n_threads)]
        # histograms: the slots of nodes, then one for each further thread
        self.hist_size = mapper.hist_size
        self.node_size = self.n_roles * self.hist_size
        self.n_slots = min(max(2, parameters.num_leaves), max(4, HIST_BYTES // (8 * self.node_size)))
        self.hist = np.zeros((self.n_slots + pool.n_threads - 1) * self.node_size, np.int64)
        self.free = np.zeros(self.n_slots, np.int64)

    def limits(self, parameters: TrainingParameters, draw_key: np.uint64) -> Limits:
        """When to stop growing and when to ask."""
        alone = self.pool.n_threads == 1
        p = len(self.features)
        return Limits(
            num_leaves=parameters.num_leaves,
            max_depth=parameters.max_depth or 0,
            min_rows=2 if self.counts.size else 2 * parameters.min_samples_leaf,
            min_split_gain=parameters.min_split_gain,
            draw_key=draw_key,
            ask_rows=1 << 62 if alone else max(BLOCK_ROWS // 4, _ASK_PAIRS // p),
            ask_partition=1 << 62 if alone else _ASK_ROWS,
            ask_bins=1 << 62 if alone else _ASK_BINS,
            n_bins=self.hist_size,
        )

    def draw_roles(self, parameters: TrainingParameters, number: int) -> list[int]:
        """Draw a tree's roles and sort its rows by them; returns the rows of each role."""
        n = len(self.rows)
        if self.share[0] == 1.0 and parameters.subsample == 1.0:
            self.rows[:] = np.arange(n, dtype=np.uint32)
            return [n, 0, 0, 0]
        key = hash_key(parameters.seed, STREAM_ROLES, 0 if parameters.role_draw == "fit" else number + 1)
        sample_key = hash_key(parameters.seed, _STREAM_SAMPLE, number)
        counts = np.zeros((len(self.blocks), 4), np.int64)
        self.pool.run(
            draw_roles,
            [
                (key, self.share, sample_key, parameters.subsample, begin, end, self.roles, counts[k])
                for k, (begin, end) in enumerate(self.blocks)
            ],
        )
        total = counts.sum(axis=0)
        place = total.cumsum() - total + counts.cumsum(axis=0) - counts
        self.pool.run(
            sort_rows, [(self.roles, begin, end, place[k], self.rows) for k, (begin, end) in enumerate(self.blocks)]
        )
        return [int(count) for count in total]

    def draw_columns(self, parameters: TrainingParameters, number: int) -> None:
        """Choose a tree's features: those with the smallest hashes, whatever their order."""
        p = len(self.tree_allowed)
        if parameters.colsample_bytree >= 1.0:
            return
        wanted = max(1, round(parameters.colsample_bytree * p))
        draws = np.array([hash_key(parameters.seed, _STREAM_COLUMNS, number, int(tie)) for tie in self.features["tie"]])
        self.tree_allowed[:] = 0
        self.tree_allowed[np.argsort(draws, kind="stable")[:wanted]] = 1

    # -- answers to the grower ---------------------------------------------------------------------------------------

    def _segments(self, node: int) -> list[tuple[int, int, int]]:
        """Blocks (role, begin, end) of a node's rows, one a thread for each role."""
        segments = []
        begin = int(self.nodes.node[node]["begin"])
        for role in range(4):
            count = int(self.nodes.count[node, role])
            n_parts = max(1, min(self.pool.n_threads, count // BLOCK_ROWS))
            edges = [begin + count * k // n_parts for k in range(n_parts + 1)]
            segments += [(role, first, last) for first, last in pairwise(edges) if last > first]
            begin += count
        return segments

    def partition(self, node: int) -> None:
        """Divide a node's rows between its children."""
        nodes = self.nodes
        split, feature = nodes.node[node], self.features[nodes.node[node]["feature"]]
        rule = (
            self.bins,
            feature["column"],
            feature["categorical"],
            split["bin"],
            split["missing_left"],
            self.levels,
            node,
        )
        segments = self._segments(node)
        n_left = self.pool.run(
            split_rows_alone, [(*rule, self.rows, begin, end, self.spare) for _, begin, end in segments]
        )
        nodes.left_count[:] = 0
        for (role, _, _), k in zip(segments, n_left, strict=True):
            nodes.left_count[role] += k
        left_at = int(nodes.node[node]["begin"])
        right_at = left_at + int(nodes.left_count.sum())
        moves = []
        for (_, begin, end), k in zip(segments, n_left, strict=True):
            moves.append((self.spare, begin, end, k, self.rows, left_at, right_at))
            left_at += k
            right_at += end - begin - k
        self.pool.run(place_rows_alone, moves)

    def build_histogram(self, node: int) -> None:
        """Histogram of a node: every thread adds up its share of the rows, then the shares are added up."""
        nodes, bins = self.nodes, self.bins
        begin = int(nodes.node[node]["begin"])
        ends = begin + np.cumsum(nodes.count[node, : self.n_roles])
        n = int(ends[-1]) - begin
        n_parts = self.pool.n_threads
        slots = [int(nodes.node[node]["slot"]), *range(self.n_slots, self.n_slots + n_parts - 1)]

        def one(k: int) -> None:
            origin = slots[k] * self.node_size
            self.hist[origin : origin + self.node_size] = 0
            low, high = begin + n * k // n_parts, begin + n * (k + 1) // n_parts
            start = begin
            for role in range(self.n_roles):
                stop = int(ends[role])
                first, last = max(low, start), min(high, stop)
                if last > first:
                    add_rows_alone(bins, self.packed, self.rows, first, last, self.hist, origin + role * self.hist_size)
                start = stop

        self.pool.run(one, [(k,) for k in range(n_parts)])
        parts = self.hist.reshape(-1, self.node_size)
        for slot in slots[1:]:
            parts[slots[0]] += parts[slot]

    def scan(self, node: int, rule: Rule, evidence: Evidence) -> None:
        """Candidates of all features, a share of them on each thread."""
        nodes, p = self.nodes, len(self.features)
        edges = [p * k // self.pool.n_threads for k in range(self.pool.n_threads + 1)]
        self.pool.run(
            scan_features_alone,
            [
                (
                    edges[k],
                    edges[k + 1],
                    self.hist,
                    int(nodes.node[node]["slot"]) * self.node_size,
                    self.hist_size,
                    int(nodes.count[node, 0]),
                    self.features,
                    self.levels,
                    self.allowed,
                    evidence.bonus,
                    rule,
                    float(nodes.node[node]["low"]),
                    float(nodes.node[node]["high"]),
                    self.scratch[k],
                    self.candidates,
                )
                for k in range(self.pool.n_threads)
            ],
        )

    # -- rows of leaves ----------------------------------------------------------------------------------------------

    def chunks(self, begin: IntArray, end: IntArray) -> tuple[IntArray | None, IntArray, IntArray]:
        """Cut leaves into pieces that threads can share.

        Returns
        -------
        owner : ndarray of shape (n_leaves,), int64, or None
            First chunk of each leaf; None if every leaf is one chunk.
        begins, ends : ndarrays of shape (n_chunks,), int64
        """
        if self.pool.n_threads == 1 or len(self.rows) < 4 * BLOCK_ROWS:
            return None, begin, end
        pieces = np.maximum(1, (end - begin) // BLOCK_ROWS)
        owner = np.cumsum(pieces) - pieces
        piece = np.arange(int(pieces.sum())) - np.repeat(owner, pieces)
        size = np.repeat(end - begin, pieces)
        first = np.repeat(begin, pieces)
        total = np.repeat(pieces, pieces)
        return owner, first + size * piece // total, first + size * (piece + 1) // total

    def groups(self, n_chunks: int) -> list[tuple[int, int]]:
        """Ranges of chunks, a few to a thread."""
        if self.pool.n_threads == 1 or len(self.rows) < 4 * BLOCK_ROWS:
            return [(0, n_chunks)]
        return self.pool.blocks(n_chunks, 1)
