"""Grown trees, and how they become part of a model: many at a time, with thresholds instead of bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import BinMapper
from unbiasedgbm.ensemble.trees import TreeEnsemble, join
from unbiasedgbm.kernels import kernel
from unbiasedgbm.training.nodes import NODE_TYPE

# Memory of grown trees from which on they are put into the model's form, which takes half of it.
_HEAP_BYTES = 16 << 20


@dataclass
class GrownTree:
    """A tree as the grower left it, on bins, with its leaf values.

    Attributes
    ----------
    output : int
        Which raw prediction it adds to.
    node : ndarray of shape (m,), NODE_TYPE
    levels : ndarray of shape (m, words), uint64, or None
        Bins on the left of each categorical split.
    value : ndarray of shape (m,), float64
        What a leaf adds, learning rate included; 0 for inner nodes.
    count : ndarray of shape (m, 4), int64
        Rows of each role; the last one's were left out of the tree.
    """

    output: int
    node: npt.NDArray[np.void]
    levels: npt.NDArray[np.uint64] | None
    value: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]

    @property
    def n_bytes(self) -> int:
        """Memory that it takes."""
        levels = 0 if self.levels is None else self.levels.nbytes
        return levels + self.node.nbytes + self.value.nbytes + self.count.nbytes


class Harvest:
    """The trees of a training.

    A tree costs about as much to convert as a hundred trees do, so they are converted together: when the model is asked
    for, or when too many of them lie about.

    Parameters
    ----------
    mapper : BinMapper
    base : ndarray of shape (n_outputs,), float64
        Where every raw prediction starts.
    before : TreeEnsemble or None
        Trees to go on from.
    """

    def __init__(self, mapper: BinMapper, base: npt.NDArray[np.float64], before: TreeEnsemble | None) -> None:
        self._mapper, self._base = mapper, base
        # both in one place: whenever Ctrl-C comes, no tree is in neither of them or in both
        self._state: tuple[list[TreeEnsemble], list[GrownTree]] = ([] if before is None else [before], [])

    def add(self, grown: Sequence[GrownTree]) -> None:
        """Take in the trees of one iteration, or of several that are taken back together."""
        parts, pending = self._state
        if len(pending) * max((tree.n_bytes for tree in pending[-len(grown) :]), default=0) > _HEAP_BYTES:
            # all of them are of iterations that are done, which nobody takes back
            parts, pending = [*parts, to_ensemble(self._mapper, self._base, pending)], []
        self._state = parts, [*pending, *grown]

    @property
    def n_trees(self) -> int:
        """Trees so far, those before included."""
        parts, pending = self._state
        return sum(part.n_trees for part in parts) + len(pending)

    def take_back(self, n_trees: int) -> None:
        """Forget all trees but the first ``n_trees``, at most those that were added last."""
        parts, pending = self._state
        self._state = parts, pending[: len(pending) - (self.n_trees - n_trees)]

    def ensemble(self) -> TreeEnsemble:
        """All trees as a model."""
        parts, pending = self._state
        return join(self._base, [*parts, to_ensemble(self._mapper, self._base, pending)])


def to_ensemble(mapper: BinMapper, base: npt.NDArray[np.float64], grown: Sequence[GrownTree]) -> TreeEnsemble:
    """The trees as a model, with thresholds instead of bins."""
    # as bytes: of records, NumPy compares the fields of every tree with those of all
    node = np.concatenate([np.empty(0, np.uint8), *(tree.node.view(np.uint8) for tree in grown)]).view(NODE_TYPE)
    count = np.concatenate([np.empty((0, 4), np.int64), *(tree.count for tree in grown)])
    left = node["left"].astype(np.int32)
    inner = left >= 0
    feature = np.where(inner, node["feature"], -1).astype(np.int32)
    bins = node["bin"]
    categorical = inner & mapper.categorical[feature]
    # the last bin has no upper edge: all values on the left, missing ones on the right
    open_end = inner & ~categorical & (bins == mapper.n_bins[feature] - 1)
    cut = inner & ~categorical & ~open_end
    start, edges = mapper.flat_edges
    threshold = np.where(open_end, np.inf, 0.0)
    threshold[cut] = edges[start[feature[cut]] + bins[cut] - 1]
    words = np.where(categorical, (mapper.n_bins[feature] + 63) // 64, 0).astype(np.int32)
    tree_start = np.cumsum([0, *(len(tree.node) for tree in grown)])
    sets = [np.empty(0, np.uint64)]
    for tree, first in zip(grown, tree_start[:-1], strict=True):
        if tree.levels is not None:
            own = words[first : first + len(tree.node)]
            # nothing of nodes without a set
            sets.append(tree.levels[np.arange(tree.levels.shape[1]) < own[:, None]])
    return TreeEnsemble(
        n_features=len(mapper.n_bins),
        base=np.array(base, dtype=np.float64),
        tree_start=tree_start,
        output=np.array([tree.output for tree in grown], dtype=np.int64),
        left=left,
        feature=feature,
        threshold=threshold,
        missing_left=inner & ~categorical & (node["missing_left"] != 0),
        set_start=np.where(categorical, np.cumsum(words, dtype=np.int64) - words, -1),
        set_words=words,
        sets=np.concatenate(sets),
        value=np.concatenate([np.empty(0), *(tree.value for tree in grown)]),
        cover=count[:, :3].sum(axis=1).astype(np.float64),
        score=np.where(np.isfinite(node["score"]), node["score"], 0.0),
    )


@kernel
def count_splits(node: Any, limit: float, importance: Any, n_splits: Any) -> float:
    """Count the splits of a tree; returns what they are worth together.

    Importance counts candidates that were turned away, too (the paper's Remark).

    Parameters
    ----------
    node : ndarray of shape (m,), NODE_TYPE
    limit : float
        `min_split_gain`.
    importance, n_splits : ndarrays of shape (p,), float64 and int64
        Added to.
    """
    worth = 0.0
    for k in range(node.size):
        if node[k].left >= 0:
            worth += node[k].worth
            n_splits[node[k].feature] += 1
        if node[k].left >= 0 or (node[k].feature >= 0 and node[k].score <= limit):
            importance[node[k].feature] += node[k].worth
    return worth
