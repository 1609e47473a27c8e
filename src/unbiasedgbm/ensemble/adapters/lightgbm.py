"""LightGBM: ``LGBMModel`` and ``Booster``; gbdt, dart and rf.

Shapes are read from the model text; rows are placed by ``predict(pred_leaf=True)``.

LightGBM hides its start value in the leaves of the first iteration. It is read back as their mean and taken out, so
that the first tree is judged at the start value, as it was grown. An rf hides it in every tree, and its trees are all
judged at it. dart also shrinks it when the first tree is dropped and lets later trees make up for it, so there the
constant parts of all trees together are the start value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

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
    """Read an ``LGBMModel`` or a ``Booster``; trees after ``best_iteration`` are left out, as in its ``predict``."""
    booster = model if isinstance(model, lightgbm.Booster) else model.booster_
    header, blocks, parameters = _sections(booster.model_to_string())
    n_outputs = int(header.get("num_tree_per_iteration", "1"))
    objective = header.get("objective", "custom")
    names = tuple(booster.feature_name())
    averaged = "average_output" in header
    # A loss of the user's own has no start value.
    begins_at_zero = offset or objective == "custom"
    start = np.zeros(len(blocks)) if begins_at_zero else _start_values(blocks, n_outputs, averaged, parameters)
    if objective.startswith("multiclassova") and _pair_weight(parameters) is not None:
        raise UnsupportedModelError(
            "model: LightGBM's multiclassova with is_unbalance or scale_pos_weight is not read."
        )
    trees = tuple(
        _tree(
            block,
            output=number % n_outputs,
            iteration=0 if averaged else number // n_outputs,
            start=start[number],
            parts=len(blocks) // n_outputs if averaged else 1,
        )
        for number, block in enumerate(blocks)
    )
    base = np.array([start[k::n_outputs].sum() for k in range(n_outputs)]) / (
        len(blocks) // n_outputs if averaged else 1
    )
    return TreeModel(
        library="lightgbm",
        version=lightgbm.__version__,
        trees=trees,
        n_outputs=n_outputs,
        feature_names=names,
        loss=_loss(objective, parameters, n_outputs) if loss is None else as_loss(loss, n_outputs),
        bind=lambda X, n_jobs: _Rows(model, trees, X, n_jobs, base, averaged),
        encode=_encode(model, objective.split()[0], n_outputs, loss is not None),
        class_weight=_class_weight(model, objective, parameters),
        late_start=_late_start(model, objective, parameters, base) if start.any() else None,
        limits=tuple(range(0, len(trees) + 1, n_outputs)),
        named=names != tuple(f"Column_{j}" for j in range(len(names))),
        by_position=True,
        averaged=averaged,
        leaf_rows=_leaf_rows(blocks, trees),
        all_rows=_every_row(parameters),
    )


class _Rows:
    """A table as a LightGBM model sees it."""

    def __init__(
        self, model: Any, trees: tuple[Tree, ...], X: Any, n_jobs: int | None, base: FloatArray, averaged: bool
    ) -> None:
        self._model = model
        # LightGBM's raw score of an rf is the sum over its trees; its prediction is their mean.
        self._parts = max(1, len(trees) // len(base)) if averaged else 1
        self._X = X
        self._threads = {} if n_jobs is None else {"num_threads": n_jobs}
        self._base = base
        # Leaf l of the library is node l + (number of splits): splits come first, so that node 0 is the root.
        self._first_leaf = np.array([len(tree.left) // 2 for tree in trees], dtype=np.int32)

    def base(self) -> FloatArray:
        return np.tile(self._base, (_num_samples(self._X), 1))

    def raw(self, sample: RowNumbers) -> FloatArray:
        raw = self._model.predict(_safe_indexing(self._X, sample), raw_score=True, **self._threads)
        return np.asarray(raw, dtype=np.float64).reshape(-1, len(self._base)) / self._parts

    def nodes(self, first: int, last: int) -> IntArray:
        n_outputs = len(self._base)
        leaves = self._model.predict(
            self._X,
            pred_leaf=True,
            start_iteration=first // n_outputs,
            num_iteration=(last - first) // n_outputs,
            **self._threads,
        )
        return np.asarray(leaves, dtype=np.int32).reshape(-1, last - first) + self._first_leaf[first:last]


def _sections(text: str) -> tuple[dict[str, str], list[dict[str, str]], dict[str, str]]:
    """Header, one block of fields a tree, and parameters of a model text."""
    body, _, tail = text.partition("end of trees")
    header_text, *tree_texts = re.split(r"^Tree=\d+$", body, flags=re.MULTILINE)
    header = _fields(header_text)
    return header, [_fields(tree_text) for tree_text in tree_texts], dict(_PARAMETER.findall(tail))


_PARAMETER = re.compile(r"^\[(\w+): (.*)\]$", flags=re.MULTILINE)


def _fields(text: str) -> dict[str, str]:
    """``key=value`` lines; a line without a value has an empty one."""
    return {key: value for key, _, value in (line.partition("=") for line in text.splitlines() if line)}


def _start_values(
    blocks: list[dict[str, str]], n_outputs: int, averaged: bool, parameters: dict[str, str]
) -> FloatArray:
    """Constant part that LightGBM has put in each tree, shape (n_trees,), float64."""
    start = np.zeros(len(blocks))
    if parameters.get("boost_from_average", "1") == "0" or not blocks:
        return start
    everywhere = averaged or parameters.get("boosting") == "dart"
    # Putting the start value in resets a tree's shrinkage to 1; with a given init_score it stays the learning rate.
    rate = float(parameters.get("learning_rate", "nan"))
    if not everywhere and rate != 1.0 and float(blocks[0]["shrinkage"]) == rate:
        return start
    for number, block in enumerate(blocks if everywhere else blocks[:n_outputs]):
        start[number] = _constant_part(block)
    if averaged:
        for k in range(n_outputs):
            start[k::n_outputs] = start[k::n_outputs].mean()
    return start


def _constant_part(block: dict[str, str]) -> float:
    """Mean leaf value by hessian: leaves of a tree that was grown at its start value differ from it by zero on average.

    Nearly so if the start value was not the best constant (class weights, bagging, medians in the leaves); then a small
    part of the first tree's step is taken for the start. The root's own value is no better: the model text rounds it to
    six digits.
    """
    value = _numbers(block["leaf_value"], np.float64)
    if len(value) == 1:
        return float(value[0])
    return float(np.average(value, weights=_numbers(block["leaf_weight"], np.float64)))


def _tree(block: dict[str, str], *, output: int, iteration: int, start: float, parts: int) -> Tree:
    """One tree of the model text; ``parts`` trees are averaged."""
    if block.get("is_linear", "0") == "1":
        raise UnsupportedModelError("model: LightGBM's linear trees (linear_tree=True) have no constant leaves.")
    n_leaves = int(block["num_leaves"])
    n_splits = n_leaves - 1
    left, right, source = (np.full(n_splits + n_leaves, -1, dtype=np.int32) for _ in range(3))
    gain = np.zeros(n_splits + n_leaves)
    value = np.zeros((n_splits + n_leaves, 1))
    value[n_splits:, 0] = (_numbers(block["leaf_value"], np.float64) - start) / parts
    if n_splits:
        for side, key in ((left, "left_child"), (right, "right_child")):
            child = _numbers(block[key], np.int32)
            side[:n_splits] = np.where(child < 0, n_splits + ~child, child)
        source[:n_splits] = _numbers(block["split_feature"], np.int32)
        gain[:n_splits] = _numbers(block["split_gain"], np.float64)
    return Tree(left, right, source, value, (output,), iteration, 1.0 / parts, gain)


def _leaf_rows(blocks: list[dict[str, str]], trees: tuple[Tree, ...]) -> FloatArray | None:
    """Rows in each leaf of the first tree."""
    if not trees or "leaf_count" not in blocks[0]:
        return None
    counts = _numbers(blocks[0]["leaf_count"], np.float64)
    # A tree without a split keeps no count.
    return np.concatenate([np.zeros(len(trees[0].left) - len(counts)), counts]) if counts.any() else None


def _every_row(parameters: dict[str, str]) -> bool:
    """Whether trees are grown on all rows."""
    shares = ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction")
    sampled = parameters.get("bagging_freq", "0") != "0" and any(float(parameters.get(s, "1")) < 1.0 for s in shares)
    strategy = parameters.get("data_sample_strategy", "bagging"), parameters.get("boosting", "gbdt")
    return not sampled and "goss" not in strategy


def _numbers(text: str, dtype: type) -> Any:
    return np.array(text.split(), dtype=dtype)


def _loss(objective: str, parameters: dict[str, str], n_outputs: int) -> Loss:
    """The loss of an objective line, for example ``binary sigmoid:1``."""
    name, *options = objective.split()
    option = dict(part.split(":", 1) for part in options if ":" in part)
    sigmoid = float(option.get("sigmoid", "1"))
    if name == "binary":
        return losses.LogLoss() if sigmoid == 1.0 else objectives.ScaledLogLoss(sigmoid)
    if name == "multiclass":
        return losses.MulticlassLogLoss(n_outputs)
    if name == "multiclassova":
        return objectives.OneVsRestLogLoss(n_outputs, sigmoid)
    if name == "cross_entropy":
        return losses.LogLoss()
    if name == "huber":
        return objectives.FixedHuberLoss(float(parameters["alpha"]))
    simple = {
        "regression": "squared_error",
        "regression_l1": "absolute_error",
        "quantile": "quantile",
        "poisson": "poisson",
        "gamma": "gamma",
        "tweedie": "tweedie",
    }
    if name not in simple or "sqrt" in options:
        raise objectives.unknown_objective("LightGBM", objective)
    return losses.regression_loss(
        simple[name],
        quantile=float(parameters.get("alpha", "0.5")),
        tweedie_power=float(parameters.get("tweedie_variance_power", "1.5")),
    )


def _encode(model: Any, objective: str, n_outputs: int, custom: bool) -> Callable[[Any], FloatArray]:
    """Targets as the loss wants them; those of a user's loss are its own affair."""
    if hasattr(model, "classes_"):
        return objectives.ClassEncoder(model.classes_)
    if objective == "binary" and not custom:
        return objectives.encode_signs
    if objective in ("multiclass", "multiclassova") and not custom:
        return objectives.NumberedClasses(n_outputs)
    if objective == "cross_entropy" and not custom:
        return objectives.encode_shares
    return objectives.encode_numbers if custom else objectives.encode_column


