"""Foresight: the best splits of nodes that the tree does not have yet.

When a leaf is divided before the tree divides it, the histograms of its children say how they would be divided. So the
next round can divide them, too, and a tree takes about as many rounds as it has levels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.distributed.kernels import find_split
from unbiasedgbm.distributed.tree_rows import LEFT, RIGHT
from unbiasedgbm.training.gradients import G_SHIFT
from unbiasedgbm.training.grower import make_root
from unbiasedgbm.training.nodes import Evidence, Limits, Nodes, new_nodes
from unbiasedgbm.training.splitting import CANDIDATE, Rule, new_scratch
from unbiasedgbm.training.workspace import Workspace

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


# What a node's record says of its best split.
_ENTERED = ["score", "feature", "bin", "missing_left", "worth", "middle"]


class Outlook(NamedTuple):
    """The best split of a node."""

    score: float
    feature: int
    """Negative if it cannot be divided."""
    bin: int
    missing_left: int
    worth: float
    middle: float
    levels: npt.NDArray[np.uint64] | None
    """(words,) bins on the left of a categorical split; None for a table without categories."""
    found: FloatArray | None = None
    """Evidence of a node that the tree does not have yet; see `Evidence`."""

    @classmethod
    def of(cls, node: Any, levels: npt.NDArray[np.uint64] | None, found: FloatArray | None = None) -> Outlook:
        """What a node's record says."""
        score, feature, last_bin, missing_left, worth, middle = node[_ENTERED].item()
        return cls(score, feature, last_bin, missing_left, worth, middle, levels, found)


class Foresight:
    """Room to look at nodes, of the tree and beyond it.

    Parameters
    ----------
    memory : Workspace
        Of the tree that is grown.
    used : ndarray or slice
        Cells of a histogram that can hold anything; see `tree_rows.used_cells`.

    Attributes
    ----------
    possible : bool
        Whether a node's split depends on its rows alone, not on its place in the tree.
    """

    def __init__(self, memory: Workspace, used: npt.NDArray[np.intp] | slice) -> None:
        features = memory.features
        self._memory, self._used = memory, used
        self._nodes = new_nodes(1, 0)
        self._levels = None if memory.levels is None else np.zeros_like(memory.levels[:1])
        self._hist = np.zeros(memory.node_size, np.int64)
        self._scratch = new_scratch(int(features["n_bins"].max()))
        self._out = np.zeros(len(features), CANDIDATE)
        self.possible = (
            memory.node_groups is None and memory.node_share is None and not bool(features["monotone"].any())
        )

    def look_at(self, node: int, cells: IntArray, rule: Rule, limits: Limits, evidence: Evidence) -> None:
        """Enter the best split of a node of the tree.

        Parameters
        ----------
        node : int
        cells : ndarray of shape (n_used,), int64
            The used cells of its histogram.
        rule, limits, evidence
            Of the tree.
        """
        memory = self._memory
        self._find(memory.nodes, node, memory.levels, memory.node_groups, cells, rule, limits, evidence)

    def look_ahead(
        self, path: int, count: IntArray, cells: IntArray, rule: Rule, limits: Limits, evidence: Evidence
    ) -> Outlook:
        """The best split of a node that the tree does not have yet.

        Parameters
        ----------
        path : int
        count : ndarray of shape (4,), int64
            Rows of each role.
        cells, rule, limits, evidence
            As in `look_at`.
        """
        nodes, levels = self._nodes, self._levels
        make_root(count.tolist(), nodes)
        nodes.node[0]["depth"] = path.bit_length() - 1
        # counted when the tree has the node
        own = evidence._replace(found=np.zeros_like(evidence.found))
        self._find(nodes, 0, levels, None, cells, rule, limits, own)
        return Outlook.of(nodes.node[0], None if levels is None else levels[0].copy(), own.found)

    def enter(self, node: int, outlook: Outlook, evidence: Evidence) -> None:
        """Enter what was foreseen of a node that the tree has now."""
        self._memory.nodes.node[_ENTERED][node] = outlook[: len(_ENTERED)]
        if self._memory.levels is not None and outlook.levels is not None:
            self._memory.levels[node] = outlook.levels
        if outlook.found is not None:
            evidence.found[:] += outlook.found

    def _find(
        self,
        nodes: Nodes,
        k: int,
        levels: npt.NDArray[np.uint64] | None,
        groups: npt.NDArray[np.uint8] | None,
        cells: IntArray,
        rule: Rule,
        limits: Limits,
        evidence: Evidence,
    ) -> None:
        memory, hist = self._memory, cells
        if not isinstance(self._used, slice):
            hist = self._hist
            hist[self._used] = cells
        find_split(
            *(nodes, k, memory.features, levels, groups, rule, limits, evidence),
            *(memory.tree_allowed, memory.allowed, hist, self._scratch, self._out),
        )


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
