"""SHAP: an explainer whose values add up to the raw prediction.

SHAP's trees know thresholds only. Levels of a category are put in the order of what the trees make of them, and a node
that divides them becomes a few nodes with thresholds on that order, one for each stretch of levels that stay together.
The SHAP values do not depend on how a node is written down, as long as every level ends where it should and both sides
keep their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.export.parts import UnsupportedExportError, feature_labels, node_sets, require, trees_and_schema
from unbiasedgbm.frames import Schema

FloatArray = npt.NDArray[np.float64]

# Nodes of a tree after its categories have been written as thresholds.
_MAX_NODES = 100_000


@dataclass(frozen=True, eq=False)
class ShapModel:
    """A `shap.TreeExplainer` and the table that it wants.

    Attributes
    ----------
    explainer : shap.TreeExplainer
    schema : Schema
    ranks : tuple
        For each categorical feature the rank of the missing level and of every level, or None.
    """

    explainer: Any
    schema: Schema
    ranks: tuple[npt.NDArray[np.int64] | None, ...]

    def encode(self, X: Any) -> FloatArray:
        """The table as the explainer reads it, shape (n, n_features): categories are ranks."""
        table = self.schema.read(X)
        block = table.block(0, table.n_rows).copy()
        for j, rank in enumerate(self.ranks):
            if rank is not None:
                level = block[:, j]
                block[:, j] = rank[np.where(np.isnan(level), 0, level + 1).astype(np.intp)]
        return block

    def shap_values(self, X: Any) -> FloatArray:
        """SHAP values, shape (n, n_features), or (n, n_features, n_classes) for more than two classes.

        With `expected_value` they add up to the raw prediction.
        """
        return np.asarray(self.explainer.shap_values(self.encode(X)))

    @property
    def expected_value(self) -> Any:
        """What the values are added to."""
        return self.explainer.expected_value

    def explanation(self, X: Any) -> Any:
        """`shap.Explanation` for SHAP's plots, with feature names."""
        shap = require("shap", "to_shap", "shap")
        data = self.encode(X)
        values = np.asarray(self.explainer.shap_values(data))
        base = np.broadcast_to(self.expected_value, (len(data), *values.shape[2:]))
        return shap.Explanation(values, base_values=base, data=data, feature_names=feature_labels(self.schema))


def to_shap(model: Any) -> ShapModel:
    """SHAP's explainer for the model's raw predictions.

    Parameters
    ----------
    model : fitted UnbiasedGBMClassifier or UnbiasedGBMRegressor

    Returns
    -------
    ShapModel
        ``to_shap(model).shap_values(X)``; ``.explainer`` is the `shap.TreeExplainer` itself.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from unbiasedgbm import UnbiasedGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = UnbiasedGBMClassifier(n_estimators=10).fit(X, y)
    >>> from unbiasedgbm.export import to_shap
    >>> to_shap(model).shap_values(X[:5]).shape
    (5, 30)
    """
    shap = require("shap", "to_shap", "shap")
    trees, schema = trees_and_schema(model)
    if trees.n_trees == 0:
        raise UnsupportedExportError("to_shap: the model has no trees.")
    sets = node_sets(trees)
    ranks = _ranks(trees, schema, sets)
    written = [_write_tree(trees, t, sets, ranks) for t in range(trees.n_trees)]
    for output in range(trees.n_outputs):
        # the start of all raw predictions goes into the first tree of its output
        first = written[int(np.flatnonzero(trees.output == output)[0])]
        leaf = first["children_left"] < 0
        first["values"][leaf, output] += trees.base[output]
    explainer = shap.TreeExplainer(
        {"trees": written, "internal_dtype": np.float64, "input_dtype": np.float64},
        feature_perturbation="tree_path_dependent",
    )
    return ShapModel(explainer, schema, ranks)


def _ranks(
    trees: TreeEnsemble, schema: Schema, sets: dict[int, npt.NDArray[np.bool_]]
) -> tuple[npt.NDArray[np.int64] | None, ...]:
    """Order the levels of each category by the mean of what lies behind the sides that they are sent to."""
    first = np.repeat(trees.tree_start[:-1], np.diff(trees.tree_start))
    mean = trees.value.copy()
    for node in np.flatnonzero(trees.left >= 0)[::-1].tolist():
        child = int(first[node] + trees.left[node])
        mean[node] = np.average(mean[child : child + 2], weights=trees.cover[child : child + 2] + 1e-9)
    scores = [None if levels is None else np.zeros(len(levels) + 1) for levels in schema.categories]
    for node, bits in sets.items():
        child = int(first[node] + trees.left[node])
        score = scores[int(trees.feature[node])]
        if score is not None:
            side = np.where(bits[: len(score)], mean[child], mean[child + 1])
            score += trees.cover[node] * (side - mean[node])
    return tuple(None if score is None else _inverse(np.argsort(score, kind="stable")) for score in scores)