_Weights = Callable[[FloatArray, FloatArray | None], FloatArray]


def _class_weight(model: Any, objective: str, parameters: dict[str, str]) -> _Weights | None:
    """The estimator's ``class_weight`` and, of two classes, ``scale_pos_weight`` and ``is_unbalance`` besides."""
    by_class = _estimator_weight(model)
    pair = _pair_weight(parameters) if objective.split()[0] == "binary" else None
    if by_class is None or pair is None:
        return by_class or pair
    return lambda y, sample_weight: by_class(y, sample_weight) * pair(y, sample_weight)


def _estimator_weight(model: Any) -> _Weights | None:
    """The estimator's ``class_weight``."""
    by_class = getattr(model, "class_weight", None) if hasattr(model, "classes_") else None
    return None if by_class is None else objectives.class_weights(model.classes_, by_class)


def _pair_weight(parameters: dict[str, str]) -> _Weights | None:
    """``scale_pos_weight`` and ``is_unbalance``."""
    positive = float(parameters.get("scale_pos_weight", "1"))
    unbalanced = parameters.get("is_unbalance", "0") == "1"
    if positive == 1.0 and not unbalanced:
        return None

    def weights(y: FloatArray, sample_weight: FloatArray | None) -> FloatArray:
        n_positive = max(float((y > 0).sum()), 1.0)
        n_negative = max(float((y <= 0).sum()), 1.0)
        rarer = np.ones(2)
        if unbalanced:
            rarer = max(n_positive, n_negative) / np.array([n_negative, n_positive])
        return rarer * np.array([1.0, positive])

    return weights


def _late_start(model: Any, objective: str, parameters: dict[str, str], base: FloatArray) -> _Weights | None:
    """Where ``scale_pos_weight`` or ``is_unbalance`` weight the gradients, but not the share that training began from.

    There the first tree's leaves are far from the start value, and their mean does not tell it.
    """
    name, *options = objective.split()
    if name != "binary" or _pair_weight(parameters) is None or parameters.get("boosting") == "dart":
        return None
    sigmoid = float(dict(part.split(":", 1) for part in options if ":" in part).get("sigmoid", "1"))
    by_class = _estimator_weight(model)

    def step(y: FloatArray, sample_weight: FloatArray | None) -> FloatArray:
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        if by_class is not None:
            weight = weight * by_class(y, sample_weight)[(y > 0).astype(np.intp)]
        share = np.clip(weight[y > 0].sum() / weight.sum(), 1e-15, 1.0 - 1e-15)
        return np.log(share / (1.0 - share)) / sigmoid - base

    return step
