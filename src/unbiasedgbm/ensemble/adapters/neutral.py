"""The neutral form of a foreign model: what an importance needs to know of it, and nothing else.

A reader hands over the shape of each tree. Where a row lands is always asked of the library itself, so that thresholds,
missing values and categories are never re-implemented here; `check_additive` then proves the reading on the given rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import kernel
from unbiasedgbm.losses import Loss

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
RowNumbers = npt.NDArray[np.int64]

# Rows on which a reading is proved: all of a small table, evenly spaced ones of a large one. A tree that is read
# wrongly goes wrong for many rows.
_PROOF_ROWS = 10_000

# Node numbers that are asked for at once: 16 MiB, whatever the number of rows and trees; about the size of a cache.
_CHUNK = 1 << 22


class UnsupportedModelError(TypeError):
    """The model, or a part of it, cannot be read."""


class ModelMismatchError(RuntimeError):
    """The model as it was read does not predict what the library predicts."""


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree: its shape and its leaf values.

    Attributes
    ----------
    left, right : ndarray of shape (n_nodes,), int32
        Children; -1 at leaves. Node 0 is the root.
    source : ndarray of shape (n_nodes,), int32
        What the node is split by: a row of `TreeModel.sources`; -1 at leaves.
    value : ndarray of shape (n_nodes, len(outputs)), float64
        What a leaf adds to the raw prediction; learning rate, tree weight and averaging included.
    outputs : tuple of int
        The raw predictions that the tree adds to: one, or several if the leaves hold vectors.
    iteration : int
        Trees of one iteration share their gradients; all trees of a random forest do.
    share : float
        One over the number of trees whose mean explains the gradients of an output.
    gain : ndarray of shape (n_nodes,), float64, or None
        The library's own gain of each split, where it keeps one.
    parent, depth, order : ndarrays of shape (n_nodes,), int32
        Derived: the parent (-1 at the root), the distance from the root, and the nodes with parents before children.
    """

    left: IntArray
    right: IntArray
    source: IntArray
    value: FloatArray
    outputs: tuple[int, ...] = (0,)
    iteration: int = 0
    share: float = 1.0
    gain: FloatArray | None = None
    parent: IntArray = field(init=False)
    depth: IntArray = field(init=False)
    order: IntArray = field(init=False)

    def __post_init__(self) -> None:
        n_nodes = len(self.left)
        parent, depth, order = (np.full(n_nodes, -1, dtype=np.int32) for _ in range(3))
        if not _walk_down(self.left, self.right, parent, depth, order):
            raise UnsupportedModelError("A tree of the model is not a binary tree: a child is out of range or shared.")
        object.__setattr__(self, "parent", parent)
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "order", order)

    @property
    def is_split(self) -> npt.NDArray[np.bool_]:
        """Whether each node is reachable and has children, shape (n_nodes,)."""
        return (self.left >= 0) & (self.depth >= 0)


