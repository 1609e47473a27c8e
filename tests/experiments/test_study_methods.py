"""The methods: every one fits every task, in its library's own way, from the paper's search space."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from experiments.catalogue import TableSource
from experiments.methods import METHODS, RIVALS, get_method
from experiments.methods.hist_gradient_boosting import LEVEL_LIMIT
from experiments.metrics import measure
from experiments.splits import untuned_parts
from experiments.studies.bench import Bench, evaluate
from experiments.studies.tuned import chains, suggest

OURS = [name for name, method in METHODS.items() if method.package == "unbiasedgbm"]


@pytest.mark.parametrize("method", RIVALS)
@pytest.mark.parametrize("name", ["numbers", "categories", "categories@raw"])
def test_rivals_beat_the_mean_on_both_tables(generated, method, name):
    table = TableSource(str(generated.folder), str(generated.catalogue)).load(name)
    columns, model = evaluate(method, table.task, untuned_parts(table, 0), {}, seed=0, threads=1)
    if table.task == "binary":
        assert columns["test_auc"] > 0.6
        assert set(columns) >= {"test_log_loss", "test_calibration_error", "fit_seconds", "versions"}
    else:
        assert columns["test_rmse"] < np.std(table.y)
    assert not any(name.startswith("valid") for name in columns)
    assert model.predict(table.X).shape == (len(table),)


@pytest.mark.parametrize("method", RIVALS)
def test_rivals_predict_a_probability_for_every_class(method):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    y = np.digitize(X["a"], [-0.5, 0.5])
    p = get_method(method).fit("multiclass", X, y, {}, seed=0, threads=1).predict(X)
    assert p.shape == (120, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-5)
    assert measure("multiclass", y, p)["log_loss"] < np.log(3)


@pytest.mark.parametrize("method", RIVALS)
def test_a_fit_is_decided_by_its_seed(generated, method):
    table = TableSource(str(generated.folder), str(generated.catalogue)).load("categories")
    parts = untuned_parts(table, 0)
    one, two = (evaluate(method, table.task, parts, {}, seed=1, threads=1)[0]["test_auc"] for _ in range(2))
    assert one == two


@pytest.mark.parametrize("method", OURS)
def test_our_variants_fit_binary_tables_and_tell_their_state(generated, method):
    table = TableSource(str(generated.folder), str(generated.catalogue)).load("categories")
    columns, model = evaluate(method, table.task, untuned_parts(table, 0), {}, seed=0, threads=1)
    assert columns["test_auc"] > 0.6
    assert re.fullmatch(r".+\+[0-9a-f]{8}", columns["versions"]["unbiasedgbm"])
    params = model.estimator.get_params()
    assert {name: params[name] for name in METHODS[method].fixed} == METHODS[method].fixed


def test_our_parameters_can_be_set_from_outside():
    estimator = get_method("merged").estimator("regression", {"num_leaves": 7, "split_rule": "standard"}, 3, 1)
    params = estimator.get_params()
    assert [params[name] for name in ("num_leaves", "split_rule", "random_state", "n_jobs")] == [7, "standard", 3, 1]


def test_categories_are_handed_over_natively():
    X = pd.DataFrame(
        {
            "[a]": pd.Categorical(["x", None, "y"]),
            "wide": pd.Categorical.from_codes([0, -1, 2], [f"l{index}" for index in range(LEVEL_LIMIT + 1)]),
            "n": [1.0, 2.0, 3.0],
        }
    )
    catboost = get_method("catboost").columns(X)
    assert catboost["[a]"].to_list() == ["x", "missing", "y"]
    assert get_method("catboost").fit_arguments(catboost) == {"cat_features": ["[a]", "wide"]}
    assert list(get_method("lightgbm").columns(X)) == list(get_method("xgboost").columns(X)) == ["f0", "f1", "f2"]
    hist = get_method("hist_gradient_boosting").columns(X)
    assert isinstance(hist["[a]"].dtype, pd.CategoricalDtype)
    np.testing.assert_array_equal(hist["wide"], [0.0, np.nan, 2.0])
    assert get_method("chimeraboost").fit_arguments(X) == {"cat_features": ["[a]", "wide"]}


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.tuned])
def test_search_spaces_are_the_papers(method):
    import optuna

    recorder = optuna.create_study().ask()
    METHODS[method].suggest(recorder, "medium")
    space = {name: (kind.low, kind.high, kind.log) for name, kind in recorder.distributions.items()}
    assert space.pop("n_estimators") == (200, 6000, True)
    assert space.pop("learning_rate") == (0.005, 0.05, True)
    expected = {
        "xgboost": {"min_child_weight": (2, 20, True), "gamma": (0, 0.1, False)},
        "lightgbm": {"min_child_weight": (2, 20, True), "min_split_gain": (0, 0.1, False)},
        "catboost": {"min_data_in_leaf": (2, 20, True), "l2_leaf_reg": (0, 0.1, False)},
    }
    ours = {"min_samples_leaf": (2, 20, True), "min_split_gain": (-0.1, 0.1, False)}
    assert space == expected.get(method, ours)


def test_a_tuning_iteration_depends_on_its_rows_alone(generated):
    source = TableSource(str(generated.folder), str(generated.catalogue))
    (chain,) = chains({"numbers": source.entry("numbers")}, ["lightgbm"], seeds=1, iterations=15, max_rows=None)
    rng = np.random.default_rng(0)
    history: list[dict] = []
    for number in range(15):
        params = suggest(chain.job(number), history, "small", "auc")
        assert params == suggest(chain.job(number), history, "small", "auc")
        history.append({"params": params, "valid_auc": rng.random()})
    assert len({row["params"]["learning_rate"] for row in history}) == 15
    flipped = [{**row, "valid_auc": -row["valid_auc"]} for row in history]
    job = chain.job(15)
    assert suggest(job, history, "small", "auc") != suggest(job, flipped, "small", "auc")


def test_only_methods_with_a_search_space_can_be_tuned(generated):
    with pytest.raises(ValueError, match="perpetual"):
        chains({}, ["perpetual"], 1, 1, None)
    with pytest.raises(KeyError, match="there are"):
        get_method("unknown")
    assert Bench().threads == 1


@pytest.mark.parametrize("name", ["separate_111", "separate_411"])
def test_a_small_role_limits_what_leaves_may_be_drawn(name):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 3)))
    y = (X[0] > 0).to_numpy().astype(float)
    fitted = get_method(name).fit("binary", X, y, {"min_samples_leaf": 20, "n_estimators": 2}, seed=0, threads=1)
    assert fitted.estimator.min_samples_leaf == (10 if name == "separate_111" else 5)
