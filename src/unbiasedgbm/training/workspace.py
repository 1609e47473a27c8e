"""Workspace: the arrays that a tree is grown in, made once, and what the booster asks of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import BinMapper, Bins
from unbiasedgbm.kernels import hash_key
from unbiasedgbm.losses import Loss
from unbiasedgbm.threads import Pool
from unbiasedgbm.training.gradients import Packing
from unbiasedgbm.training.nodes import STATE_SIZE, Evidence, Limits, Table, new_nodes
from unbiasedgbm.training.roles import role_ends, role_shares
from unbiasedgbm.training.shard import Draw, Layout
from unbiasedgbm.training.splitting import (
    CANDIDATE,
    EVIDENCE,
    FEW_ROWS,
    FEW_SEARCH,
    SPLIT_RULES,
    Rule,
    new_scratch,
)
from unbiasedgbm.training.team import new_board

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Memory for the histograms of a fit beyond which the least promising leaves lose theirs.
HIST_BYTES = 512 << 20

# A chunk of work for a member of a team: rows of a partition, rows of a histogram, bins of a scan or a subtraction.
# Smaller ones cost more than they save.
_SPLIT_ROWS = 4096
_BUILD_ROWS = 1024
_SCAN_BINS = 4096
_FEW_FEATURES = 64

# Rows of a table for every thread of a team.
_TEAM_ROWS = 10_000

# Threads grow trees of different chains from so many cells of a table on, below which they wait for the interpreter
# lock more than they gain, and up to so many rows, because it takes more memory than if they share every tree.
_LEAST_LANE_CELLS = 50_000
_MOST_LANE_ROWS = 500_000

_STREAM_COLUMNS = 3


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
    pull: float
    clip: float
    cat_smooth: float
    subsample: float
    colsample_bytree: float
    colsample_bynode: float
    n_bags: int
    linear_start: bool | None
    seed: int


class Elsewhere(Protocol):
    """Answers of rows that are not here."""

    def partition(self, memory: Workspace, node: int, rule: Rule, evidence: Evidence) -> None:
        """Divide a node's rows; the numbers go to ``side_count``."""

    def find_split(self, memory: Workspace, node: int, rule: Rule, evidence: Evidence) -> None:
        """Enter a node's best split, as `grower.settle` does."""


class Rows(Protocol):
    """What the booster asks of the rows, wherever they are: see `Shard`, which has them here."""

    n: int
    """Rows."""
    n_rows: int
    """Rows, each counted as often as its whole-number weight says."""
    weighted: bool
    counted: bool
    max_weight: float
    layout: Layout
    bins: Bins
    """What the grower reads itself while nodes are small; empty where rows are elsewhere."""
    packed: IntArray
    rows: npt.NDArray[np.uint32]
    spare: npt.NDArray[np.uint32]

    @property
    def elsewhere(self) -> Elsewhere | None:
        """Who answers what the grower asks, where it does not have the rows."""

    def gradients(self, loss: Loss, bag: int) -> tuple[float, float]:
        """Derivatives at a bag's raw predictions; returns the largest |g| and h, unweighted.

        The trees that follow belong to this bag.
        """

    def begin_tree(self, draw: Draw, output: int, units: Sequence[float]) -> tuple[IntArray, IntArray]:
        """Draw roles, add up gradients; returns rows of each role, and the sums."""

    def pack(self, draw: Draw, output: int, packing: Packing) -> IntArray:
        """Pack gradients; returns the sums of what was packed."""

    def undivide(self) -> None:
        """Have all rows in the root again, where the tree is to have no other node."""

    def leaf_sums(
        self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, units: tuple[float, float]
    ) -> IntArray:
        """Σg and Σh of every leaf, in fixed point."""

    def leaf_quantiles(self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, level: float) -> FloatArray:
        """A quantile of every leaf's residuals."""

    def add(self, memory: Workspace, leaf: npt.NDArray[np.intp], output: int, value: FloatArray) -> None:
        """Add leaves' values, so many times as there are bags, to the raw predictions of the bag."""

    def lanes(self, pools: Sequence[Pool]) -> Sequence[Rows]:
        """The same rows for so many trees at the same time, each on threads of its own."""


def make_layout(parameters: TrainingParameters, mapper: BinMapper) -> Layout:
    """Roles and histograms of a fit."""
    shares = role_shares(parameters.split_rule, parameters.role_ratio)
    evidence = SPLIT_RULES[parameters.split_rule] == EVIDENCE
    # Rows that found the splits are on the side that suits them: of a category with many levels, all of them. So the
    # default rule leaves the values of leaves to the other rows; the paper's rules take all.
    leaf_role = 1 if evidence else 0
    return Layout(role_ends(shares), int((shares > 0).sum()), evidence, mapper.hist_size, leaf_role)


