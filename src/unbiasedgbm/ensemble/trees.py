"""TreeEnsemble: the neutral model, flat and immutable, that prediction, files, exports and importance read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

MAX_LEVELS = 65_535
_MAX_NODES = 2**31 - 1


@dataclass(frozen=True)
class TreeEnsemble:
    """Trees over numeric and categorical features, summed into one or more raw predictions.

    Trees stand one after another. Node 0 of a tree is its root; the right child of a node is the one after its left
    child; children come after their parents. A row goes left at a numeric node if its value is ≤ the threshold, or is
    missing (NaN) and ``missing_left`` is set; at a categorical node if its level is in the node's set. Level numbers
    count from 0; in a set, bit 0 stands for a missing or unknown level and bit k + 1 for level k.

    Attributes
    ----------
    n_features : int
    base : ndarray of shape (n_outputs,), float64
        Where every raw prediction starts.
    tree_start : ndarray of shape (n_trees + 1,), int64
        First node of each tree, and the number of nodes.
    output : ndarray of shape (n_trees,), int64
        Which raw prediction a tree adds to.
    left : ndarray of shape (n_nodes,), int32
        Left child, counted from the tree's first node; −1 for a leaf.
    feature : ndarray of shape (n_nodes,), int32
        −1 for a leaf.
    threshold : ndarray of shape (n_nodes,), float64
    missing_left : ndarray of shape (n_nodes,), bool
    set_start : ndarray of shape (n_nodes,), int64
        Where in ``sets`` a categorical node's set begins; −1 for other nodes.
    set_words : ndarray of shape (n_nodes,), int32
        Its length.
    sets : ndarray of uint64
    value : ndarray of shape (n_nodes,), float64
        What a leaf adds, learning rate included; 0 for inner nodes.
    cover : ndarray of shape (n_nodes,), float64
        Training rows, not counting those left out of the tree.
    score : ndarray of shape (n_nodes,), float64
        What the node's split (for leaves: its best candidate) was judged by; 0 where there was none.
    """

    n_features: int
    base: npt.NDArray[np.float64]
    tree_start: npt.NDArray[np.int64]
    output: npt.NDArray[np.int64]
    left: npt.NDArray[np.int32]
    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float64]
    missing_left: npt.NDArray[np.bool_]
    set_start: npt.NDArray[np.int64]
    set_words: npt.NDArray[np.int32]
    sets: npt.NDArray[np.uint64]
    value: npt.NDArray[np.float64]
    cover: npt.NDArray[np.float64]
    score: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        for field in fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __setstate__(self, state: dict[str, object]) -> None:
        # pickle forgets that arrays are read-only
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.output)

    @property
    def n_outputs(self) -> int:
        """Number of raw predictions a row."""
        return len(self.base)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return len(self.left)

    @cached_property
    def depth(self) -> npt.NDArray[np.int32]:
        """Depth of each node, 0 for roots, shape (n_nodes,)."""
        depth = np.zeros(self.n_nodes, dtype=np.int32)
        for node in np.flatnonzero(self.left >= 0):
            child = self._first[node] + self.left[node]
            depth[child : child + 2] = depth[node] + 1
        return depth

    @cached_property
    def _first(self) -> npt.NDArray[np.int64]:
        """First node of each node's tree."""
        return np.repeat(self.tree_start[:-1], np.diff(self.tree_start))

    def head(self, n_trees: int) -> TreeEnsemble:
        """The ensemble of the first ``n_trees`` trees."""
        stop = int(self.tree_start[n_trees])
        cut = {name: getattr(self, name)[:stop] for name in _NODE_ARRAYS}
        return TreeEnsemble(
            n_features=self.n_features,
            base=self.base,
            tree_start=self.tree_start[: n_trees + 1],
            output=self.output[:n_trees],
            sets=self.sets,
            **cut,
        )

    def take(self, trees: npt.NDArray[np.int64]) -> TreeEnsemble:
        """The ensemble of some of the trees, by number."""
        size = np.diff(self.tree_start)[trees]
        start = np.concatenate([[0], np.cumsum(size)])
        nodes = np.arange(start[-1]) + np.repeat(self.tree_start[trees] - start[:-1], size)
        return TreeEnsemble(
            n_features=self.n_features,
            base=self.base,
            tree_start=start,
            output=self.output[trees],
            sets=self.sets,
            **{name: getattr(self, name)[nodes] for name in _NODE_ARRAYS},
        )

    def validate(self) -> TreeEnsemble:
        """Raise ValueError unless every array is what a kernel may rely on; returns self."""
        n = self.n_nodes
        for name in _NODE_ARRAYS:
            if getattr(self, name).shape != (n,):
                raise ValueError(f"trees: '{name}' must have one entry for each of {n} nodes.")
        _check_sorted_starts(self.tree_start, self.n_trees, n)
        _require(1 <= self.n_features <= 2**31 - 1, "trees: 'n_features' is out of range.")
        _require(self.base.ndim == 1 and len(self.base) >= 1, "trees: 'base' must hold at least one number.")
        for name in ("base", "value", "cover", "score"):
            _require(
                bool(np.isfinite(getattr(self, name)).all()), f"trees: '{name}' holds a number that is not finite."
            )
        _require(not bool(np.isnan(self.threshold).any()), "trees: 'threshold' holds a NaN.")
        _require(
            bool(((self.output >= 0) & (self.output < self.n_outputs)).all()),
            "trees: 'output' names no raw prediction.",
        )
        inner = self.left >= 0
        size = np.repeat(np.diff(self.tree_start), np.diff(self.tree_start))
        own = np.arange(n) - self._first
        _require(bool((self.left[~inner] == -1).all()), "trees: 'left' of a leaf must be -1.")
        _require(
            bool(((self.left > own) & (self.left.astype(np.int64) + 1 < size))[inner].all()),
            "trees: a child lies outside its tree or before its parent.",
        )
        children = np.zeros(n, dtype=np.int64)
        first_child = self._first[inner] + self.left[inner]
        np.add.at(children, first_child, 1)
        np.add.at(children, first_child + 1, 1)
        _require(bool((children == (own > 0)).all()), "trees: every node but the root must be the child of one node.")
        _require(bool((self.feature[~inner] == -1).all()), "trees: 'feature' of a leaf must be -1.")
        _require(
            bool(((self.feature >= 0) & (self.feature < self.n_features))[inner].all()),
            "trees: 'feature' names no feature.",
        )
        self._validate_sets(inner)
        return self

    def _validate_sets(self, inner: npt.NDArray[np.bool_]) -> None:
        categorical = self.set_start >= 0
        _require(bool((self.set_start[~categorical] == -1).all()), "trees: 'set_start' must be -1 or a position.")
        _require(not bool((categorical & ~inner).any()), "trees: a leaf has a set of levels.")
        words = self.set_words[categorical].astype(np.int64)
        _require(bool(((words >= 1) & (words <= MAX_LEVELS // 64 + 1)).all()), "trees: 'set_words' is out of range.")
        _require(
            bool((self.set_start[categorical] <= len(self.sets) - words).all()), "trees: a set of levels is cut off."
        )
        kinds = np.zeros((self.n_features, 2), dtype=bool)
        kinds[self.feature[inner & categorical], 0] = True
        kinds[self.feature[inner & ~categorical], 1] = True
        _require(not bool(kinds.all(axis=1).any()), "trees: a feature is used both as a number and as a category.")


_NODE_ARRAYS = (
    "left", "feature", "threshold", "missing_left", "set_start", "set_words", "value", "cover", "score",
)  # fmt: skip


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _check_sorted_starts(tree_start: npt.NDArray[np.int64], n_trees: int, n_nodes: int) -> None:
    _require(tree_start.shape == (n_trees + 1,), "trees: 'tree_start' must have one entry more than there are trees.")
    _require(int(tree_start[0]) == 0 and int(tree_start[-1]) == n_nodes, "trees: 'tree_start' must cover all nodes.")
    _require(n_nodes <= _MAX_NODES, "trees: too many nodes.")
    _require(bool((np.diff(tree_start) >= 1).all()), "trees: every tree needs a root.")


def join(base: npt.NDArray[np.float64], parts: Sequence[TreeEnsemble]) -> TreeEnsemble:
    """An ensemble of the trees of all parts, of which there is at least one, from a base of its own."""
    sizes = np.concatenate([np.diff(part.tree_start) for part in parts])
    n_words = np.array([len(part.sets) for part in parts])
    shifts = np.cumsum(n_words) - n_words
    starts = [np.where(part.set_start >= 0, part.set_start + s, -1) for part, s in zip(parts, shifts, strict=True)]
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (*_NODE_ARRAYS, "output", "sets")
        if name != "set_start"
    }
    return TreeEnsemble(
        n_features=parts[0].n_features,
        base=np.array(base, dtype=np.float64),
        tree_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        set_start=np.concatenate(starts),
        **arrays,
    )
