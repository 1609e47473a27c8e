from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost

from unbiasedgbm.ensemble.adapters import UnsupportedModelError, check_additive, read_model
from unbiasedgbm.importance import unbiased_gain

from ..helpers import mixed_table, numeric
from .contract import AdapterContract


class TestXGBoost(AdapterContract):
    library = "xgboost"
    cases: ClassVar[dict[str, str]] = {
        "gbtree regression": "regression",
        "gbtree binary": "numbers",
        "gbtree multiclass": "multiclass",
        "dart regression": "regression",
        "dart multiclass": "multiclass",
        "parallel binary": "numbers",
        "parallel multiclass": "multiclass",
        "vector multiclass": "multiclass",
    }

    def build(self, case: str) -> Any:
        kind, target = case.split()
        cls = xgboost.XGBRegressor if target == "regression" else xgboost.XGBClassifier
        options: dict[str, Any] = {
            "gbtree": {},
            "dart": {"booster": "dart", "rate_drop": 0.5},
            "parallel": {"num_parallel_tree": 3, "colsample_bynode": 0.8},
            "vector": {"multi_strategy": "multi_output_tree"},
        }[kind]
        return cls(
            n_estimators=10,
            max_depth=3,
            subsample=0.8,
            n_jobs=1,
            enable_categorical=kind != "vector",
            random_state=0,
            **options,
        )

    def table(self, X: Any, case: str) -> Any:
        return numeric(X) if case.startswith("vector") else X


def fit(cls: Any, X: Any, y: Any, **options: Any) -> Any:
    return cls(n_estimators=8, max_depth=3, n_jobs=1, enable_categorical=True, **options).fit(X, y)


def test_base_scores_are_on_the_raw_scale() -> None:
    X, targets = mixed_table()
    binary = read_model(fit(xgboost.XGBClassifier, X, targets["numbers"], base_score=0.3))
    assert binary.bind(X, 1).base()[0, 0] == pytest.approx(np.log(0.3 / 0.7), rel=1e-5)
    poisson = read_model(fit(xgboost.XGBRegressor, X, targets["positive"], objective="count:poisson", base_score=2.0))
    assert poisson.bind(X, 1).base()[0, 0] == pytest.approx(np.log(2.0), rel=1e-5)
    vector = read_model(fit(xgboost.XGBClassifier, X, targets["multiclass"]))
    assert vector.bind(X, 1).base().shape == (len(X), 4)


def test_best_iteration_cuts_the_trees() -> None:
    X, targets = mixed_table()
    y = targets["regression"]
    model = xgboost.XGBRegressor(
        n_estimators=200, learning_rate=0.5, early_stopping_rounds=3, enable_categorical=True, n_jobs=1
    ).fit(X[:400], y[:400], eval_set=[(X[400:], y[400:])], verbose=False)
    tree_model = read_model(model)
    assert len(tree_model.trees) == model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    check_additive(tree_model, X)


@pytest.mark.parametrize("target", ["numbers", "multiclass"])
@pytest.mark.parametrize("stopped_by", ["rounds", "callback"])
def test_early_stopping_is_kept_in_files(tmp_path: Path, stopped_by: str, target: str) -> None:
    X, targets = mixed_table()
    X, y = numeric(X), targets[target]
    # a callback is used up by one training
    options = (
        {"early_stopping_rounds": 3}
        if stopped_by == "rounds"
        else {"callbacks": [xgboost.callback.EarlyStopping(rounds=3)]}
    )
    model = xgboost.XGBClassifier(n_estimators=200, learning_rate=0.5, n_jobs=1, **options)
    model.fit(X[:400], y[:400], eval_set=[(X[400:], y[400:])], verbose=False)
    model.save_model(tmp_path / "model.ubj")
    loaded = xgboost.XGBClassifier()
    loaded.load_model(tmp_path / "model.ubj")
    per_round = 1 if target == "numbers" else 4
    n_trees = per_round * (int(model.get_booster().attr("best_iteration")) + 1)
    assert n_trees < per_round * model.get_booster().num_boosted_rounds()
    tables = (X[:400], y[:400], X[400:], y[400:])
    results = [unbiased_gain(one, *tables) for one in (model, loaded)]
    for result in results:
        assert result.per_tree.shape == (n_trees, 4)
        np.testing.assert_array_equal(result.importance, results[0].importance)
    # a booster alone predicts with all of its trees
    assert len(unbiased_gain(model.get_booster(), *tables).per_tree) > n_trees


