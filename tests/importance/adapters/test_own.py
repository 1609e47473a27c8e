from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from unbiasedgbm.ensemble.adapters import check_additive, read_model
from unbiasedgbm.estimators import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.importance import gain_importance, unbiased_gain

from ..helpers import mixed_table
from .contract import AdapterContract


class TestOwn(AdapterContract):
    library = "unbiasedgbm"
    cases: ClassVar[dict[str, str]] = {"regression": "regression", "binary": "binary", "multiclass": "multiclass"}

    def build(self, case: str) -> Any:
        cls = UnbiasedGBMRegressor if case == "regression" else UnbiasedGBMClassifier
        return cls(n_estimators=10, learning_rate=0.1, random_state=0, n_jobs=1)


def test_class_weight() -> None:
    X, targets = mixed_table()
    model = UnbiasedGBMClassifier(n_estimators=3, class_weight={"no": 1.0, "yes": 4.0}, random_state=0)
    weights = read_model(model.fit(X, targets["binary"])).class_weight(np.array([0.0, 1.0, 1.0]), None)
    np.testing.assert_array_equal(weights, [1.0, 4.0])


def test_early_stopping_cuts_the_trees() -> None:
    X, targets = mixed_table()
    model = UnbiasedGBMRegressor(
        n_estimators=200, learning_rate=0.5, split_rule="standard", early_stopping=True, n_iter_no_change=3,
        random_state=0,
    ).fit(X, targets["regression"])  # fmt: skip
    tree_model = read_model(model)
    assert len(tree_model.trees) == model.best_iteration_ < model.n_iter_
    check_additive(tree_model, X)


def test_losses() -> None:
    X, targets = mixed_table()
    for loss in ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"):
        model = UnbiasedGBMRegressor(n_estimators=3, loss=loss, random_state=0).fit(X, targets["positive"])
        tree_model = read_model(model)
        assert tree_model.loss.name == loss
        check_additive(tree_model, X)


@pytest.mark.filterwarnings("ignore::unbiasedgbm.importance.gain.TrainingRowsWarning")
def test_gain_is_computed_from_the_training_rows() -> None:
    X, targets = mixed_table()
    y = targets["regression"]
    # a line has leaves of one row, which are not judged
    model = UnbiasedGBMRegressor(n_estimators=5, random_state=0, linear_start=False).fit(X, y)
    gain = gain_importance(model, X, y)
    assert (gain.importance >= 0.0).all()
    same = unbiased_gain(model, X, y, X, y, min_rows=2, paper_sums=True)
    np.testing.assert_allclose(gain.importance, same.importance, rtol=1e-6)
    with pytest.raises(TypeError, match="pass X_train"):
        gain_importance(model)
