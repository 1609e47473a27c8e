"""CatBoost: symmetric, depthwise and lossguide trees; numeric, one-hot and CTR splits.

Shapes are read from the JSON model; rows are placed by ``calc_leaf_indexes``. A CTR split compares a target statistic
of one or more features; its gain is shared equally by the distinct features that it is made of.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catboost
import numpy as np

from unbiasedgbm import losses
from unbiasedgbm.ensemble.adapters import as_loss, objectives
from unbiasedgbm.ensemble.adapters.neutral import (
    FloatArray,
    IntArray,
    RowNumbers,
    Tree,
    TreeModel,
    UnsupportedModelError,
)
from unbiasedgbm.losses import Loss


def read(model: Any, loss: Loss | Callable[..., Any] | None, offset: bool = False) -> TreeModel:
    """Read a trained ``CatBoost``, ``CatBoostClassifier`` or ``CatBoostRegressor``."""
    if not model.is_fitted():
        raise UnsupportedModelError("model: this CatBoost model has not been fitted.")
    stored = _json(model)
    scale, bias = stored["scale_and_bias"]
    base = np.atleast_1d(np.array(bias, dtype=np.float64))
    sources = _Sources(stored["features_info"], len(model.feature_names_))
    if "trees" in stored:
        pairs = [_free_tree(tree, i, sources, scale) for i, tree in enumerate(stored["trees"])]
    else:
        pairs = [_symmetric_tree(tree, i, sources, scale) for i, tree in enumerate(stored["oblivious_trees"])]
    trees, leaves = tuple(tree for tree, _ in pairs), tuple(leaf for _, leaf in pairs)
    n_outputs = max((len(tree.outputs) for tree in trees), default=len(base))
    base = np.broadcast_to(base, (n_outputs,)).copy()
    parameters = model.get_all_params()
    objective = str(parameters.get("loss_function", "unknown"))
    classes = np.asarray(model.classes_)
    return TreeModel(
        library="catboost",
        version=catboost.__version__,
        trees=trees,
        n_outputs=n_outputs,
        feature_names=tuple(model.feature_names_),
        loss=_loss(objective, n_outputs) if loss is None else as_loss(loss, n_outputs),
        bind=lambda X, n_jobs: _Rows(model, leaves, X, n_jobs, base, offset),
        encode=_encode(classes, objective, loss is not None),
        class_weight=_class_weight(parameters),
        sources=sources.table(),
        named=_named(stored["features_info"]),
        leaf_rows=_leaf_rows(stored, trees),
        leaf_weights=True,
    )


class _Rows:
    """A table as a CatBoost model sees it."""

    def __init__(
        self, model: Any, leaves: tuple[IntArray, ...], X: Any, n_jobs: int | None, base: FloatArray, offset: bool
    ) -> None:
        self._model = model
        self._leaves = leaves
        self._threads = -1 if n_jobs is None else n_jobs
        self._n_outputs = len(base)
        # One conversion of the table serves all calls.
        self._pool = X if isinstance(X, catboost.Pool) else _pool(model, X)
        # A baseline in the pool is added to predictions; an offset takes the place of both.
        baseline = np.asarray(self._pool.get_baseline(), dtype=np.float64)
        start = np.tile(base, (self._pool.num_row(), 1)) + (baseline.reshape(-1, len(base)) if baseline.size else 0.0)
        self._base = np.zeros_like(start) if offset else start
        self._left_out = start - self._base

    def base(self) -> FloatArray:
        return self._base.copy()

    def raw(self, sample: RowNumbers) -> FloatArray:
        raw = self._model.predict(self._pool, prediction_type="RawFormulaVal", thread_count=self._threads)
        return (np.asarray(raw, dtype=np.float64).reshape(-1, self._n_outputs) - self._left_out)[sample]

    def nodes(self, first: int, last: int) -> IntArray:
        leaves = self._model.calc_leaf_indexes(
            self._pool, ntree_start=first, ntree_end=last, thread_count=self._threads
        )
        leaves = np.asarray(leaves).reshape(-1, last - first)
        nodes = np.empty(leaves.shape, dtype=np.int32)
        for column, tree in enumerate(range(first, last)):
            nodes[:, column] = self._leaves[tree][leaves[:, column]]
        return nodes


def _pool(model: Any, X: Any) -> Any:
    return catboost.Pool(X, cat_features=model.get_cat_feature_indices())


def _named(info: dict[str, Any]) -> bool:
    """Whether the training table had names for its columns; CatBoost numbers those that have none."""
    return all(f.get("feature_id") for f in (*info.get("float_features", ()), *info.get("categorical_features", ())))


def _json(model: Any) -> dict[str, Any]:
    """The JSON model; CatBoost writes it to a file only."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        return json.loads(path.read_text(encoding="utf-8"))