LEVELS = ("low", "mid", "high")


def sizes(n_rows: int = 900) -> tuple[Any, Any, Any]:
    """A category that matters, a number that does a little, and the target."""
    rng = np.random.default_rng(0)
    size, x = rng.choice(LEVELS, n_rows), rng.normal(size=n_rows)
    return size, x, np.select([size == "low", size == "mid"], [0.0, 2.0], 5.0) + 0.3 * x + rng.normal(size=n_rows)


def pandas_levels(size: Any, x: Any, levels: Any) -> Any:
    return pd.DataFrame({"size": pd.Categorical(size, categories=levels), "x": x})


def polars_levels(size: Any, x: Any, levels: Any) -> Any:
    return pl.DataFrame({"size": pl.Series(size, dtype=pl.Enum(levels)), "x": x})


@pytest.mark.parametrize("table", [pandas_levels, polars_levels])
def test_levels_are_those_of_the_model(table: Any) -> None:
    size, x, y = sizes()
    X_train = table(size[:500], x[:500], LEVELS)
    model = fit(xgboost.XGBRegressor, X_train, y[:500])
    used = np.isin(size, ["low", "high"]) & (np.arange(900) >= 500)
    for trained in (model, model.get_booster()):
        for rows, others in (
            (slice(500, None), ("high", "mid", "low")),
            (slice(500, None), ("mid", "high", "low")),
            (used, ("low", "high")),
            (used, ("high", "low")),
        ):
            expected, found = (
                unbiased_gain(trained, X_train, y[:500], table(size[rows], x[rows], levels), y[rows])
                for levels in (LEVELS, others)
            )
            np.testing.assert_array_equal(found.importance, expected.importance)
            np.testing.assert_array_equal(found.se, expected.se)
            assert found.importance[0] > 1.0


def test_polars_categories_without_all_levels() -> None:
    size, x, y = sizes()

    def table(rows: Any) -> Any:
        return pl.DataFrame({"size": pl.Series(size[rows], dtype=pl.Categorical), "x": x[rows]})

    used = np.flatnonzero(np.isin(size, ["mid", "high"]) & (np.arange(900) >= 500))
    model = fit(xgboost.XGBRegressor, table(slice(500)), y[:500])
    tables = [pandas_levels(size[rows], x[rows], LEVELS) for rows in (slice(500), used)]
    expected = unbiased_gain(fit(xgboost.XGBRegressor, tables[0], y[:500]), tables[0], y[:500], tables[1], y[used])
    found = unbiased_gain(model, table(slice(500)), y[:500], table(used), y[used])
    np.testing.assert_allclose(found.importance, expected.importance)


def test_booster_estimator_and_matrix_agree() -> None:
    X, targets = mixed_table()
    y = targets["numbers"]
    model = fit(xgboost.XGBClassifier, X[:400], y[:400])
    tables = (X[:400], y[:400], X[400:], y[400:])
    expected = unbiased_gain(model, *tables).importance
    np.testing.assert_array_equal(unbiased_gain(model.get_booster(), *tables).importance, expected)
    matrices = [xgboost.DMatrix(part, enable_categorical=True) for part in (X[:400], X[400:])]
    by_matrix = unbiased_gain(model.get_booster(), matrices[0], y[:400], matrices[1], y[400:])
    np.testing.assert_array_equal(by_matrix.importance, expected)


