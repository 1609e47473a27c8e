from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from unbiasedgbm.ensemble.adapters import UnsupportedModelError, check_additive, read_model
from unbiasedgbm.importance import (
    baselines,
    compare_importances,
    cross_unbiased_gain,
    gain,
    gain_importance,
    permutation_importance,
    shap_importance,
    unbiased_gain,
)
from unbiasedgbm.losses import LogLoss, SquaredError

from ..helpers import mixed_table, numeric
from .contract import AdapterContract


class TestLightGBM(AdapterContract):
    library = "lightgbm"
    cases: ClassVar[dict[str, str]] = {
        "gbdt regression": "regression",
        "gbdt binary": "binary",
        "gbdt multiclass": "multiclass",
        "dart regression": "regression",
        "dart multiclass": "multiclass",
        "rf regression": "regression",
        "rf binary": "binary",
        "ova multiclass": "multiclass",
        "goss binary": "binary",
    }

    def build(self, case: str) -> Any:
        kind, target = case.split()
        cls = lightgbm.LGBMRegressor if target == "regression" else lightgbm.LGBMClassifier
        options: dict[str, Any] = {"boosting_type": kind if kind in ("gbdt", "dart", "rf") else "gbdt"}
        if kind == "ova":
            options["objective"] = "multiclassova"
        if kind == "goss":
            options["data_sample_strategy"] = "goss"
        else:
            options |= {"subsample": 0.8, "subsample_freq": 1}
        return cls(
            n_estimators=10,
            num_leaves=8,
            min_child_samples=10,
            min_data_per_group=10,
            cat_smooth=1.0,
            drop_rate=0.5,
            n_jobs=1,
            verbose=-1,
            **options,
        )


def fit(cls: Any, X: Any, y: Any, **options: Any) -> Any:
    return cls(n_estimators=8, num_leaves=6, n_jobs=1, verbose=-1, **options).fit(X, y)


def test_the_start_value_is_taken_out_of_the_first_tree() -> None:
    X, targets = mixed_table()
    y = targets["regression"] + 1e6
    tree_model = read_model(fit(lightgbm.LGBMRegressor, X, y))
    assert tree_model.bind(X, 1).base()[0, 0] == pytest.approx(y.mean(), abs=0.05)  # labels are float32
    assert np.abs(tree_model.trees[0].value).max() < 10.0


def test_without_a_start_value_the_base_is_zero() -> None:
    X, targets = mixed_table()
    for options in ({"boost_from_average": False}, {"boost_from_average": False, "learning_rate": 1.0}):
        tree_model = read_model(fit(lightgbm.LGBMRegressor, X, targets["regression"], **options))
        assert tree_model.bind(X, 1).base()[0, 0] == 0.0
        check_additive(tree_model, X)


def test_an_init_score_leaves_the_base_at_zero() -> None:
    X, targets = mixed_table()
    y = targets["regression"]
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(X, y, init_score=np.full(len(y), 40.0))
    tree_model = read_model(model)
    assert tree_model.bind(X, 1).base()[0, 0] == 0.0
    check_additive(tree_model, X)


def test_a_random_forest_is_judged_at_its_start_value() -> None:
    X, targets = mixed_table()
    y = targets["regression"]
    model = fit(lightgbm.LGBMRegressor, X, y, boosting_type="rf", subsample=0.6, subsample_freq=1)
    tree_model = read_model(model)
    assert {tree.iteration for tree in tree_model.trees} == {0}
    assert tree_model.bind(X, 1).base()[0, 0] == pytest.approx(y.mean(), abs=0.1)


def test_best_iteration_cuts_the_trees() -> None:
    X, targets = mixed_table()
    y = targets["regression"]
    train = lightgbm.Dataset(X[:400], y[:400])
    booster = lightgbm.train(
        {"learning_rate": 0.3, "verbose": -1, "num_threads": 1, "objective": "regression"},
        train,
        300,
        valid_sets=[lightgbm.Dataset(X[400:], y[400:], reference=train)],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
        keep_training_booster=True,
    )
    tree_model = read_model(booster)
    assert len(tree_model.trees) == booster.best_iteration < booster.num_trees()
    check_additive(tree_model, X)