class _Sources:
    """Features of each split: from the numbers of the JSON model to columns of the table.

    Parameters
    ----------
    info : dict
        The model's ``features_info``.
    n_features : int
    """

    def __init__(self, info: dict[str, Any], n_features: int) -> None:
        self._float = [f["flat_feature_index"] for f in info.get("float_features", [])]
        self._category = {f["feature_index"]: f["flat_feature_index"] for f in info.get("categorical_features", [])}
        self._n_features = n_features
        self._combinations: dict[tuple[int, ...], int] = {}
        # Splits are numbered through: borders of numbers, values of one-hot features, then borders of CTRs.
        n_borders = sum(len(f.get("borders") or ()) for f in info.get("float_features", []))
        n_values = sum(len(f.get("values") or ()) for f in info.get("categorical_features", []))
        self._ctr_of: dict[int, tuple[int, ...]] = {}
        number = n_borders + n_values
        for ctr in info.get("ctrs") or ():
            columns = tuple(sorted({self._element(element) for element in ctr["elements"]}))
            for _ in ctr["borders"]:
                self._ctr_of[number] = columns
                number += 1

    def number(self, split: dict[str, Any]) -> int:
        """Row of the source table for one split."""
        kind = split["split_type"]
        if kind == "FloatFeature":
            return self._float[split["float_feature_index"]]
        if kind == "OneHotFeature":
            return self._category[split["cat_feature_index"]]
        if kind == "OnlineCtr":
            columns = self._ctr_of[split["split_index"]]
            if len(columns) == 1:
                return columns[0]
            return self._combinations.setdefault(columns, self._n_features + len(self._combinations))
        raise UnsupportedModelError(f"model: CatBoost splits of type {kind!r} (text, embeddings) cannot be read.")

    def table(self) -> tuple[tuple[int, ...], ...]:
        """`TreeModel.sources`: the features, then the combinations in use."""
        return tuple((j,) for j in range(self._n_features)) + tuple(self._combinations)

    def _element(self, element: dict[str, Any]) -> int:
        if "cat_feature_index" in element:
            return self._category[element["cat_feature_index"]]
        return self._float[element["float_feature_index"]]


def _symmetric_tree(stored: dict[str, Any], iteration: int, sources: _Sources, scale: float) -> tuple[Tree, IntArray]:
    """A tree with one split a level, and the node of each of the library's leaves.

    Bit d of a leaf's number is the answer to split d. The nodes of a level are numbered by the bits that are known
    there, so that the last level has the leaves in the library's order.
    """
    splits = stored.get("splits") or []
    n_leaves = 1 << len(splits)
    left, right, source = (np.full(2 * n_leaves - 1, -1, dtype=np.int32) for _ in range(3))
    for level, split in enumerate(splits):
        width = 1 << level
        node = width - 1 + np.arange(width)
        left[node] = node + width
        right[node] = node + 2 * width
        source[node] = sources.number(split)
    vectors = np.array(stored["leaf_values"], dtype=np.float64).reshape(n_leaves, -1) * scale
    value = np.zeros((2 * n_leaves - 1, vectors.shape[1]))
    value[n_leaves - 1 :] = vectors
    tree = Tree(left, right, source, value, tuple(range(vectors.shape[1])), iteration)
    return tree, np.arange(n_leaves - 1, 2 * n_leaves - 1, dtype=np.int32)


