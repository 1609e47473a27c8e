"""scikit-learn: ``GradientBoosting*`` and ``HistGradientBoosting*``; `forest` reads what is not boosted.

``GradientBoosting*`` places rows by its trees' ``apply``. ``HistGradientBoosting*`` has no such method; there its own
predictor is run on a copy of the tree whose leaf values are the node numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.utils.validation import check_is_fitted

from unbiasedgbm import losses
from unbiasedgbm.ensemble.adapters import as_loss, forest, objectives
from unbiasedgbm.ensemble.adapters.neutral import (
    FloatArray,
    IntArray,
    RowNumbers,
    Tree,
    TreeModel,
    UnsupportedModelError,
)
from unbiasedgbm.losses import Loss


def read(model: Any, loss: Loss | Callable[..., Any] | None) -> TreeModel:
    """Read one of the four gradient boosting estimators, or a forest."""
    if isinstance(model, (*forest.FORESTS, *forest.TREES)):
        return forest.read(model, loss)
    rows: type[_ClassicRows] | type[_HistogramRows]
    if isinstance(model, (HistGradientBoostingClassifier, HistGradientBoostingRegressor)):
        check_is_fitted(model)
        trees, rows = _histogram_trees(model), _HistogramRows
    elif isinstance(model, (GradientBoostingClassifier, GradientBoostingRegressor)):
        check_is_fitted(model)
        trees, rows = _classic_trees(model), _ClassicRows
    else:
        raise UnsupportedModelError(
            f"model: {type(model).__name__} cannot be read. Of scikit-learn, GradientBoosting*, HistGradientBoosting*, "
            "RandomForest*, ExtraTrees* and DecisionTree* can."
        )
    n_outputs = max(tree.outputs[0] for tree in trees) + 1
    by_class = getattr(model, "class_weight", None)
    return TreeModel(
        library="scikit-learn",
        version=sklearn.__version__,
        trees=trees,
        n_outputs=n_outputs,
        feature_names=tuple(
            str(name) for name in getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
        ),
        named=hasattr(model, "feature_names_in_"),
        loss=_loss(model, n_outputs) if loss is None else as_loss(loss, n_outputs),
        bind=lambda X, n_jobs: rows(model, X, n_jobs, n_outputs),
        encode=objectives.encoder(getattr(model, "classes_", None), loss is not None),
        # scikit-learn looks classes up by their number here, not by their label.
        class_weight=None if by_class is None else objectives.class_weights(np.arange(len(model.classes_)), by_class),
        leaf_rows=_leaf_rows(model),
        all_rows=_every_row(model),
    )


class _ClassicRows:
    """A table as a ``GradientBoosting*`` model sees it."""

    def __init__(self, model: Any, X: Any, n_jobs: int | None, n_outputs: int) -> None:
        self._model = model
        # Trees work on single precision; one conversion serves all of them.
        self._X = model._validate_X_predict(X) if hasattr(model, "_validate_X_predict") else _single(model, X)
        self._n_outputs = n_outputs

    def base(self) -> FloatArray:
        base = self._model._raw_predict_init(self._X)
        return np.asarray(base, dtype=np.float64).reshape(-1, self._n_outputs)

    def raw(self, sample: RowNumbers) -> FloatArray:
        return np.asarray(self._model._raw_predict(self._X[sample]), dtype=np.float64).reshape(-1, self._n_outputs)

    def nodes(self, first: int, last: int) -> IntArray:
        flat = self._model.estimators_.ravel()[first:last]
        return np.column_stack([tree.tree_.apply(self._X) for tree in flat]).astype(np.int32)


class _HistogramRows:
    """A table as a ``HistGradientBoosting*`` model sees it."""

    def __init__(self, model: Any, X: Any, n_jobs: int | None, n_outputs: int) -> None:
        self._model = model
        self._X = model._preprocess_X(X, reset=False)
        self._n_outputs = n_outputs
        self._n_threads = n_jobs

    def base(self) -> FloatArray:
        base = np.asarray(self._model._baseline_prediction, dtype=np.float64).reshape(1, -1)
        return np.repeat(base, len(self._X), axis=0)

    def raw(self, sample: RowNumbers) -> FloatArray:
        raw = np.asfortranarray(self.base()[sample])
        self._model._predict_iterations(self._X[sample], self._model._predictors, raw, False, self._threads())
        return np.ascontiguousarray(raw)

    def nodes(self, first: int, last: int) -> IntArray:
        bitsets, feature_map = self._model._bin_mapper.make_known_categories_bitsets()
        flat = [predictor for iteration in self._model._predictors for predictor in iteration]
        nodes = np.empty((len(self._X), last - first), dtype=np.int32)
        for column, predictor in enumerate(flat[first:last]):
            numbered = predictor.nodes.copy()
            numbered["value"] = np.arange(len(numbered))
            twin = type(predictor)(numbered, predictor.binned_left_cat_bitsets, predictor.raw_left_cat_bitsets)
            nodes[:, column] = twin.predict(self._X, bitsets, feature_map, self._threads())
        return nodes

    def _threads(self) -> int:
        from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

        return _openmp_effective_n_threads(self._n_threads)


def _single(model: Any, X: Any) -> Any:
    from sklearn.utils.validation import validate_data

    return validate_data(model, X, dtype=np.float32, order="C", accept_sparse="csr", reset=False)


def _classic_trees(model: Any) -> tuple[Tree, ...]:
    """Trees of a ``GradientBoosting*`` model, iteration by iteration."""
    trees = []
    for iteration, row in enumerate(model.estimators_):
        for output, estimator in enumerate(row):
            stored = estimator.tree_
            inner = stored.children_left >= 0
            trees.append(
                Tree(
                    stored.children_left.astype(np.int32),
                    stored.children_right.astype(np.int32),
                    np.where(inner, stored.feature, -1).astype(np.int32),
                    np.where(inner, 0.0, model.learning_rate * stored.value[:, 0, 0])[:, None],
                    (output,),
                    iteration,
                    gain=forest.impurity_gain(stored),
                )
            )
    return tuple(trees)


def _histogram_trees(model: Any) -> tuple[Tree, ...]:
    """Trees of a ``HistGradientBoosting*`` model; its feature numbers are those of its preprocessor's output."""
    if model.is_categorical_ is None:
        original = np.arange(model.n_features_in_)
    else:
        original = np.concatenate([np.flatnonzero(model.is_categorical_), np.flatnonzero(~model.is_categorical_)])
    trees = []
    for iteration, row in enumerate(model._predictors):
        for output, predictor in enumerate(row):
            nodes = predictor.nodes
            inner = nodes["is_leaf"] == 0
            trees.append(
                Tree(
                    np.where(inner, nodes["left"], -1).astype(np.int32),
                    np.where(inner, nodes["right"], -1).astype(np.int32),
                    np.where(inner, original[np.where(inner, nodes["feature_idx"], 0)], -1).astype(np.int32),
                    np.where(inner, 0.0, nodes["value"])[:, None],
                    (output,),
                    iteration,
                    # Leaves keep the gain of the split that they did not get.
                    gain=np.where(inner, nodes["gain"], 0.0),
                )
            )
    return tuple(trees)


