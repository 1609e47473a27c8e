"""The model file of a distributed fit is that of a local one, byte for byte, for any partitioning."""

from functools import partial

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cluster_data import CUTS, UGLY, N, as_array, assert_same_file, cut, frame, numbers, pair, set_quick, set_shelf


def fit_both(kind, X, y, cuts, weight=None, **parameters):
    local, remote = pair(kind, **parameters)
    local.fit(X, y, weight)
    remote.fit(cut(X, cuts), cut(y, cuts), None if weight is None else cut(weight, cuts))
    return local, remote


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_partitions(client, tmp_path, task, cuts):
    X, y = numbers()
    kind = "regressor" if task == "regression" else "classifier"
    y = {"regression": y, "binary": np.where(y > 0, "yes", "no"), "multiclass": np.digitize(y, [-1, 1])}[task]
    assert_same_file(*fit_both(kind, X, y, cuts), tmp_path)


@pytest.mark.parametrize("cuts", [CUTS["two"], CUTS["seven"], UGLY], ids=["two", "seven", "ugly"])
def test_categories(client, tmp_path, cuts):
    table, y = frame()
    local, remote = fit_both("regressor", table, y, cuts)
    assert_same_file(local, remote, tmp_path)
    assert local._model.schema.categories[3] == tuple("opqrstuvwxyz")


