"""scikit-learn: ``RandomForest*``, ``ExtraTrees*`` and single decision trees.

The trees of a forest do not stand on each other: its prediction is their mean, and every tree begins at the same place.
So all trees share the gradients at one constant start value, the mean of their root values, and each counts 1/number.
The loss is what the trees were grown by. For numbers it is the squared error; for classes the squared error of the
class indicators, ½ Σ_k (p_k − 1[y = k])², whose reduction by a split is half that of the Gini impurity.

Every tree is judged with all training rows, in its bootstrap sample or not, and with held-out rows that no tree has
seen. The rows that are out of one tree's bag are in those of others, so they cannot take the place of held-out rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
from scipy import sparse
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

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

FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
TREES = (DecisionTreeClassifier, DecisionTreeRegressor)


def read(model: Any, loss: Loss | Callable[..., Any] | None) -> TreeModel:
    """Read a forest, or a single tree as a forest of one."""
    check_is_fitted(model)
    if model.n_outputs_ > 1:
        raise UnsupportedModelError(f"model: a {type(model).__name__} with {model.n_outputs_} targets cannot be read.")
    members = list(model.estimators_) if isinstance(model, FORESTS) else [model]
    leaf_values = [_values(member.tree_) for member in members]
    base = np.mean([value[0] for value in leaf_values], axis=0)
    by_class = getattr(model, "class_weight", None)
    # All rows go through every tree, so that a tree's own subsample has no weights of its own.
    by_class = "balanced" if isinstance(by_class, str) else by_class
    return TreeModel(
        library="scikit-learn",
        version=sklearn.__version__,
        trees=tuple(
            _tree(member.tree_, value, base, len(members)) for member, value in zip(members, leaf_values, strict=True)
        ),
        n_outputs=len(base),
        feature_names=tuple(
            str(name) for name in getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
        ),
        named=hasattr(model, "feature_names_in_"),
        loss=_loss(model, len(base)) if loss is None else as_loss(loss, len(base)),
        bind=lambda X, n_jobs: _Rows(model, members, X, base),
        encode=objectives.encoder(getattr(model, "classes_", None), loss is not None),
        class_weight=None if by_class is None else objectives.class_weights(model.classes_, by_class),
        averaged=True,
    )


class _Rows:
    """A table as a forest sees it."""

    def __init__(self, model: Any, members: list[Any], X: Any, base: FloatArray) -> None:
        self._model, self._members, self._base = model, members, base
        # Rows of a sparse table are taken by their numbers, which not every format allows.
        self._X = X.tocsr() if sparse.issparse(X) else X
        # Trees work on single precision; one conversion serves all of them.
        self._single = model._validate_X_predict(self._X, *(() if isinstance(model, FORESTS) else (True,)))

    def base(self) -> FloatArray:
        return np.tile(self._base, (self._single.shape[0], 1))

    def raw(self, sample: RowNumbers) -> FloatArray:
        predict = getattr(self._model, "predict_proba", self._model.predict)
        raw = predict(_safe_indexing(self._X, sample))
        return np.asarray(raw, dtype=np.float64).reshape(-1, len(self._base))

    def nodes(self, first: int, last: int) -> IntArray:
        nodes = np.empty((self._single.shape[0], last - first), dtype=np.int32)
        for column, member in enumerate(self._members[first:last]):
            nodes[:, column] = member.tree_.apply(self._single)
        return nodes


def impurity_gain(stored: Any) -> FloatArray:
    """Decrease of impurity by each split of a tree, times its rows; 0 at leaves; shape (n_nodes,)."""
    inner = stored.children_left >= 0
    impurity = stored.weighted_n_node_samples * stored.impurity
    gain = np.zeros(stored.node_count)
    gain[inner] = impurity[inner] - impurity[stored.children_left[inner]] - impurity[stored.children_right[inner]]
    return gain


def _values(stored: Any) -> FloatArray:
    """Mean target, or share of each class, of every node, shape (n_nodes, n_outputs)."""
    return np.asarray(stored.value[:, 0, :], dtype=np.float64)


def _tree(stored: Any, value: FloatArray, base: FloatArray, n_trees: int) -> Tree:
    inner = stored.children_left >= 0
    return Tree(
        stored.children_left.astype(np.int32),
        stored.children_right.astype(np.int32),
        np.where(inner, stored.feature, -1).astype(np.int32),
        np.where(inner[:, None], 0.0, (value - base) / n_trees),
        tuple(range(len(base))),
        share=1.0 / n_trees,
        gain=impurity_gain(stored),
    )


def _loss(model: Any, n_outputs: int) -> Loss:
    """The loss of the ``criterion`` that the trees were grown by."""
    if model.criterion in ("squared_error", "friedman_mse"):
        return losses.SquaredError()
    if model.criterion == "gini":
        return objectives.IndicatorLoss(n_outputs)
    raise objectives.unknown_objective("scikit-learn", model.criterion)
