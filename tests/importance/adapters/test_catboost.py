from __future__ import annotations

from typing import Any, ClassVar

import catboost
import numpy as np
import pytest

from unbiasedgbm.ensemble.adapters import UnsupportedModelError, check_additive, read_model
from unbiasedgbm.importance import unbiased_gain

from ..helpers import mixed_table, numeric, twin_unbiased_gain
from .contract import AdapterContract


class TestCatBoost(AdapterContract):
    library = "catboost"
    cases: ClassVar[dict[str, str]] = {
        "SymmetricTree regression": "regression",
        "SymmetricTree binary": "binary",
        "SymmetricTree multiclass": "multiclass",
        "Depthwise binary": "binary",
        "Depthwise multiclass": "multiclass",
        "Lossguide regression": "regression",
        "MultiClassOneVsAll multiclass": "multiclass",
    }

    def build(self, case: str) -> Any:
        kind, target = case.split()
        options = (
            {"loss_function": "MultiClassOneVsAll"}
            if kind == "MultiClassOneVsAll"
            else {"grow_policy": kind, "min_data_in_leaf": 5 if kind != "SymmetricTree" else 1}
        )
        return build(target, **options)


def build(target: str, **options: Any) -> Any:
    cls = catboost.CatBoostRegressor if target == "regression" else catboost.CatBoostClassifier
    defaults: dict[str, Any] = {
        "iterations": 12,
        "depth": 4,
        "learning_rate": 0.2,
        "cat_features": ["many", "few"],
        "thread_count": 1,
        "verbose": 0,
        "allow_writing_files": False,
    }
    return cls(**(defaults | options))


def interaction(n_rows: int) -> tuple[Any, Any]:
    """The target needs both categories at once, so that a combination is worth a split."""
    X, _ = mixed_table(n_rows)
    y = np.where((X["many"].astype(int) % 2 == 0) == (X["few"] == "x"), 3.0, 0.0)
    return X, y + np.random.default_rng(1).normal(size=n_rows)


def test_all_kinds_of_splits_are_credited() -> None:
    X, targets = mixed_table()
    model = build("regression", iterations=30, one_hot_max_size=2, max_ctr_complexity=2).fit(*interaction(700))
    tree_model = read_model(model)
    sources = {tree_model.sources[s] for tree in tree_model.trees for s in tree.source[tree.is_split]}
    assert (1,) in sources, "no CTR split of one feature"
    assert any(len(source) > 1 for source in sources), "no CTR split of a combination"
    check_additive(tree_model, X)
    one_hot = read_model(build("regression", one_hot_max_size=50).fit(X, targets["regression"]))
    sources = {one_hot.sources[s] for tree in one_hot.trees for s in tree.source[tree.is_split]}
    assert (1,) in sources
    assert len(one_hot.sources) == 4
    check_additive(one_hot, X)


def test_a_combination_is_shared_equally() -> None:
    X, y = interaction(1500)
    model = build("regression", iterations=30, one_hot_max_size=2, max_ctr_complexity=2).fit(X[:800], y[:800])
    tree_model = read_model(model)
    assert len(tree_model.sources) > 4
    tables = (X[:800], y[:800], X[800:], y[800:])
    result = unbiased_gain(model, *tables)
    importance, se = twin_unbiased_gain(tree_model, tables)
    np.testing.assert_allclose(result.importance, importance, rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(result.se, se, rtol=1e-4)
    counted = [sum(j in tree_model.sources[s] for tree in tree_model.trees for s in tree.source) for j in range(4)]
    assert (result.n_splits <= counted).all()


def test_best_iteration_cuts_the_trees() -> None:
    X, targets = mixed_table()
    y = targets["regression"]
    model = build("regression", iterations=200, learning_rate=0.8, early_stopping_rounds=3)
    model.fit(X[:400], y[:400], eval_set=(X[400:], y[400:]))
    tree_model = read_model(model)
    assert len(tree_model.trees) == model.best_iteration_ + 1 < 200
    check_additive(tree_model, X)


def test_a_pool_is_a_table() -> None:
    X, targets = mixed_table()
    y = targets["binary"]
    model = build("binary").fit(X[:400], y[:400])
    pools = [catboost.Pool(part, cat_features=["many", "few"]) for part in (X[:400], X[400:])]
    by_pool = unbiased_gain(model, pools[0], y[:400], pools[1], y[400:])
    expected = unbiased_gain(model, X[:400], y[:400], X[400:], y[400:])
    np.testing.assert_array_equal(by_pool.importance, expected.importance)


@pytest.mark.parametrize(
    "weight", [{"class_weights": [1.0, 3.0]}, {"scale_pos_weight": 3.0}, {"auto_class_weights": "Balanced"}]
)
def test_class_weights_are_those_of_the_model(weight: dict[str, Any]) -> None:
    X, targets = mixed_table()
    y = (targets["regression"] > 53.0).astype(int)
    model = build("binary", **weight).fit(X, y)
    weights = read_model(model).class_weight(y.astype(float), None)
    expected = (y == 0).sum() / (y == 1).sum() if "auto_class_weights" in weight else 3.0
    assert weights[1] / weights[0] == pytest.approx(expected, rel=1e-5)


def test_objectives() -> None:
    X, targets = mixed_table()
    names = {
        "MAE": "absolute_error",
        "Quantile:alpha=0.3": "quantile",
        "Poisson": "poisson",
        "Huber:delta=0.7": "fixed_huber",
        "Tweedie:variance_power=1.3": "tweedie",
    }
    for objective, name in names.items():
        tree_model = read_model(build("regression", loss_function=objective).fit(X, targets["positive"]))
        assert tree_model.loss.name == name
        check_additive(tree_model, X)


def test_what_cannot_be_read_is_refused() -> None:
    X, targets = mixed_table()
    model = catboost.CatBoostRegressor(iterations=3, loss_function="MAPE", verbose=0, allow_writing_files=False)
    with pytest.raises(UnsupportedModelError, match="not been fitted"):
        read_model(model)
    with pytest.raises(UnsupportedModelError, match="MAPE"):
        read_model(model.fit(numeric(X), targets["positive"]))
