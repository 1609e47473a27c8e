"""UnbiasedGBM's own estimators: their ensemble is neutral already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from unbiasedgbm._version import __version__
from unbiasedgbm.ensemble.adapters import as_loss, objectives
from unbiasedgbm.ensemble.adapters.neutral import (
    FloatArray,
    IntArray,
    RowNumbers,
    Tree,
    TreeModel,
    UnsupportedModelError,
)
from unbiasedgbm.ensemble.predict import leaves, prepare
from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.losses import Loss
from unbiasedgbm.model import FittedModel
from unbiasedgbm.threads import Pool, effective_n_jobs
from unbiasedgbm.training.setup import digest_of, digest_text


def read(model: Any, loss: Loss | Callable[..., Any] | None) -> TreeModel:
    """Read an ``UnbiasedGBMClassifier`` or ``UnbiasedGBMRegressor``; the trees that its predictions use."""
    if not hasattr(type(model), "ensemble_"):
        raise UnsupportedModelError(f"model: {type(model).__name__} is not a gradient boosting model.")
    check_is_fitted(model)
    ensemble = model.ensemble_
    n_outputs = ensemble.n_outputs
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(ensemble.n_features)])
    return TreeModel(
        library="unbiasedgbm",
        version=__version__,
        trees=tuple(_tree(model._model, ensemble, number) for number in range(ensemble.n_trees)),
        n_outputs=n_outputs,
        feature_names=tuple(str(name) for name in names),
        named=hasattr(model, "feature_names_in_"),
        loss=model._make_loss() if loss is None else as_loss(loss, n_outputs),
        bind=lambda X, n_jobs: _Rows(model, ensemble, X, n_jobs),
        encode=_encode(model, loss is not None),
        class_weight=_class_weight(model),
        leaf_rows=_leaf_rows(ensemble),
    )


class _Rows:
    """A table as one of our estimators sees it."""

    def __init__(self, model: Any, ensemble: TreeEnsemble, X: Any, n_jobs: int | None) -> None:
        self._model = model
        self._ensemble = ensemble
        self._X = X
        self._pool = Pool(effective_n_jobs(n_jobs))
        # One conversion of the table serves all calls.
        self._table = model._model.read(X, type(model).__name__)

    def base(self) -> FloatArray:
        return np.tile(self._ensemble.base, (self._table.n_rows, 1))

    def raw(self, sample: RowNumbers) -> FloatArray:
        table = self._model._model.read(_safe_indexing(self._X, sample), type(self._model).__name__)
        return self._model._model.raw(table, None, self._pool)

    def stopped_by(self, y: FloatArray, weight: FloatArray | None) -> bool:
        """Whether early stopping looked at this table, with these targets and weights."""
        watched = self._model._model.watched.get("validation")
        return watched is not None and watched == digest_text(digest_of(self._table, y, weight))

    def nodes(self, first: int, last: int) -> IntArray:
        part = _part(self._ensemble, first, last)
        return leaves(prepare(part), self._table, part.n_trees, self._pool)


def _part(ensemble: TreeEnsemble, first: int, last: int) -> TreeEnsemble:
    """The trees ``first`` to ``last - 1``."""
    begin, end = int(ensemble.tree_start[first]), int(ensemble.tree_start[last])
    whole = {"n_features", "base", "sets", "tree_start", "output"}
    nodes = {f.name: getattr(ensemble, f.name)[begin:end] for f in fields(ensemble) if f.name not in whole}
    return TreeEnsemble(
        n_features=ensemble.n_features,
        base=ensemble.base,
        tree_start=ensemble.tree_start[first : last + 1] - begin,
        output=ensemble.output[first:last],
        sets=ensemble.sets,
        **nodes,
    )


def _tree(model: FittedModel, ensemble: TreeEnsemble, number: int) -> Tree:
    """One tree of the ensemble. Its scores are not gains of the training rows, so none are handed over."""
    begin, end = int(ensemble.tree_start[number]), int(ensemble.tree_start[number + 1])
    left = ensemble.left[begin:end].copy()
    n_line = model.progress.n_line
    return Tree(
        left=left,
        right=np.where(left < 0, -1, left + 1).astype(np.int32),
        source=ensemble.feature[begin:end].astype(np.int32),
        value=np.where(left < 0, ensemble.value[begin:end], 0.0)[:, None],
        outputs=(int(ensemble.output[number]),),
        # the parts of a line, one a feature, add up to one answer to the gradients at the start
        iteration=0 if number < n_line else 1 + (number - n_line) // model.n_trees_each,
        share=1.0 if number < n_line else 1.0 / model.n_bags,
    )


def _leaf_rows(ensemble: TreeEnsemble) -> FloatArray | None:
    """Rows in each leaf of the first tree."""
    if not ensemble.n_trees:
        return None
    end = int(ensemble.tree_start[1])
    return np.where(ensemble.left[:end] < 0, ensemble.cover[:end], 0.0)


def _encode(model: Any, custom: bool) -> Callable[[Any], FloatArray]:
    """Targets as the model itself encodes them; numbers for a user's loss may have further columns."""
    column = objectives.encode_numbers if custom and not hasattr(model, "classes_") else objectives.single_column
    return lambda y: model._encode(column(y), "y")


def _class_weight(model: Any) -> Callable[[FloatArray, FloatArray | None], FloatArray] | None:
    """The estimator's ``class_weight``, by class."""
    if getattr(model, "class_weight", None) is None:
        return None

    def weights(y: FloatArray, sample_weight: FloatArray | None) -> FloatArray:
        by_class = np.ones(len(model.classes_))
        by_class[y.astype(np.intp)] = model._class_weights(y)
        return by_class

    return weights