def test_names_are_those_of_the_table() -> None:
    X, targets = mixed_table()
    X = X[["a", "gaps"]].rename(columns={"a": "a b c"})
    y = targets["regression"]
    model = fit(lightgbm.LGBMRegressor, X[:400], y[:400])
    assert read_model(model).feature_names == ("a_b_c", "gaps")
    tables = (X[:400], y[:400], X[400:], y[400:])
    for trained in (model, model.booster_):
        result = unbiased_gain(trained, *tables, groups={"both": ["a b c", "gaps"]})
        assert result.feature_names == ("a b c", "gaps")
        # The booster's own names are still understood.
        stored = unbiased_gain(trained, *tables, groups={"both": ["a_b_c", "gaps"]})
        np.testing.assert_array_equal(stored.groups.importance, result.groups.importance)
    for result in compare_importances(model, *tables, n_repeats=1).results.values():
        assert result.feature_names == ("a b c", "gaps")
    assert cross_unbiased_gain(model, X, y, cv=2).feature_names == ("a b c", "gaps")
    frame = pa.Table.from_pandas(X, preserve_index=False)
    assert read_model(model).named_by(frame).feature_names == ("a b c", "gaps")
    # An array has no names, and other names are not the model's.
    arrays = (X[:400].to_numpy(), y[:400], X[400:].to_numpy(), y[400:])
    assert unbiased_gain(model, *arrays).feature_names == ("a_b_c", "gaps")
    assert read_model(model).named_by(X.rename(columns={"gaps": "holes"})).feature_names == ("a_b_c", "gaps")


def test_columns_in_another_order_are_refused() -> None:
    X, targets = mixed_table(800)
    y = targets["regression"]
    X = pd.DataFrame(numeric(X), columns=["a b", "many", "few", "gaps"])
    tables = (X[:400], y[:400], X[400:], y[400:])
    model = fit(lightgbm.LGBMRegressor, *tables[:2])

    def turned(table: Any) -> Any:
        return table[["gaps", "few", "a b", "many"]]

    named = read_model(model).named_by(tables[0])
    named.check_order(tables[2], "X_val")
    with pytest.raises(ValueError, match="X_val: the columns are those of the model in another order"):
        named.check_order(turned(tables[2]), "X_val")
    message = "Column 0 is 'gaps' where the model was trained with 'a_b'; reorder the columns"
    for trained in (model, model.booster_):
        for argument, wrong in (
            ("X_train", (turned(tables[0]), *tables[1:])),
            ("X_val", (*tables[:2], turned(tables[2]), y[400:])),
            ("X_val", (*tables[:2], pa.Table.from_pandas(turned(tables[2]), preserve_index=False), y[400:])),
        ):
            with pytest.raises(ValueError, match=f"{argument}: .*{message}"):
                unbiased_gain(trained, *wrong)
        with pytest.raises(ValueError, match=f"X_val: .*{message}"):
            permutation_importance(trained, turned(tables[2]), y[400:])
        with pytest.raises(ValueError, match=f"X_val: .*{message}"):
            shap_importance(trained, turned(tables[2]))
        # what LightGBM itself makes of such a table
        assert np.abs(trained.predict(tables[2]) - trained.predict(turned(tables[2]))).max() > 0.1


def test_other_names_say_nothing_of_the_order() -> None:
    X, targets = mixed_table(800)
    y = targets["regression"]
    X = pd.DataFrame(numeric(X), columns=["a", "many", "few", "gaps"])
    model = fit(lightgbm.LGBMRegressor, X[:400], y[:400])
    expected = unbiased_gain(model, X[:400], y[:400], X[400:], y[400:])
    for names in (["gaps", "few", "a", "holes"], ["b", "c", "d", "e"]):
        renamed = X.set_axis(names, axis=1)
        found = unbiased_gain(model, renamed[:400], y[:400], renamed[400:], y[400:])
        np.testing.assert_array_equal(found.importance, expected.importance)
    np.testing.assert_array_equal(
        unbiased_gain(model, X[:400].to_numpy(), y[:400], X[400:], y[400:]).importance, expected.importance
    )


def test_gain_from_rows_wants_the_columns_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    X, targets = mixed_table()
    X, y = X[["a", "gaps"]], targets["regression"]
    model = fit(lightgbm.LGBMRegressor, X, y)
    # as of a library that keeps no gains
    without = read_model(model)
    without = replace(without, trees=tuple(replace(tree, gain=None) for tree in without.trees))
    monkeypatch.setattr(baselines, "read_model", lambda *given, **options: without)
    assert gain_importance(model, X, y).importance[0] > 0.0
    with pytest.raises(ValueError, match="X_train: the columns are those of the model in another order"):
        gain_importance(model, X[["gaps", "a"]], y)


def test_booster_and_estimator_agree() -> None:
    X, targets = mixed_table()
    y = targets["numbers"]
    model = fit(lightgbm.LGBMClassifier, X[:400], y[:400])
    tables = (X[:400], y[:400], X[400:], y[400:])
    by_booster = unbiased_gain(model.booster_, *tables)
    np.testing.assert_array_equal(by_booster.importance, unbiased_gain(model, *tables).importance)


