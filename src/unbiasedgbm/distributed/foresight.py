"""Foresight: the best splits of nodes that the tree does not have yet.

When a leaf is divided before the tree divides it, the histograms of its children say how they would be divided. So the
next round can divide them, too, and a tree takes about as many rounds as it has levels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.distributed.kernels import look_at_node
from unbiasedgbm.distributed.tree_rows import LEFT, RIGHT
from unbiasedgbm.training.gradients import G_SHIFT
from unbiasedgbm.training.nodes import Evidence, Limits, new_nodes
from unbiasedgbm.training.splitting import CANDIDATE, Rule, new_scratch
from unbiasedgbm.training.workspace import Workspace

IntArray = npt.NDArray[np.int64]


class Outlook(NamedTuple):
    """The best split of a node."""

    score: float
    feature: int
    bin: int
    missing_left: int
    levels: npt.NDArray[np.uint64] | None
    """(words,) bins on the left of a categorical split; None for a table without categories."""

    @property
    def cut(self) -> tuple[int, int, int]:
        """Feature, bin and the side of missing values."""
        return self.feature, self.bin, self.missing_left

    @classmethod
    def of(cls, node: Any, levels: npt.NDArray[np.uint64] | None) -> Outlook:
        """What a node's record says."""
        return cls(
            node["score"].item(), node["feature"].item(), node["bin"].item(), node["missing_left"].item(), levels
        )


class Foresight:
    """Room to look at nodes.

    Parameters
    ----------
    memory : Workspace
        Of the tree that is grown.
    used : ndarray or slice
        Cells of a histogram that can hold anything; see `tree_rows.used_cells`.
    """

    def __init__(self, memory: Workspace, used: npt.NDArray[np.intp] | slice) -> None:
        features = memory.features
        self._memory, self._used = memory, used
        self._nodes = new_nodes(1, 0)
        self._levels = None if memory.levels is None else np.zeros_like(memory.levels[:1])
        self._hist = np.zeros(memory.node_size, np.int64)
        self._found = np.zeros(0)
        self._scratch = new_scratch(int(features["n_bins"].max()))
        self._out = np.zeros(len(features), CANDIDATE)

    @staticmethod
    def possible(memory: Workspace) -> bool:
        """Whether a node's split depends on its rows alone, not on its place in the tree."""
        return memory.node_groups is None and memory.node_share is None and not memory.features["monotone"].any()

    def look(
        self, path: int, count: IntArray, cells: IntArray, rule: Rule, limits: Limits, evidence: Evidence
    ) -> Outlook | None:
        """The best split of a node, if it has any.

        Parameters
        ----------
        path : int
        count : ndarray of shape (4,), int64
            Rows of each role.
        cells : ndarray of shape (n_used,), int64
            The used cells of its histogram.
        rule, limits, evidence
            Of the tree.
        """
        node, hist = self._nodes.node, cells
        if not isinstance(self._used, slice):
            hist = self._hist
            hist[self._used] = cells
        self._nodes.count[0] = count
        node[0]["depth"] = path.bit_length() - 1
        # what is found here is found again, and counted, when the tree has the node
        if len(self._found) != len(evidence.found):
            self._found = np.zeros_like(evidence.found)
        own = evidence._replace(found=self._found)
        features, allowed = self._memory.features, self._memory.tree_allowed
        look_at_node(self._nodes, features, self._levels, rule, limits, own, allowed, hist, self._scratch, self._out)
        found = Outlook.of(node[0], None if self._levels is None else self._levels[0].copy())
        return found if found.feature >= 0 else None


def smaller_side(outlook: Outlook, cells: IntArray, categorical: bool, count_bits: int) -> int:
    """LEFT or RIGHT: the child that will have the smaller hessian.

    Parameters
    ----------
    cells : ndarray of shape (n_roles, n_bins), int64
        Of the feature in the node's histogram.
    """
    hessian = ((cells & ((1 << G_SHIFT) - 1)) >> count_bits).sum(axis=0)
    if outlook.levels is not None and categorical:
        bins = np.arange(len(hessian))
        left = hessian[(outlook.levels[bins >> 6] >> (bins & 63).astype(np.uint64)) & np.uint64(1) != 0].sum()
    else:
        left = hessian[1 : outlook.bin + 1].sum() + (hessian[0] if outlook.missing_left else 0)
    return LEFT if 2 * left <= hessian.sum() else RIGHT