def _leaf_rows(model: Any) -> FloatArray:
    """Rows in each leaf of the first tree."""
    if hasattr(model, "_predictors"):
        nodes = model._predictors[0][0].nodes
        return np.where(nodes["is_leaf"] == 1, nodes["count"], 0).astype(np.float64)
    stored = model.estimators_[0, 0].tree_
    return np.where(stored.children_left < 0, stored.n_node_samples, 0).astype(np.float64)


def _every_row(model: Any) -> bool:
    """Whether trees are grown on all rows, none held out for early stopping and none left out by sampling."""
    if hasattr(model, "_predictors"):
        return not model.do_early_stopping_
    return model.subsample == 1.0 and model.n_iter_no_change is None


def _loss(model: Any, n_outputs: int) -> Loss:
    """The loss of the estimator's ``loss`` parameter."""
    name = model.loss
    if name == "log_loss":
        return losses.LogLoss() if n_outputs == 1 else losses.MulticlassLogLoss(n_outputs)
    if name == "exponential":
        return objectives.ExponentialLoss()
    if name not in losses.REGRESSION_LOSSES:
        raise objectives.unknown_objective("scikit-learn", name)
    level = getattr(model, "quantile", None) or getattr(model, "alpha", None) or 0.5
    return losses.regression_loss(name, quantile=level, huber_quantile=level)
