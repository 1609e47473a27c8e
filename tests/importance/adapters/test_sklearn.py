from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unbiasedgbm.ensemble.adapters import UnsupportedModelError, check_additive, read_model

from ..helpers import mixed_table, numeric
from .contract import AdapterContract


class TestHistGradientBoosting(AdapterContract):
    library = "scikit-learn"
    cases: ClassVar[dict[str, str]] = {"regression": "regression", "binary": "binary", "multiclass": "multiclass"}

    def build(self, case: str) -> Any:
        cls = HistGradientBoostingRegressor if case == "regression" else HistGradientBoostingClassifier
        return cls(max_iter=10, max_leaf_nodes=8, min_samples_leaf=10, categorical_features="from_dtype")


class TestGradientBoosting(AdapterContract):
    library = "scikit-learn"
    cases: ClassVar[dict[str, str]] = {
        "regression": "regression",
        "binary": "binary",
        "multiclass": "multiclass",
        "subsampled": "regression",
        "exponential": "binary",
    }

    def build(self, case: str) -> Any:
        if case in ("regression", "subsampled"):
            return GradientBoostingRegressor(
                n_estimators=10, subsample=0.7 if case == "subsampled" else 1.0, random_state=0
            )
        loss = "exponential" if case == "exponential" else "log_loss"
        return GradientBoostingClassifier(n_estimators=10, loss=loss, random_state=0)

    def table(self, X: Any, case: str) -> Any:
        return numeric(X)


def test_features_are_those_of_the_table_not_of_the_preprocessor() -> None:
    X, targets = mixed_table()
    model = HistGradientBoostingRegressor(max_iter=1, max_leaf_nodes=2, categorical_features="from_dtype")
    tree = read_model(model.fit(X, targets["regression"])).trees[0]
    # Categories come first in the preprocessor's output, so its feature 0 is column 1 of the table.
    assert model._predictors[0][0].nodes["feature_idx"][0] == 0
    assert tree.source[0] == 1


def test_a_start_estimator_is_kept() -> None:
    X, targets = mixed_table()
    model = GradientBoostingRegressor(n_estimators=5, init=LinearRegression()).fit(numeric(X), targets["regression"])
    tree_model = read_model(model)
    assert np.ptp(tree_model.bind(numeric(X), 1).base()) > 1.0
    check_additive(tree_model, numeric(X))


def test_objectives() -> None:
    X, targets = mixed_table()
    for loss in ("squared_error", "absolute_error", "huber", "quantile"):
        model = GradientBoostingRegressor(n_estimators=4, loss=loss, alpha=0.3).fit(numeric(X), targets["positive"])
        tree_model = read_model(model)
        assert tree_model.loss.name == loss
        assert getattr(tree_model.loss, "level", 0.3) == (0.5 if loss == "absolute_error" else 0.3)
    for loss in ("squared_error", "absolute_error", "gamma", "poisson", "quantile"):
        model = HistGradientBoostingRegressor(max_iter=4, loss=loss, quantile=0.3).fit(numeric(X), targets["positive"])
        tree_model = read_model(model)
        assert tree_model.loss.name == loss
        check_additive(tree_model, numeric(X))


def test_class_weight() -> None:
    X, targets = mixed_table()
    model = HistGradientBoostingClassifier(max_iter=3, class_weight={0: 1.0, 1: 4.0})
    weights = read_model(model.fit(numeric(X), targets["binary"])).class_weight(np.array([0.0, 1.0]), None)
    np.testing.assert_array_equal(weights, [1.0, 4.0])


def test_what_holds_a_model_is_refused_with_what_to_pass() -> None:
    X, targets = mixed_table()
    table, y = numeric(X), targets["numbers"]
    search = GridSearchCV(GradientBoostingClassifier(n_estimators=2), {"max_depth": [1, 2]}, cv=2)
    with pytest.raises(UnsupportedModelError, match=r"GridSearchCV.*GridSearchCV and the like best_estimator_"):
        read_model(search)
    with pytest.raises(UnsupportedModelError, match=r"Pass its best_estimator_, a GradientBoostingClassifier"):
        read_model(search.fit(table, y))
    read_model(search.best_estimator_)
    calibrated = CalibratedClassifierCV(GradientBoostingClassifier(n_estimators=2), cv=2).fit(table, y)
    with pytest.raises(UnsupportedModelError, match=r"CalibratedClassifierCV.* one of its calibrated_classifiers_"):
        read_model(calibrated)
    read_model(calibrated.calibrated_classifiers_[0].estimator)


def test_what_cannot_be_read_is_refused() -> None:
    X, targets = mixed_table()
    table, y = numeric(X), targets["regression"]
    with pytest.raises(UnsupportedModelError, match="AdaBoostRegressor"):
        read_model(AdaBoostRegressor(n_estimators=2).fit(table, y))
    with pytest.raises(UnsupportedModelError, match="Pipeline, pass its last step"):
        read_model(make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=2)).fit(table, y))
    with pytest.raises(NotFittedError):
        read_model(GradientBoostingRegressor())