class Rows(Protocol):
    """A table as one model sees it: the library's own answers about its rows."""

    def base(self) -> FloatArray:
        """Raw prediction before the first tree, shape (n_rows, n_outputs)."""

    def raw(self, sample: RowNumbers) -> FloatArray:
        """The library's own raw prediction of some rows, shape (len(sample), n_outputs)."""

    def nodes(self, first: int, last: int) -> IntArray:
        """Node (leaf) of each row in the trees ``first`` to ``last - 1``, shape (n_rows, last - first)."""


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A trained ensemble in neutral form.

    Attributes
    ----------
    library, version : str
        Named in errors.
    trees : tuple of Tree
        In the order of training.
    n_outputs : int
        Raw predictions per row.
    feature_names : tuple of str
    loss : Loss
        What the model was trained to minimise, on the scale of its raw predictions.
    bind : callable
        ``bind(X, n_jobs) -> Rows``.
    encode : callable
        ``encode(y) -> ndarray``: targets as the loss wants them.
    class_weight : callable or None
        ``class_weight(y, sample_weight) -> ndarray of shape (n_classes,)``: the weights that the model itself gave to
        the classes, found from the encoded training targets.
    late_start : callable or None
        ``late_start(y, sample_weight) -> ndarray of shape (n_outputs,)``: what the start value as read lacks, where
        only the encoded training targets tell; see `begun_later`.
    sources : tuple of tuple of int
        Features of each split source. The first ``n_features`` rows are the features themselves; a split by a
        combination (a CatBoost CTR) is shared equally by its features.
    limits : tuple of int
        Tree numbers at which the library can begin or end when it places rows, from 0 to ``n_trees``.
    precision : float
        Relative precision of the library's own sum over trees.
    stored_names : tuple of str
        The model's own feature names, where ``feature_names`` are those of the table (see `named_by`).
    named : bool
        Whether the names are those of the training table's columns; otherwise they are made up.
    by_position : bool
        Whether the library takes columns by position without a look at their names.
    averaged : bool
        Whether the trees do not build on each other, as in a forest.
    leaf_rows : ndarray of shape (n_nodes of the first tree,), float64, or None
        Training rows in each leaf of the first tree, as the library counted them.
    leaf_weights : bool
        Whether ``leaf_rows`` are sums of weights.
    all_rows : bool
        Whether every training row is in ``leaf_rows``; otherwise some may have been left out by sampling, or held out.
    """

    library: str
    version: str
    trees: tuple[Tree, ...]
    n_outputs: int
    feature_names: tuple[str, ...]
    loss: Loss
    bind: Callable[[Any, int | None], Rows]
    encode: Callable[[Any], FloatArray]
    class_weight: Callable[[FloatArray, FloatArray | None], FloatArray] | None = None
    late_start: Callable[[FloatArray, FloatArray | None], FloatArray] | None = None
    sources: tuple[tuple[int, ...], ...] = ()
    limits: tuple[int, ...] = ()
    precision: float = 1e-9
    stored_names: tuple[str, ...] = ()
    named: bool = True
    by_position: bool = False
    averaged: bool = False
    leaf_rows: FloatArray | None = None
    leaf_weights: bool = False
    all_rows: bool = False

    def __post_init__(self) -> None:
        if not self.sources:
            object.__setattr__(self, "sources", tuple((j,) for j in range(len(self.feature_names))))
        if not self.limits:
            object.__setattr__(self, "limits", tuple(range(len(self.trees) + 1)))

    @property
    def name(self) -> str:
        """Library and version, for messages."""
        return f"{self.library} {self.version}"

    def named_by(self, X: Any) -> TreeModel:
        """The model with the table's own feature names, if only LightGBM's underscores for spaces tell them apart."""
        names = column_names(X)
        if tuple(name.replace(" ", "_") for name in names) != self.feature_names:
            return self
        return replace(self, feature_names=names, stored_names=self.feature_names)

    def columns_in(self, X: Any) -> list[int]:
        """Where the features are among a table's columns: by name if it has all of the names, else by position."""
        place = {name: j for j, name in enumerate(column_names(X))}
        if self.named and all(name in place for name in self.feature_names):
            return [place[name] for name in self.feature_names]
        return list(range(len(self.feature_names)))

    def check_order(self, X: Any, argument: str) -> None:
        """Raise if the library would take columns of a table for others; see `check_order`."""
        if self.by_position:
            check_order(self.stored_names or self.feature_names, X, argument)

    def begun_later(self, step: FloatArray) -> TreeModel:
        """The model with a start value that is higher by a step, shape (n_outputs,), which its first trees lack."""

        def moved(tree: Tree) -> Tree:
            leaves = (tree.left < 0)[:, None]
            return replace(tree, value=tree.value - np.where(leaves, tree.share * step[list(tree.outputs)], 0.0))

        return replace(self, trees=tuple(moved(tree) if tree.iteration == 0 else tree for tree in self.trees))

    def chunks(self, n_rows: int) -> Iterator[tuple[int, int]]:
        """Ranges of trees whose node numbers for ``n_rows`` rows fit in memory."""
        width = max(1, _CHUNK // max(n_rows, 1))
        first = 0
        for place in range(1, len(self.limits)):
            if place + 1 == len(self.limits) or self.limits[place + 1] - first > width:
                yield first, self.limits[place]
                first = self.limits[place]


def column_names(X: Any) -> tuple[str, ...]:
    """Names of a table's columns as text; none of an array."""
    # `columns` of a pyarrow table are not names
    columns = X.column_names if hasattr(X, "column_names") else getattr(X, "columns", ())
    return tuple(map(str, columns))


def check_order(names: tuple[str, ...], X: Any, argument: str) -> None:
    """Refuse a table with a model's columns in another order, of a library that takes them by position.

    Parameters
    ----------
    names : tuple of str
        The model's own, with LightGBM's underscores for spaces.
    X : table
    argument : str
        The table's argument name, for the message.
    """
    found = tuple(name.replace(" ", "_") for name in column_names(X))
    if found == names or sorted(found) != sorted(names):
        return
    place = next(j for j, (one, other) in enumerate(zip(found, names, strict=True)) if one != other)
    raise ValueError(
        f"{argument}: the columns are those of the model in another order, and its library takes them by position. "
        f"Column {place} is {found[place]!r} where the model was trained with {names[place]!r}; reorder the columns."
    )


def proof_rows(n_rows: int) -> RowNumbers:
    """Rows on which a reading is compared with the library's own prediction, int64."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, _PROOF_ROWS)).astype(np.int64))


def compare_raw(model: TreeModel, expected: FloatArray, total: FloatArray, largest: float, argument: str) -> None:
    """Prove a reading: base score plus leaf values must equal the library's own raw prediction.

    Parameters
    ----------
    model : TreeModel
    expected, total : ndarray of shape (n_sample, n_outputs), float64
        The library's prediction; the sum as read.
    largest : float
        Largest partial sum on the way, which sets the scale of rounding errors.
    argument : str
        The table's argument name, for the message.

    Raises
    ------
    ModelMismatchError
        If they differ by more than the library's floating point allows.
    """
    gap = np.inf
    if expected.shape == total.shape:
        gap = float(np.abs(expected - total).max(initial=0.0))
    if not gap <= model.precision * max(largest, 1e-6):
        raise ModelMismatchError(
            f"{model.name}: base score and leaf values as read differ from the model's own raw prediction of "
            f"{argument} by up to {gap:.3g}. This version of the library may store models in a way that is not known "
            "yet; the importance was not computed."
        )


def check_additive(model: TreeModel, X: Any, argument: str = "X", n_jobs: int | None = None) -> None:
    """Prove a reading on the rows of a table; see `compare_raw`."""
    rows = model.bind(X, n_jobs)
    total = rows.base().copy()
    largest = float(np.abs(total).max(initial=0.0))
    for first, last in model.chunks(len(total)):
        for tree, node in zip(model.trees[first:last], rows.nodes(first, last).T, strict=True):
            for position, output in enumerate(tree.outputs):
                total[:, output] += tree.value[node, position]
            largest = max(largest, float(np.abs(total).max(initial=0.0)))
    sample = proof_rows(len(total))
    compare_raw(model, rows.raw(sample), total[sample], largest, argument)


@kernel
def _walk_down(left: IntArray, right: IntArray, parent: IntArray, depth: IntArray, order: IntArray) -> bool:
    """Fill parent, depth and a parents-first order; False if the children do not form a binary tree."""
    n_nodes = len(left)
    order[0] = 0
    depth[0] = 0
    end = 1
    position = 0
    while position < end:
        node = order[position]
        position += 1
        if left[node] < 0:
            continue
        for child in (left[node], right[node]):
            if child <= 0 or child >= n_nodes or depth[child] >= 0:
                return False
            parent[child] = node
            depth[child] = depth[node] + 1
            order[end] = child
            end += 1
    return True