def test_trees_side_by_side_share_gradients_and_credit() -> None:
    X, targets = mixed_table()
    model = fit(xgboost.XGBRegressor, X, targets["regression"], num_parallel_tree=4, subsample=0.5)
    trees = read_model(model).trees
    assert [tree.iteration for tree in trees] == [i for i in range(8) for _ in range(4)]
    assert {tree.share for tree in trees} == {0.25}


def test_a_value_that_stands_for_missing_is_kept() -> None:
    X, targets = mixed_table()
    table = numeric(X)
    model = xgboost.XGBRegressor(n_estimators=5, missing=-1.0, n_jobs=1).fit(table, targets["regression"])
    check_additive(read_model(model), table)


def test_objectives() -> None:
    X, targets = mixed_table()
    names = {
        "reg:absoluteerror": "absolute_error",
        "reg:pseudohubererror": "pseudo_huber",
        "count:poisson": "poisson",
        "reg:gamma": "gamma",
        "reg:tweedie": "tweedie",
        "reg:quantileerror": "quantile",
        "reg:logistic": "log_loss",
        "binary:logitraw": "log_loss",
    }
    for objective, name in names.items():
        y = targets["numbers"] if "logi" in objective else targets["positive"]
        options = {"quantile_alpha": 0.3} if "quantile" in objective else {}
        tree_model = read_model(fit(xgboost.XGBRegressor, X, y, objective=objective, **options))
        assert tree_model.loss.name == name
        check_additive(tree_model, X)
        if name == "quantile":
            assert tree_model.loss.level == pytest.approx(0.3)


def test_scale_pos_weight() -> None:
    X, targets = mixed_table()
    model = fit(xgboost.XGBClassifier, X, targets["numbers"], scale_pos_weight=3.0)
    np.testing.assert_array_equal(read_model(model).class_weight(targets["numbers"], None), [1.0, 3.0])


def test_scale_pos_weight_of_numbers_counts_rows_that_are_one() -> None:
    X, targets = mixed_table()
    X, noisy = numeric(X), targets["regression"] - 50.0
    # sample weights move the borders of bins; exact trees have none
    options = {"n_estimators": 8, "max_depth": 3, "tree_method": "exact", "base_score": 0.5, "n_jobs": 1}
    for y, has_ones in ((noisy, False), (np.round(noisy), True), (np.abs(np.round(noisy)) + 2.0, False)):
        tables = (X[:400], y[:400], X[400:], y[400:])
        weight = np.where(y == 1.0, 3.0, 1.0)
        plain, scaled = (xgboost.XGBRegressor(**options, **o).fit(*tables[:2]) for o in ({}, {"scale_pos_weight": 3}))
        weighted = xgboost.XGBRegressor(**options).fit(*tables[:2], sample_weight=weight[:400])
        # what XGBoost itself does
        np.testing.assert_array_equal(scaled.predict(X), weighted.predict(X))
        assert (scaled.predict(X) != plain.predict(X)).any() == has_ones == (y == 1.0).any()
        found = unbiased_gain(scaled, *tables)
        expected = unbiased_gain(weighted, *tables, sample_weight_train=weight[:400], sample_weight_val=weight[400:])
        np.testing.assert_allclose(found.importance, expected.importance)
        np.testing.assert_allclose(found.se, expected.se)
        if not has_ones:
            np.testing.assert_array_equal(found.importance, unbiased_gain(plain, *tables).importance)


def test_unknown_objectives_and_linear_boosters_are_refused() -> None:
    X, targets = mixed_table()
    with pytest.raises(UnsupportedModelError, match="reg:squaredlogerror"):
        read_model(fit(xgboost.XGBRegressor, X, targets["positive"], objective="reg:squaredlogerror"))
    linear = xgboost.XGBRegressor(n_estimators=3, booster="gblinear").fit(numeric(X), targets["regression"])
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        read_model(linear)