def _free_tree(stored: dict[str, Any], iteration: int, sources: _Sources, scale: float) -> tuple[Tree, IntArray]:
    """A depthwise or lossguide tree, and the node of each of the library's leaves.

    CatBoost numbers leaves from left to right, except that a leaf whose sibling is a split comes before all leaves
    below that sibling.
    """
    left: list[int] = []
    right: list[int] = []
    source: list[int] = []
    value: list[FloatArray] = []
    leaves: list[int] = []
    pending: list[tuple[dict[str, Any], int, bool]] = [(stored, -1, False)]
    while pending:
        node, parent, is_right = pending.pop()
        number = len(left)
        if parent >= 0:
            (right if is_right else left)[parent] = number
        left.append(-1)
        right.append(-1)
        if "split" in node:
            source.append(sources.number(node["split"]))
            value.append(np.zeros(0))
            children = [(node["left"], number, False), (node["right"], number, True)]
            if "split" in node["left"] and "split" not in node["right"]:
                children.reverse()
            pending.extend(reversed(children))
        else:
            source.append(-1)
            value.append(np.atleast_1d(np.array(node["value"], dtype=np.float64)) * scale)
            leaves.append(number)
    size = len(value[leaves[0]])
    tree = Tree(
        np.array(left, dtype=np.int32),
        np.array(right, dtype=np.int32),
        np.array(source, dtype=np.int32),
        np.array([v if len(v) else np.zeros(size) for v in value]),
        tuple(range(size)),
        iteration,
    )
    return tree, np.array(leaves, dtype=np.int32)


def _leaf_rows(stored: dict[str, Any], trees: tuple[Tree, ...]) -> FloatArray | None:
    """Weight of the training rows in each leaf of the first tree.

    Trees that are not symmetric do not keep it, and statistics of categories are others in training than afterwards.
    """
    first = (stored.get("oblivious_trees") or [{}])[0]
    weights, splits = first.get("leaf_weights"), first.get("splits") or []
    if not weights or any(split["split_type"] == "OnlineCtr" for split in splits):
        return None
    return np.concatenate([np.zeros(len(trees[0].left) - len(weights)), np.array(weights, dtype=np.float64)])


def _loss(objective: str, n_outputs: int) -> Loss:
    """The loss of a CatBoost objective, for example ``Quantile:alpha=0.3``."""
    name, _, options = objective.partition(":")
    option = dict(part.split("=", 1) for part in options.split(";") if "=" in part)
    if name == "MultiClass":
        return losses.MulticlassLogLoss(n_outputs)
    if name == "MultiClassOneVsAll":
        return objectives.OneVsRestLogLoss(n_outputs)
    if n_outputs > 1:
        raise objectives.unknown_objective("CatBoost", objective)
    if name in ("Logloss", "CrossEntropy"):
        return losses.LogLoss()
    if name == "Quantile":
        return losses.QuantileLoss(float(option.get("alpha", "0.5")))
    if name == "Huber":
        return objectives.FixedHuberLoss(float(option["delta"]))
    if name == "Tweedie":
        return losses.TweedieLoss(float(option["variance_power"]))
    simple: dict[str, type[Loss]] = {
        "RMSE": losses.SquaredError,
        "MAE": losses.AbsoluteError,
        "Poisson": losses.PoissonLoss,
    }
    if name not in simple:
        raise objectives.unknown_objective("CatBoost", objective)
    return simple[name]()


def _encode(classes: Any, objective: str, custom: bool) -> Callable[[Any], FloatArray]:
    """Targets as the loss wants them; those of a user's loss are its own affair."""
    if objective.partition(":")[0] == "CrossEntropy" and not custom:
        return objectives.encode_shares
    if len(classes):
        return objectives.ClassEncoder(classes)
    return objectives.encode_numbers if custom else objectives.encode_column


def _class_weight(parameters: dict[str, Any]) -> Callable[[FloatArray, FloatArray | None], FloatArray] | None:
    """``class_weights``, ``scale_pos_weight`` and ``auto_class_weights``."""
    fixed = parameters.get("class_weights")
    if fixed:
        weights = np.array(list(fixed.values()) if isinstance(fixed, dict) else fixed, dtype=np.float64)
        if (weights == 1.0).all():
            return None
        return lambda y, sample_weight: weights
    if parameters.get("scale_pos_weight", 1.0) != 1.0:
        positive = float(parameters["scale_pos_weight"])
        return lambda y, sample_weight: np.array([1.0, positive])
    return None
