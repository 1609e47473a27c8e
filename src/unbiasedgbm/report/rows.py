"""The rows of a report: read once, as the model reads them, and thinned where a picture needs no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from unbiasedgbm.frames import Table
from unbiasedgbm.losses import Loss
from unbiasedgbm.targets import read_target
from unbiasedgbm.threads import Pool, effective_n_jobs

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReportRows:
    """Training and held-out rows of a model.

    Attributes
    ----------
    X_train, y_train, X_val, y_val, row_groups_val
        As they were given.
    train, val : Table
    target_train, target_val : ndarray, float64
        Class numbers or targets.
    """

    X_train: Any
    y_train: Any
    X_val: Any
    y_val: Any
    train: Table
    val: Table
    target_train: FloatArray
    target_val: FloatArray
    row_groups_val: Any = None

    @classmethod
    def read(
        cls, model: Any, X_train: Any, y_train: Any, X_val: Any, y_val: Any, row_groups_val: Any = None
    ) -> ReportRows:
        """Read both tables as the model reads them."""
        check_is_fitted(model)
        name = type(model).__name__
        train, val = (model._model.read(X, name) for X in (X_train, X_val))
        target_train = model._encode(read_target(y_train, None, train.n_rows, "y_train", ""), "y_train")
        target_val = model._encode(read_target(y_val, None, val.n_rows, "y_val", ""), "y_val")
        return cls(X_train, y_train, X_val, y_val, train, val, target_train, target_val, row_groups_val)


def thin(n_rows: int, most: int) -> npt.NDArray[np.intp]:
    """At most so many row numbers, drawn evenly but without a period."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def table_of(block: FloatArray, like: Table) -> Table:
    """A table of numbers that were read already."""
    return Table(block, {}, len(block), like.n_features, like.feature_names)


def predict_scale(model: Any, table: Table) -> FloatArray:
    """Predictions on the scale that people read, shape (n, k): probability of class 1, of each class, or the mean."""
    raw = model._model.raw(table, None, Pool(effective_n_jobs(model.n_jobs)))
    loss: Loss = model._make_loss()
    answer = loss.predict(raw[:, 0] if raw.shape[1] == 1 else raw)
    return answer.reshape(len(raw), -1)
