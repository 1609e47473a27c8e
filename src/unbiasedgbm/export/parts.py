"""What every export asks of a model, and how it says that something cannot be exported."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.frames import Schema


class UnsupportedExportError(TypeError):
    """Something of the model has no counterpart in the other format."""


def trees_and_schema(model: Any) -> tuple[TreeEnsemble, Schema]:
    """The trees that predictions use, and how tables are read."""
    check_is_fitted(model)
    return model.ensemble_, model._model.schema


def require(package: str, export: str, extra: str = "export") -> Any:
    """Import an optional package, or say how to get it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{export} needs {package}: pip install 'unbiasedgbm[{extra}]'.") from error


def feature_labels(schema: Schema) -> list[str]:
    """Names of the features; ``x0``, ``x1``, … where the table had none."""
    return [f"x{j}" for j in range(schema.n_features)] if schema.feature_names is None else list(schema.feature_names)


def node_sets(trees: TreeEnsemble) -> dict[int, npt.NDArray[np.bool_]]:
    """Set of every categorical node as a mask of bits: bit 0 is missing, bit k + 1 is level k."""
    sets = {}
    for node in np.flatnonzero(trees.set_start >= 0).tolist():
        begin, words = int(trees.set_start[node]), int(trees.set_words[node])
        packed = trees.sets[begin : begin + words].astype("<u8").view(np.uint8)
        sets[node] = np.unpackbits(packed, bitorder="little").astype(np.bool_)
    return sets


def link_of(model: Any) -> str:
    """How raw predictions become predictions: "logistic", "softmax", "exp" or "identity"."""
    from unbiasedgbm import losses

    loss = model._make_loss()
    if isinstance(loss, losses.LogLoss):
        return "logistic"
    if isinstance(loss, losses.MulticlassLogLoss):
        return "softmax"
    return "exp" if isinstance(loss, losses.PoissonLoss | losses.GammaLoss | losses.TweedieLoss) else "identity"