@pytest.mark.parametrize("weight", [{"scale_pos_weight": 3.0}, {"is_unbalance": True}, {"class_weight": "balanced"}])
def test_class_weights_are_those_of_the_model(weight: dict[str, Any]) -> None:
    X, targets = mixed_table()
    y = (targets["regression"] > 53.0).astype(int)
    model = fit(lightgbm.LGBMClassifier, X, y, **weight)
    weights = read_model(model).class_weight(y.astype(float), None)
    expected = {"scale_pos_weight": 3.0}.get(next(iter(weight)), (y == 0).sum() / (y == 1).sum())
    assert weights[1] / weights[0] == pytest.approx(expected)


def rare(n_rows: int = 4000) -> tuple[Any, Any]:
    """Numbers, and a class of one or two rows in a hundred."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    return X, (X[:, 0] + rng.logistic(size=n_rows) > 4.8).astype(int)


def same_trees(one: Any, other: Any) -> None:
    """Raise unless two models have the same splits and leaves."""
    trees, others = (model.booster_.trees_to_dataframe() for model in (one, other))
    assert trees["split_feature"].equals(others["split_feature"])
    np.testing.assert_allclose(trees["threshold"], others["threshold"])
    np.testing.assert_allclose(trees["value"], others["value"], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "weight",
    [
        {"class_weight": "balanced", "scale_pos_weight": 3.0},
        {"class_weight": {0: 2.0, 1: 5.0}, "is_unbalance": True},
        {"class_weight": {0: 2.0, 1: 5.0}},
        {"scale_pos_weight": 3.0},
        {"is_unbalance": True},
    ],
)
def test_class_weights_are_multiplied(weight: dict[str, Any]) -> None:
    X, targets = mixed_table(1200)
    X, y = numeric(X), (targets["regression"] > 53.0).astype(int)
    n_negative, n_positive = np.bincount(y[:600])
    by_class = np.ones(2)
    if weight.get("class_weight") == "balanced":
        by_class *= 300.0 / np.array([n_negative, n_positive])
    elif "class_weight" in weight:
        by_class *= [2.0, 5.0]
    by_class[1] *= weight.get("scale_pos_weight", 1.0)
    if "is_unbalance" in weight:
        by_class[1] *= n_negative / n_positive
    assert n_positive < n_negative
    tables = (X[:600], y[:600], X[600:], y[600:])
    # the start value knows sample weights and class_weight, but not the others, so there must be none
    model = fit(lightgbm.LGBMClassifier, *tables[:2], boost_from_average=False, **weight)
    weighted = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=6, boost_from_average=False, n_jobs=1, verbose=-1)
    weighted.fit(*tables[:2], sample_weight=by_class[y[:600]])
    same_trees(model, weighted)
    found = unbiased_gain(model, *tables)
    expected = unbiased_gain(
        weighted, *tables, sample_weight_train=by_class[y[:600]], sample_weight_val=by_class[y[600:]]
    )
    np.testing.assert_allclose(found.importance, expected.importance, rtol=1e-6)
    np.testing.assert_allclose(found.se, expected.se, rtol=1e-6)


def test_label_weights_say_nothing_of_numbers_and_of_three_classes() -> None:
    X, targets = mixed_table(1000)
    X = numeric(X)
    for cls, y in (
        (lightgbm.LGBMRegressor, targets["regression"]),
        (lightgbm.LGBMRegressor, targets["numbers"]),
        (lightgbm.LGBMClassifier, np.minimum(targets["multiclass"], 2)),
    ):
        tables = (X[:500], y[:500], X[500:], y[500:])
        plain = fit(cls, *tables[:2])
        for weight in ({"is_unbalance": True}, {"scale_pos_weight": 3.0}):
            weighted = fit(cls, *tables[:2], **weight)
            same_trees(weighted, plain)
            found, expected = (unbiased_gain(model, *tables) for model in (weighted, plain))
            np.testing.assert_array_equal(found.importance, expected.importance)
            np.testing.assert_array_equal(found.se, expected.se)


@pytest.mark.parametrize("weight", [{"is_unbalance": True}, {"scale_pos_weight": 3.0}])
def test_label_weights_of_one_class_against_the_rest_are_refused(weight: dict[str, Any]) -> None:
    X, targets = mixed_table()
    model = fit(lightgbm.LGBMClassifier, numeric(X), targets["multiclass"], objective="multiclassova", **weight)
    with pytest.raises(UnsupportedModelError, match="multiclassova with is_unbalance"):
        read_model(model)


@pytest.mark.parametrize(
    "options",
    [
        {"scale_pos_weight": 100.0},
        {"is_unbalance": True},
        {"scale_pos_weight": 100.0, "class_weight": {0: 2.0, 1: 5.0}},
        {"scale_pos_weight": 100.0, "sigmoid": 2.0},
        {"scale_pos_weight": 100.0, "learning_rate": 1.0},
        {"scale_pos_weight": 100.0, "subsample": 0.5, "subsample_freq": 1},
    ],
)
def test_label_weights_leave_the_start_value_alone(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    X, y = rare()
    tables = (X[:2000], y[:2000], X[2000:], y[2000:])
    assert 0.01 < y[:2000].mean() < 0.02
    starts = []
    walk = gain.walk
    monkeypatch.setattr(
        gain,
        "walk",
        lambda *given: starts.extend(p.raw.copy() for p in (*given[2].train, *given[2].held)) or walk(*given),
    )
    unbiased_gain(fit(lightgbm.LGBMClassifier, *tables[:2], **options), *tables)
    # LightGBM's own: that of a model that finds no split
    empty = fit(lightgbm.LGBMClassifier, *tables[:2], **options, min_child_samples=2000)
    own = empty.booster_.predict(X[:1], raw_score=True)[0]
    weight = np.where(y[:2000] == 1, 5.0, 2.0) if "class_weight" in options else None
    share = np.average(y[:2000], weights=weight)
    assert own == pytest.approx(np.log(share / (1.0 - share)) / options.get("sigmoid", 1.0))
    for start in starts:
        np.testing.assert_allclose(start, own)
    assert len(starts) == 2


@pytest.mark.parametrize("learning_rate", [1.0, 0.1])
def test_an_objective_of_one_s_own_begins_at_zero(learning_rate: float) -> None:
    X, targets = mixed_table(1000)
    X, y = numeric(X), targets["regression"]
    tables = (X[:500], y[:500], X[500:], y[500:])
    own = fit(
        lightgbm.LGBMRegressor,
        *tables[:2],
        objective=lambda y, raw: (raw - y, np.ones(len(y))),
        learning_rate=learning_rate,
    )
    plain = fit(lightgbm.LGBMRegressor, *tables[:2], boost_from_average=False, learning_rate=learning_rate)
    same_trees(own, plain)
    np.testing.assert_array_equal(read_model(own, SquaredError()).bind(X, 1).base(), 0.0)
    found = unbiased_gain(own, *tables, loss=SquaredError())
    np.testing.assert_allclose(found.importance, unbiased_gain(plain, *tables).importance)


def test_objectives() -> None:
    X, targets = mixed_table()
    names = {
        "regression_l1": "absolute_error",
        "huber": "fixed_huber",
        "quantile": "quantile",
        "poisson": "poisson",
        "gamma": "gamma",
        "tweedie": "tweedie",
        "cross_entropy": "log_loss",
    }
    for objective, name in names.items():
        y = targets["positive"] if objective != "cross_entropy" else targets["numbers"]
        tree_model = read_model(fit(lightgbm.LGBMRegressor, X, y, objective=objective, alpha=0.3))
        assert tree_model.loss.name == name
        check_additive(tree_model, X)
    assert read_model(fit(lightgbm.LGBMRegressor, X, y, objective="quantile", alpha=0.3)).loss.level == 0.3
    scaled = read_model(fit(lightgbm.LGBMClassifier, X, targets["numbers"], sigmoid=2.0))
    assert scaled.loss.scale == 2.0


def test_unknown_objectives_ask_for_a_loss() -> None:
    X, targets = mixed_table()
    model = fit(lightgbm.LGBMRegressor, X, targets["positive"], objective="mape")
    with pytest.raises(UnsupportedModelError, match=r"'mape'.*Pass loss="):
        read_model(model)
    assert read_model(model, SquaredError()).loss.name == "squared_error"


def test_linear_leaves_are_refused() -> None:
    X, targets = mixed_table()
    model = fit(lightgbm.LGBMRegressor, numeric(X), targets["regression"], linear_tree=True)
    with pytest.raises(UnsupportedModelError, match="linear"):
        read_model(model)


def test_a_ranker_with_a_given_loss() -> None:
    X, targets = mixed_table()
    y = targets["numbers"]
    ranker = lightgbm.LGBMRanker(n_estimators=10, num_leaves=6, verbose=-1, n_jobs=1).fit(
        X[:400], y[:400], group=[40] * 10
    )
    tables = (X[:400], y[:400], X[400:], y[400:])
    with pytest.raises(UnsupportedModelError, match="lambdarank"):
        unbiased_gain(ranker, *tables)
    result = unbiased_gain(ranker, *tables, loss=LogLoss().gradients)
    assert result.p_value[0] < 1e-3
