"""XGBoost: ``XGBModel`` and ``Booster``; gbtree and dart, parallel trees, vector leaves.

Shapes are read from the JSON model; rows are placed by ``predict(pred_leaf=True)``. Trees that dart dropped while
training cannot be known afterwards: each tree is judged on top of the trees before it, with their final weights.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import xgboost
from scipy.special import expit

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
    """Read an ``XGBModel`` (up to ``best_iteration``, as in its ``predict``) or a ``Booster`` (all trees)."""
    booster = model if isinstance(model, xgboost.Booster) else model.get_booster()
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    ensemble, tree_weight = _ensemble(learner["gradient_booster"])
    n_outputs = max(1, int(learner["learner_model_param"]["num_class"]), _number(learner, "num_target"))
    limits = [int(limit) for limit in ensemble["iteration_indptr"]]
    n_iterations = len(limits) - 1
    # Kept by early stopping of any kind, in files, too.
    best = booster.attr("best_iteration")
    if booster is not model and best is not None:
        n_iterations = min(n_iterations, int(best) + 1)
    parallel = max(1, int(ensemble["gbtree_model_param"]["num_parallel_tree"]))
    trees = tuple(
        _tree(ensemble["trees"][t], int(ensemble["tree_info"][t]), n_outputs, i, parallel, tree_weight[t])
        for i in range(n_iterations)
        for t in range(limits[i], limits[i + 1])
    )
    objective = learner["objective"]
    return TreeModel(
        library="xgboost",
        version=xgboost.__version__,
        trees=trees,
        n_outputs=n_outputs,
        feature_names=_feature_names(model, booster),
        loss=_loss(objective, n_outputs) if loss is None else as_loss(loss, n_outputs),
        bind=lambda X, n_jobs: _Rows(
            model, booster, X, n_jobs, limits[: n_iterations + 1], _base(learner, n_outputs), offset
        ),
        encode=_encode(model, objective["name"], n_outputs, loss is not None),
        class_weight=_class_weight(objective),
        limits=tuple(limits[: n_iterations + 1]),
        # XGBoost adds up leaf values in single precision.
        precision=1e-5,
        named=booster.feature_names is not None,
        averaged=n_iterations == 1 and parallel > 1,
        # A loss of the user's own has hessians of its own.
        leaf_rows=None
        if offset or loss is not None or n_outputs > 1
        else _leaf_rows(ensemble["trees"], objective["name"], _base(learner, n_outputs)),
        leaf_weights=True,
    )


class _Rows:
    """A table as an XGBoost model sees it."""

    def __init__(
        self, model: Any, booster: Any, X: Any, n_jobs: int | None, limits: list[int], base: FloatArray, offset: bool
    ) -> None:
        self._booster = booster
        self._threads = {} if n_jobs is None else {"nthread": n_jobs}
        self._limits = limits
        self._n_outputs = len(base)
        self._matrix = X if isinstance(X, xgboost.DMatrix) else _matrix(model, booster, X, n_jobs)
        # A margin, in the matrix or given as an offset, takes the place of the base score.
        margin = np.asarray(self._matrix.get_base_margin(), dtype=np.float64)
        start = margin.reshape(-1, len(base)) if margin.size else np.tile(base, (self._matrix.num_row(), 1))
        self._base = np.zeros_like(start) if offset else start
        self._offset = offset

    def base(self) -> FloatArray:
        return self._base.copy()

    def raw(self, sample: RowNumbers) -> FloatArray:
        raw = self._from_zero() if self._offset else self._predicted()
        return np.asarray(raw, dtype=np.float64).reshape(-1, self._n_outputs)[sample]

    def _predicted(self) -> Any:
        """The answer of the whole model, which knows the levels of its categories."""
        whole = self._booster.copy()
        whole.set_param(self._threads)
        # XGBoost takes an empty range for all trees, and there may be none.
        return whole.predict(self._matrix, output_margin=True, iteration_range=(0, len(self._limits) - 1))

    def _from_zero(self) -> Any:
        """The trees alone: a large start value would cost digits of a single precision sum."""
        margin = self._matrix.get_base_margin()
        self._matrix.set_base_margin(self._base)
        try:
            return self._predicted()
        finally:
            # The matrix may be the user's.
            self._matrix.set_base_margin(margin)

    def nodes(self, first: int, last: int) -> IntArray:
        # Leaves are only told from the first iteration on, so some iterations are a booster of their own.
        part = self._booster[self._limits.index(first) : self._limits.index(last)]
        part.set_param(self._threads)
        leaves = part.predict(self._matrix, pred_leaf=True)
        return np.asarray(leaves).astype(np.int32).reshape(-1, last - first)


def _matrix(model: Any, booster: Any, X: Any, n_jobs: int | None) -> Any:
    """The table as the estimator's own ``predict`` would hand it over, its levels numbered as the model's.

    Some iterations of a model do not know its levels any more, and would take the table's numbers for theirs.
    """
    missing = getattr(model, "missing", None)
    if named := hasattr(X, "columns"):
        # Older releases keep no levels.
        levels = booster.get_categories() if hasattr(booster, "get_categories") else None
        types = None if levels is None or levels.empty() else levels
    return xgboost.DMatrix(
        X,
        missing=np.nan if missing is None else missing,
        nthread=n_jobs,
        feature_names=None if named else booster.feature_names,
        feature_types=types if named else booster.feature_types,
        enable_categorical=True,
    )


def _ensemble(gradient_booster: dict[str, Any]) -> tuple[dict[str, Any], FloatArray]:
    """The trees and their weights; dart wraps a gbtree."""
    if gradient_booster["name"] == "gbtree":
        ensemble = gradient_booster["model"]
        return ensemble, np.ones(len(ensemble["trees"]))
    if gradient_booster["name"] == "dart":
        return gradient_booster["gbtree"]["model"], np.array(gradient_booster["weight_drop"], dtype=np.float64)
    raise UnsupportedModelError(f"model: XGBoost's booster={gradient_booster['name']!r} has no trees.")


def _tree(stored: dict[str, Any], group: int, n_outputs: int, iteration: int, parallel: int, weight: float) -> Tree:
    """One tree of the JSON model."""
    left = np.array(stored["left_children"], dtype=np.int32)
    right = np.where(left < 0, -1, np.array(stored["right_children"], dtype=np.int32)).astype(np.int32)
    source = np.where(left < 0, -1, np.array(stored["split_indices"], dtype=np.int32)).astype(np.int32)
    size = max(1, int(stored["tree_param"]["size_leaf_vector"]))
    if size == 1:
        value = np.array(stored["split_conditions"], dtype=np.float64)[:, None]
    elif "leaf_weights" in stored:
        # The right child of a leaf is its row in the table of leaf vectors.
        vectors = np.array(stored["leaf_weights"], dtype=np.float64).reshape(-1, size)
        value = np.zeros((len(left), size))
        value[left < 0] = vectors[np.array(stored["right_children"])[left < 0]]
    else:
        value = np.array(stored["base_weights"], dtype=np.float64).reshape(-1, size)
    value[left >= 0] = 0.0
    return Tree(
        left,
        right,
        source,
        value * weight,
        outputs=(group,) if size == 1 else tuple(range(n_outputs)),
        iteration=iteration,
        share=1.0 / parallel,
        # Older releases keep no gains of trees with vector leaves.
        gain=np.array(stored["loss_changes"], dtype=np.float64) if "loss_changes" in stored else None,
    )


def _leaf_rows(stored: list[dict[str, Any]], objective: str, base: FloatArray) -> FloatArray | None:
    """Weight of the training rows in each leaf of the first tree, where the hessians that XGBoost keeps tell it."""
    if not stored or objective not in ("reg:squarederror", "binary:logistic", "binary:logitraw"):
        return None
    each = 1.0
    if objective != "reg:squarederror":
        probability = float(expit(base[0]))
        each = max(probability * (1.0 - probability), 1e-16)
    left = np.array(stored[0]["left_children"])
    return np.where(left < 0, np.array(stored[0]["sum_hessian"], dtype=np.float64) / each, 0.0)


def _number(learner: dict[str, Any], key: str) -> int:
    return int(learner["learner_model_param"].get(key, "1"))


def _base(learner: dict[str, Any], n_outputs: int) -> FloatArray:
    """Base score on the raw scale, shape (n_outputs,): XGBoost stores it on the scale of the predictions."""
    stored = np.array(json.loads(learner["learner_model_param"]["base_score"]), dtype=np.float64).reshape(-1)
    base = np.broadcast_to(stored, (n_outputs,)).copy()
    name = learner["objective"]["name"]
    if name in ("binary:logistic", "reg:logistic"):
        return np.log(base / (1 - base))
    if name in ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"):
        return np.log(base)
    return base


def _feature_names(model: Any, booster: Any) -> tuple[str, ...]:
    if booster.feature_names is not None:
        return tuple(booster.feature_names)
    return tuple(f"f{j}" for j in range(booster.num_features()))


def _loss(objective: dict[str, Any], n_outputs: int) -> Loss:
    """The loss of the JSON model's objective."""
    name = objective["name"]
    if name in ("multi:softmax", "multi:softprob"):
        return losses.MulticlassLogLoss(n_outputs)
    if n_outputs > 1:
        raise objectives.unknown_objective("XGBoost", f"{name} with {n_outputs} targets")
    if name in ("binary:logistic", "binary:logitraw", "reg:logistic"):
        return losses.LogLoss()
    if name == "reg:pseudohubererror":
        return objectives.PseudoHuberLoss(float(objective["pseudo_huber_param"]["huber_slope"]))
    if name == "reg:quantileerror":
        levels = np.array(json.loads(objective["quantile_loss_param"]["quantile_alpha"])).reshape(-1)
        return losses.QuantileLoss(float(levels[0]))
    if name == "reg:tweedie":
        return losses.TweedieLoss(float(objective["tweedie_regression_param"]["tweedie_variance_power"]))
    simple: dict[str, type[Loss]] = {
        "reg:squarederror": losses.SquaredError,
        "reg:absoluteerror": losses.AbsoluteError,
        "count:poisson": losses.PoissonLoss,
        "reg:gamma": losses.GammaLoss,
    }
    if name not in simple:
        raise objectives.unknown_objective("XGBoost", name)
    return simple[name]()


def _encode(model: Any, objective: str, n_outputs: int, custom: bool) -> Callable[[Any], FloatArray]:
    """Targets as the loss wants them; those of a user's loss are its own affair."""
    if hasattr(model, "classes_"):
        return objectives.ClassEncoder(model.classes_)
    if objective in ("multi:softmax", "multi:softprob") and not custom:
        return objectives.NumberedClasses(n_outputs)
    if objective in ("binary:logistic", "binary:logitraw", "reg:logistic") and not custom:
        return objectives.encode_shares
    return objectives.encode_numbers if custom else objectives.encode_column


def _class_weight(objective: dict[str, Any]) -> Callable[[FloatArray, FloatArray | None], FloatArray] | None:
    """``scale_pos_weight``: of targets that are 1, also if they are numbers."""
    positive = float(objective.get("reg_loss_param", {}).get("scale_pos_weight", "1"))
    if math.isclose(positive, 1.0):
        return None
    return lambda y, sample_weight: np.array([1.0, positive])