def count_lanes(n_rows: int, n_features: int, n_bags: int, n_threads: int) -> int:
    """Trees of different chains that are grown at the same time."""
    suits = n_rows * n_features >= _LEAST_LANE_CELLS and n_rows <= _MOST_LANE_ROWS
    return min(n_bags, n_threads) if suits else 1


def team_size(n_rows: int, n_threads: int) -> int:
    """Threads that grow a tree together."""
    return max(1, min(n_threads, n_rows // _TEAM_ROWS))


class Workspace:
    """Arrays that the grower works with, made once for a fit.

    Parameters
    ----------
    parameters : TrainingParameters
    layout : Layout
    mapper : BinMapper
    features : ndarray of shape (p,), FEATURE
    groups : ndarray of shape (n_groups, p), uint8
    n_members : int
        Of the team that grows trees.
    n_lanes : int
        Workspaces of the fit.
    """

    def __init__(
        self,
        parameters: TrainingParameters,
        layout: Layout,
        mapper: BinMapper,
        features: npt.NDArray[np.void],
        groups: npt.NDArray[np.uint8],
        n_members: int,
        n_lanes: int,
    ) -> None:
        p = len(features)
        self.features = features
        self.n_roles = layout.n_roles
        # nodes
        most_levels = int(features["n_bins"][mapper.categorical].max(initial=0))
        self.nodes = new_nodes(parameters.num_leaves, len(groups))
        # None where a fit has no use for it: `grow` is compiled without it
        self.levels = np.zeros((len(self.nodes.node), (most_levels + 63) // 64), np.uint64) if most_levels else None
        self.node_groups = groups if len(groups) or parameters.colsample_bynode < 1.0 else None
        self.node_share = layout.share if parameters.role_draw == "node" else None
        self.state = np.zeros(STATE_SIZE, np.int64)
        self.candidates = np.zeros(p, CANDIDATE)
        self.tree_allowed = np.ones(p, np.uint8)
        self.allowed = self.tree_allowed if self.node_groups is None else np.ones(p, np.uint8)
        # histograms
        self.hist_size = layout.hist_size
        self.node_size = self.n_roles * self.hist_size
        self.n_slots = min(max(2, parameters.num_leaves), max(4, HIST_BYTES // (8 * self.node_size * n_lanes)))
        # cleared where they are built
        self.hist = np.empty(self.n_slots * self.node_size, np.int64)
        self.free = np.zeros(self.n_slots, np.int64)
        # the team
        self.n_members = n_members
        self.board = new_board()
        self.scratch = [new_scratch(int(features["n_bins"].max())) for _ in range(n_members)]
        self.parts = np.empty((n_members - 1) * self.node_size, np.int64)
        self.cuts = np.zeros((n_members, 4), np.int64)

    def limits(self, parameters: TrainingParameters, rows: Rows, draw_key: np.uint64) -> Limits:
        """When to stop growing, and how to cut up the work."""
        return Limits(
            num_leaves=parameters.num_leaves,
            max_depth=parameters.max_depth or 0,
            min_rows=2 if rows.counted else 2 * parameters.min_samples_leaf,
            min_split_gain=parameters.min_split_gain,
            root_on_trial=parameters.split_rule == "evidence"
            and parameters.num_leaves > 2
            and parameters.max_depth != 1,
            rows_elsewhere=rows.elsewhere is not None,
            draw_key=draw_key,
            n_threads=self.n_members,
            split_rows=_SPLIT_ROWS,
            build_rows=_BUILD_ROWS,
            scan_bins=_SCAN_BINS,
            # whole-number weights are counts, and those of few rows may be more than a count has room for
            few_search=0 if rows.counted else FEW_SEARCH,
            few_rows=FEW_ROWS,
            few_features=_FEW_FEATURES,
            n_bins=self.hist_size,
        )

    def table(self, rows: Rows) -> Table:
        """What the members of the team share."""
        return Table(rows.bins, rows.packed, rows.rows, rows.spare, self.hist, self.parts, self.cuts)

    def draw_columns(self, parameters: TrainingParameters, number: int) -> None:
        """Choose a tree's features: those with the smallest hashes, whatever their order."""
        p = len(self.tree_allowed)
        if parameters.colsample_bytree >= 1.0:
            return
        wanted = max(1, round(parameters.colsample_bytree * p))
        draws = np.array([hash_key(parameters.seed, _STREAM_COLUMNS, number, int(tie)) for tie in self.features["tie"]])
        self.tree_allowed[:] = 0
        self.tree_allowed[np.argsort(draws, kind="stable")[:wanted]] = 1