def test_many_levels_in_several_columns(client, tmp_path):
    """Together more than any one column may have."""
    n = 46_000
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.permutation(n) for name in "abc"} | {"x": rng.normal(size=n)})
    y = table["x"].to_numpy() + table["a"].to_numpy() % 7
    options = {"categorical_features": list("abc"), "n_estimators": 1, "n_bags": 1, "num_leaves": 4}
    assert_same_file(*fit_both("regressor", table, y, (n // 2, n - n // 2), **options), tmp_path)


def test_true_and_one_are_one_level(client, tmp_path):
    table = pd.DataFrame({"a": pd.Series([True, False] * 100 + [1, 2, None, 0] * 55, dtype=object)})
    table["b"] = np.arange(N) % 17
    y = np.where(table["a"] == 2, 3.0, 0.0) + table["b"].to_numpy() / 9
    local, remote = fit_both("regressor", table, y, (200, 220), categorical_features=["a"])
    assert_same_file(local, remote, tmp_path)
    assert repr(remote._model.schema.categories[0]) == "(0, 1, 2)"


@pytest.mark.parametrize("weights", [None, "whole", "fractions"])
def test_a_line_from_a_sample(client, tmp_path, weights):
    n = 25_000
    X, y = numbers(n, 4)
    rng = np.random.default_rng(5)
    weight = {None: None, "whole": rng.integers(0, 4, n) * 1.0, "fractions": rng.random(n)}[weights]
    local, remote = fit_both("regressor", X, y, (9_000, 0, 1, 15_999), weight, n_estimators=1, n_bags=1)
    assert local._model.progress.n_line == 4
    assert_same_file(local, remote, tmp_path)


def test_a_bonus_by_rows(client, tmp_path):
    X, y = numbers(9_000, 6)
    local, remote = fit_both("regressor", X, y, (5_000, 1, 3_999), n_estimators=9, n_bags=1, linear_start=False)
    assert_same_file(local, remote, tmp_path)


@pytest.mark.parametrize("role_draw", ["tree", "node"])
def test_roots_on_trial(client, tmp_path, role_draw):
    # features that act together: some trials are kept, others taken back
    X = np.random.default_rng(0).integers(0, 2, (1000, 5)).astype(float)
    y = (X[:, 0] != X[:, 1]).astype(int)
    local, remote = fit_both("classifier", X, y, (400, 0, 600), n_estimators=12, role_draw=role_draw)
    sizes = np.diff(local.ensemble_.tree_start)
    assert (sizes == 1).any()
    assert (sizes > 3).any()
    assert_same_file(local, remote, tmp_path)


LOSSES = {
    "squared_error": {},
    "absolute_error": {},
    "huber": {"huber_quantile": 0.7},
    "quantile": {"quantile": 0.8},
    "poisson": {},
    "gamma": {},
    "tweedie": {},
    "custom": {},
}


def _gradients(y, raw):
    return np.tanh(raw - y), 1.0 - 0.5 * np.tanh(raw - y) ** 2


def _values(y, raw):
    return np.log(np.cosh(raw - y))


@pytest.mark.parametrize("weights", [None, "whole", "fractions"])
@pytest.mark.parametrize("loss", LOSSES)
def test_losses(client, tmp_path, loss, weights):
    X, y = numbers()
    y = np.exp(y / 2) if loss in ("poisson", "gamma", "tweedie") else np.round(y, 1)
    rng = np.random.default_rng(5)
    weight = {None: None, "whole": rng.integers(0, 4, N) * 1.0, "fractions": rng.random(N) * (rng.random(N) < 0.9)}
    options = {"loss": (_gradients, _values) if loss == "custom" else loss, **LOSSES[loss]}
    local, remote = fit_both("regressor", X, y, UGLY, weight[weights], **options)
    assert_same_file(local, remote, tmp_path)


@pytest.mark.parametrize("unit", [1e-4, 1000.0])
@pytest.mark.parametrize("weights", ["alike", "whole", "fractions"])
def test_units_of_weights(client, tmp_path, weights, unit):
    X, y = numbers()
    rng = np.random.default_rng(5)
    weight = {"alike": np.ones(N), "whole": rng.integers(1, 5, N) * 1.0, "fractions": rng.random(N)}[weights]
    local, remote = fit_both("classifier", X, y > 0.5, UGLY, weight * unit, early_stopping=weights == "whole")
    assert_same_file(local, remote, tmp_path)


PARAMETERS = {
    "class weights": ("classifier", {"class_weight": "balanced"}),
    "class weights by hand": ("classifier", {"class_weight": {0: 3.5, 2: 0.5}}),
    "large class weights, another rule": ("classifier", {"class_weight": {0: 350, 2: 50}, "split_rule": "merged"}),
    "large class weights": ("classifier", {"class_weight": {0: 350, 2: 50}}),
    "early stopping": ("classifier", {"early_stopping": True, "n_estimators": 20, "n_iter_no_change": 3}),
    "early stopping, regression": ("regressor", {"early_stopping": True, "validation_fraction": 0.3}),
    "early stopping, number of rows": ("classifier", {"early_stopping": True, "validation_fraction": 20}),
    "early stopping, training rows": (
        "classifier",
        {"early_stopping": True, "validation_fraction": None, "tol": 0.3, "n_iter_no_change": 2, "n_estimators": 20},
    ),
    "early stopping, huber": ("regressor", {"early_stopping": True, "loss": "huber"}),
    "other metrics": ("classifier", {"early_stopping": True, "scoring": ["roc_auc_ovr", "loss"]}),
    "training metrics": ("regressor", {"verbose": 100}),
    "sampling": ("regressor", {"subsample": 0.6, "colsample_bytree": 0.6, "colsample_bynode": 0.7}),
    "roles by node": ("regressor", {"role_draw": "node", "subsample": 0.8}),
    "roles by fit": ("regressor", {"role_draw": "fit", "split_rule": "separate", "role_ratio": (2, 1, 1)}),
    "standard": ("classifier", {"split_rule": "standard", "min_split_gain": -np.inf}),
    "merged": ("classifier", {"split_rule": "merged"}),
    "without se": ("classifier", {"split_rule": "without_se", "num_leaves": 31}),
    "without ub": ("regressor", {"split_rule": "without_ub", "max_depth": 2}),
    "monotone": ("regressor", {"monotonic_cst": [1, 0, 0, 0, -1]}),
    "interactions": ("regressor", {"interaction_cst": [[0, 1], [2, 3]]}),
    "threads": ("regressor", {"n_jobs": 2}),
    "all_threads": ("regressor", {"n_jobs": -1}),
    "few rows": ("regressor", {"min_samples_leaf": 60}),
    "seed": ("classifier", {"random_state": 77, "early_stopping": True}),
}


@pytest.mark.parametrize(("kind", "options"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters(client, tmp_path, kind, options):
    X, y = numbers()
    y = np.digitize(y, [-1, 1]) if kind == "classifier" else y
    assert_same_file(*fit_both(kind, X, y, UGLY, **options), tmp_path)


def test_early_stopping_with_weights(client, tmp_path):
    X, y = numbers()
    weight = np.random.default_rng(3).random(N)
    options = {"early_stopping": True, "class_weight": "balanced", "scoring": ["loss", "accuracy"]}
    assert_same_file(*fit_both("classifier", X, y > 0.5, UGLY, weight, **options), tmp_path)


@pytest.mark.parametrize("weighted", [False, True])
def test_validation_rows(client, tmp_path, weighted):
    table, y = frame()
    other, target = frame(200, 9)
    other.loc[3, "town"] = "unseen"
    weight = np.random.default_rng(3).random(200) if weighted else None
    local, remote = pair("regressor", n_estimators=30, n_iter_no_change=4)
    local.fit(table, y, X_val=other, y_val=target, sample_weight_val=weight)
    cuts = (0, 150, 50)
    remote.fit(
        cut(table, UGLY), cut(y, UGLY), X_val=cut(other, cuts), y_val=cut(target, cuts),
        sample_weight_val=None if weight is None else cut(weight, cuts),
    )  # fmt: skip
    assert len(local.history_["validation"]["loss"]) > 3
    assert_same_file(local, remote, tmp_path)


def test_going_on(client, tmp_path):
    """A distributed fit goes on from a local one, by init_model, and from itself, by warm_start."""
    X, y = numbers()
    local, remote = pair("regressor", n_estimators=3)
    local.fit(X, y)
    remote.fit(cut(X, UGLY), cut(y, UGLY))
    start = pair("regressor", n_estimators=3)[0].fit(X, y)
    local.set_params(n_estimators=7, warm_start=True).fit(X, y)
    remote.set_params(n_estimators=7, warm_start=True).fit(cut(X, UGLY), cut(y, UGLY))
    assert_same_file(local, remote, tmp_path)
    other = pair("regressor", n_estimators=7, warm_start=True)[1]
    other.fit(cut(X, CUTS["two"]), cut(y, CUTS["two"]), init_model=start)
    assert_same_file(local, other, tmp_path)


def test_many_rows(client, tmp_path):
    """Beyond the sizes from which on bins come from a sample, rounding is stochastic and ties see some rows only."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(210_000, 3))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + rng.normal(size=len(X))
    local, remote = pair("regressor", n_estimators=3, num_leaves=31, early_stopping=True)
    local.fit(X, y)
    cuts = (70_001, 9, 0, 99_990, 40_000)
    remote.fit(as_array(X, cuts), as_array(y, cuts))
    assert_same_file(local, remote, tmp_path)


def test_many_leaves(client, tmp_path):
    """Trees that are far from balanced, and more leaves than are divided in one round."""
    X, y = numbers()
    options = {"num_leaves": 60, "min_samples_leaf": 1, "min_split_gain": -np.inf, "n_estimators": 4}
    assert_same_file(*fit_both("regressor", X, np.exp(2 * y), UGLY, **options), tmp_path)


class TestInputs:
    def test_arrays(self, client, tmp_path):
        X, y = numbers()
        local, remote = pair("classifier")
        local.fit(X, y > 0, np.ones(N))
        # columns in two chunks, and a target that is cut elsewhere
        remote.fit(as_array(X, UGLY).rechunk({1: 3}), as_array(y > 0, CUTS["two"]), as_array(np.ones(N), CUTS["seven"]))
        assert_same_file(local, remote, tmp_path)

    def test_frames(self, client, tmp_path):
        table, y = frame()
        table["y"] = y
        collection = dd.from_pandas(table, npartitions=3)
        local, remote = pair("regressor")
        local.fit(table.drop(columns="y"), table["y"])
        remote.fit(collection.drop(columns="y"), collection["y"])
        assert_same_file(local, remote, tmp_path)
        assert list(remote.feature_names_in_) == list(table.columns[:-1])

    def test_text_target(self, client, tmp_path):
        table, y = frame()
        table["y"] = np.where(y > 3, "much", "little")
        collection = dd.from_pandas(table, npartitions=2)
        local, remote = pair("classifier")
        local.fit(table.drop(columns="y"), table["y"])
        remote.fit(collection.drop(columns="y"), collection["y"])
        assert_same_file(local, remote, tmp_path)


@pytest.fixture
def short_shelf(client):
    """Lets leaders keep so many histograms; it must be used."""
    yield partial(client.run, set_shelf)
    assert sum(client.run(set_shelf, None).values()) > 0


@pytest.mark.parametrize("options", [{}, {"split_rule": "separate"}, {"n_bags": 6}, {"subsample": 0.7}], ids=str)
def test_histograms_that_had_to_go(short_shelf, tmp_path, options):
    """Those of nodes that were divided in advance are asked for again when their rows are sorted otherwise."""
    short_shelf(4)
    X, y = numbers()
    local, remote = fit_both("regressor", X, y, CUTS["two"], num_leaves=31, min_split_gain=-np.inf, **options)
    assert_same_file(local, remote, tmp_path)


@pytest.mark.parametrize("room", [4, 12, 25])
@pytest.mark.parametrize(
    "options",
    [{"monotonic_cst": [1, 0, 0, 0]}, {"interaction_cst": [[0, 1], [2, 3]]}, {"colsample_bynode": 0.5}],
    ids=lambda options: next(iter(options)),
)
def test_little_room_where_nothing_is_foreseen(short_shelf, tmp_path, options, room):
    """Splits that depend on a node's place are looked for when it is there, also where it was divided in advance."""
    short_shelf(room)
    X, y = numbers()
    X = X[:, :4]
    local, remote = fit_both("regressor", X, y, CUTS["two"], num_leaves=31, min_split_gain=-np.inf, **options)
    assert_same_file(local, remote, tmp_path)


@pytest.fixture
def patient(client):
    """A cluster whose stations answer in threads of their own, as those with many rows do."""
    previous = client.run(set_quick, 0)
    yield client
    for address, pairs in previous.items():
        client.run(set_quick, pairs, workers=[address])


@pytest.mark.parametrize("arity", [1, 2])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_stations_in_a_tree(client, tmp_path, monkeypatch, kind, arity):
    """Many stations are not asked one by one, but pass questions on and answers up."""
    monkeypatch.setattr("unbiasedgbm.distributed.crew._FLAT", 1)
    monkeypatch.setattr("unbiasedgbm.distributed.crew._ARITY", arity)
    X, y = numbers()
    local, remote = fit_both(kind, X, y > 0 if kind == "classifier" else y, CUTS["seven"])
    assert_same_file(local, remote, tmp_path)


@pytest.mark.parametrize("options", [{}, {"loss": "absolute_error"}, {"early_stopping": True}], ids=str)
def test_stations_with_threads_of_their_own(patient, tmp_path, options):
    X, y = numbers()
    local, remote = fit_both("regressor", X, y, CUTS["seven"], **options)
    assert_same_file(local, remote, tmp_path)