def _inverse(order: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


@dataclass
class _Pages:
    """A tree that is being written: one list a column."""

    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    default: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)

    def new(self, weight: float) -> int:
        if len(self.left) >= _MAX_NODES:
            raise UnsupportedExportError(
                f"to_shap: a tree needs more than {_MAX_NODES:,} nodes when its categories are written as thresholds; "
                "train with fewer leaves or group the levels."
            )
        for column in (self.left, self.right, self.default, self.feature):
            column.append(-1)
        self.threshold.append(0.0)
        self.value.append(0.0)
        self.weight.append(weight)
        return len(self.left) - 1

    def branch(self, place: int, feature: int, threshold: float, children: tuple[int, int], default: int) -> None:
        self.left[place], self.right[place] = children
        self.default[place], self.feature[place], self.threshold[place] = default, feature, threshold


def _write_tree(
    trees: TreeEnsemble,
    t: int,
    sets: dict[int, npt.NDArray[np.bool_]],
    ranks: tuple[npt.NDArray[np.int64] | None, ...],
) -> dict[str, Any]:
    """One tree as SHAP's dictionary of arrays."""
    pages, begin = _Pages(), int(trees.tree_start[t])
    root = pages.new(float(trees.cover[begin]))
    # (node of the tree, its place on the pages, stretches of ranks that the categories above it have left)
    todo: list[tuple[int, int, dict[int, tuple[int, int]]]] = [(begin, root, {})]
    while todo:
        node, place, stretch = todo.pop()
        if trees.left[node] < 0:
            pages.value[place] = float(trees.value[node])
            continue
        child = begin + int(trees.left[node])
        j = int(trees.feature[node])
        rank = ranks[j]
        if rank is None:
            places = _two_children(pages, place, trees.cover[child : child + 2])
            default = places[0] if trees.missing_left[node] else places[1]
            pages.branch(place, j, float(trees.threshold[node]), places, default)
            todo += [(child + side, places[side], stretch) for side in (0, 1)]
            continue
        low, high = stretch.get(j, (0, len(rank) - 1))
        side_of = np.empty(len(rank), dtype=np.int64)
        side_of[rank] = np.where(sets[node][: len(rank)], 0, 1)
        for side, first, last, piece in _stretches(pages, place, j, side_of, low, high, trees.cover[child : child + 2]):
            todo.append((child + side, piece, {**stretch, j: (first, last)}))
    return {
        "children_left": np.array(pages.left),
        "children_right": np.array(pages.right),
        "children_default": np.array(pages.default),
        "features": np.array(pages.feature),
        "thresholds": np.array(pages.threshold, dtype=np.float64),
        "values": np.outer(pages.value, np.arange(trees.n_outputs) == trees.output[t]).astype(np.float64),
        "node_sample_weight": np.array(pages.weight, dtype=np.float64),
    }


def _two_children(pages: _Pages, place: int, cover: FloatArray) -> tuple[int, int]:
    share = (cover + 1e-9) / (cover + 1e-9).sum()
    left, right = (pages.new(pages.weight[place] * float(part)) for part in share)
    return left, right


def _stretches(
    pages: _Pages, place: int, j: int, side_of: npt.NDArray[np.int64], low: int, high: int, cover: FloatArray
) -> list[tuple[int, int, int, int]]:
    """Cut the ranks low..high where the side changes; returns (side, first rank, last rank, place) of each stretch.

    The rows of a side are shared by its stretches, by their numbers of levels: any shares give the same SHAP values. A
    side that no level is left for keeps its rows in a stretch that no level reaches.
    """
    cuts = np.flatnonzero(np.diff(side_of[low : high + 1])) + low
    firsts, lasts = [low, *(cuts + 1).tolist()], [*cuts.tolist(), high]
    sides = [int(side_of[first]) for first in firsts]
    sizes = np.array([last - first + 1 for first, last in zip(firsts, lasts, strict=True)], dtype=np.float64)
    if len(sides) == 1:
        sides, sizes = [1 - sides[0], *sides], np.ones(2)
        firsts, lasts = [low, *firsts], [low - 1, *lasts]
    share = cover + 1e-9
    weights = np.array([share[s] * n / sizes[np.array(sides) == s].sum() for s, n in zip(sides, sizes, strict=True)])
    weights *= pages.weight[place] / weights.sum()
    rest = float(pages.weight[place])
    pieces = []
    for k, (side, first, last) in enumerate(zip(sides, firsts, lasts, strict=True)):
        if k == len(sides) - 1:
            pieces.append((side, first, last, place))
            break
        rest -= float(weights[k])
        here, others = pages.new(float(weights[k])), pages.new(rest)
        pages.branch(place, j, last + 0.5, (here, others), here)
        pieces.append((side, first, max(first, last), here))
        place = others
    return pieces
