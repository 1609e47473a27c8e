"""Readers of trained models: XGBoost, LightGBM, CatBoost, scikit-learn and our own → one neutral form."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from unbiasedgbm.ensemble.adapters.neutral import (
    ModelMismatchError,
    Rows,
    Tree,
    TreeModel,
    UnsupportedModelError,
    check_additive,
)
from unbiasedgbm.losses import CustomLoss, FloatArray, Loss

__all__ = [
    "ModelMismatchError",
    "Rows",
    "Tree",
    "TreeModel",
    "UnsupportedModelError",
    "check_additive",
    "offset_argument",
    "read_model",
    "supported_libraries",
]

# Package of the model's class (or of one it inherits from) → module of the reader. A reader is imported at first use.
_READERS: tuple[tuple[str, str], ...] = (
    ("unbiasedgbm", "own"),
    ("xgboost", "xgboost"),
    ("lightgbm", "lightgbm"),
    ("catboost", "catboost"),
    ("sklearn.ensemble", "sklearn"),
    ("sklearn.tree", "sklearn"),
)

# What the libraries call an offset in their ``fit``. In all of them it takes the place of the start value.
_OFFSETS = {"xgboost": "base_margin", "lightgbm": "init_score", "catboost": "baseline"}


def read_model(model: Any, loss: Loss | Callable[..., Any] | None = None, *, offset: bool = False) -> TreeModel:
    """Read a trained model into the neutral form.

    Parameters
    ----------
    model : object
        A trained model of one of the `supported_libraries`.
    loss : Loss or callable, optional
        Replaces the model's own objective: a `Loss`, or ``loss(y, raw) -> (g, h)``. Needed for ranking and other
        objectives that are not known by name.
    offset : bool, default=False
        Whether the model was trained on top of offsets, so that it has no start value of its own.

    Returns
    -------
    TreeModel
    """
    if loss is not None and not isinstance(loss, Loss) and not callable(loss):
        raise TypeError(f"loss must be a Loss or a callable (y, raw) -> (g, h), got {type(loss).__name__}.")
    if offset:
        offset_argument(model)
    reader = importlib.import_module(f"{__name__}.{_reader_of(model)}")
    return reader.read(model, loss, offset) if offset else reader.read(model, loss)


def offset_argument(model: Any) -> str:
    """What the model's ``fit`` calls an offset: ``base_margin``, ``init_score`` or ``baseline``."""
    library = _reader_of(model)
    if library not in _OFFSETS:
        raise UnsupportedModelError(
            f"offset: a {type(model).__name__} is never trained on top of offsets, as models of {', '.join(_OFFSETS)} "
            "may be."
        )
    return _OFFSETS[library]


def _reader_of(model: Any) -> str:
    """Module of the reader for a model, trained or not."""
    for base in type(model).__mro__:
        for package, module in _READERS:
            if base.__module__ == package or base.__module__.startswith(package + "."):
                return module
    raise UnsupportedModelError(
        f"model: cannot read a {type(model).__module__}.{type(model).__name__}. {_instead_of(model)}"
    )


def _instead_of(model: Any) -> str:
    """What to pass for a model that cannot be read."""
    if hasattr(model, "best_estimator_"):
        return f"Pass its best_estimator_, a {type(model.best_estimator_).__name__}."
    if hasattr(model, "calibrated_classifiers_"):
        return "Pass the estimator of one of its calibrated_classifiers_, and the rows that this one was trained on."
    return (
        f"Supported are trained models of {', '.join(supported_libraries())}; for a Pipeline, pass its last step and "
        "the transformed tables, for GridSearchCV and the like best_estimator_."
    )


def supported_libraries() -> tuple[str, ...]:
    """Packages whose models can be read."""
    return tuple(package for package, _ in _READERS)


def as_loss(loss: Loss | Callable[..., Any], n_outputs: int) -> Loss:
    """Wrap a user's gradient function; a Loss is returned as it is, if it has the model's outputs."""
    if isinstance(loss, Loss):
        if loss.n_outputs != n_outputs:
            raise ValueError(
                f"loss: {type(loss).__name__} is for {_raw_predictions(loss.n_outputs)} a row, but the model has "
                f"{_raw_predictions(n_outputs)}."
            )
        return loss
    custom = CustomLoss(loss, _no_values, n_outputs)
    # It may be one of ranking, which looks at all rows of a query.
    custom.rowwise = False
    return custom


def _raw_predictions(number: int) -> str:
    return "one raw prediction" if number == 1 else f"{number} raw predictions"


def _no_values(y: FloatArray, raw: FloatArray) -> FloatArray:
    raise UnsupportedModelError("loss: a gradient function has no loss values; pass a Loss with `values`.")
