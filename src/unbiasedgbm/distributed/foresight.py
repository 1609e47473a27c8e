"""Foresight: the best splits of nodes that the tree does not have yet.

When a leaf is divided before the tree divides it, the histograms of its children say how they would be divided. So the
next round can divide them, too, and a tree takes about as many rounds as it has levels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.distributed.kernels import Arrivals, find_splits
from unbiasedgbm.distributed.shelf import Shelf
from unbiasedgbm.training.grower import make_leaf
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
    smaller: int
    """LEFT or RIGHT: the child that will have the smaller hessian."""
    found: FloatArray | None = None
    """Evidence of a node that the tree does not have yet; see `Evidence`."""


class Foresight:
    """Room to look at nodes, of the tree and beyond it.

    Parameters
    ----------
    memory : Workspace
        Of the tree that is grown.
    shelf : Shelf
        With the histograms of the nodes that are looked at.

    Attributes
    ----------
    possible : bool
        Whether a node's split depends on its rows alone, not on its place in the tree.
    """

    def __init__(self, memory: Workspace, shelf: Shelf) -> None:
        features = memory.features
        self._memory, self._shelf = memory, shelf
        self._entered = memory.nodes.node[_ENTERED]
        self._make_room(1)
        self._scratch = new_scratch(int(features["n_bins"].max()))
        self._out = np.zeros(len(features), CANDIDATE)
        self.possible = (
            memory.node_groups is None and memory.node_share is None and not bool(features["monotone"].any())
        )

    def _make_room(self, n: int) -> None:
        """Have room for so many nodes."""
        memory = self._memory
        self._n_room = n
        self._nodes = new_nodes(n, 0)
        self._smaller = np.zeros(n, np.int64)
        self._levels = None if memory.levels is None else np.zeros((n, memory.levels.shape[1]), np.uint64)

    def look_at(self, node: int, path: int, rule: Rule, limits: Limits, evidence: Evidence) -> Outlook:
        """Enter the best split of a node of the tree; returns it.

        Parameters
        ----------
        node, path : int
        rule, limits, evidence
            Of the tree.
        """
        memory, found = self._memory, evidence.found[None]
        tree = (memory.nodes, node, memory.levels, memory.node_groups)
        nothing = self._shelf.arrivals(np.empty(0, np.int64), [-1], [-1])
        self._find(*tree, self._shelf.places([path]), nothing, rule, limits, evidence, found)
        levels = None if memory.levels is None else memory.levels[node]
        return Outlook._make([*self._entered[node].item(), levels, int(self._smaller[0]), None])

    def look_ahead(
        self,
        paths: list[int],
        count: IntArray,
        arrivals: Arrivals,
        rule: Rule,
        limits: Limits,
        evidence: Evidence,
    ) -> list[Outlook]:
        """The best splits of nodes that the tree does not have yet.

        Parameters
        ----------
        paths : list of m ints
        count : ndarray of shape (m, 4), int64
            Rows of each role.
        arrivals : Arrivals
            Their histograms.
        rule, limits, evidence
            As in `look_at`.
        """
        m = len(paths)
        if m > self._n_room:
            self._make_room(m)
        nodes, levels = self._nodes, self._levels
        make_leaf(slice(m), [0, 0, 0, 0], 0, nodes)
        nodes.node["depth"][:m] = [path.bit_length() - 1 for path in paths]
        nodes.count[:m] = count
        # counted when the tree has the node
        found = np.zeros((m, len(evidence.found)))
        self._find(nodes, 0, levels, None, self._shelf.places(paths), arrivals, rule, limits, evidence, found)
        sides = [None] * m if levels is None else list(levels[:m].copy())
        entered, smaller = nodes.node[_ENTERED][:m].tolist(), self._smaller[:m].tolist()
        parts = zip(entered, sides, smaller, found, strict=True)
        return [Outlook._make([*one, *rest]) for one, *rest in parts]

    def enter(self, node: int, outlook: Outlook, evidence: Evidence) -> None:
        """Enter what was foreseen of a node that the tree has now."""
        self._entered[node] = outlook[: len(_ENTERED)]
        if self._memory.levels is not None and outlook.levels is not None:
            self._memory.levels[node] = outlook.levels
        if outlook.found is not None:
            evidence.found[:] += outlook.found

    def _find(
        self,
        nodes: Nodes,
        first: int,
        levels: npt.NDArray[np.uint64] | None,
        groups: npt.NDArray[np.uint8] | None,
        places: IntArray,
        arrivals: Arrivals,
        rule: Rule,
        limits: Limits,
        evidence: Evidence,
        found: FloatArray,
    ) -> None:
        memory, cells = self._memory, self._shelf.cells
        find_splits(
            *(nodes, first, places, arrivals, self._smaller, memory.features, levels, groups, rule, limits),
            *(evidence.bonus, found, memory.tree_allowed, memory.allowed),
            *(cells.reshape(-1), self._scratch, self._out),
        )
