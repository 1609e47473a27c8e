"""Unbiased gain over distributed rows is that of a local call, to the bit."""

import dataclasses

import numpy as np
import pytest
from cluster_data import CUTS, UGLY, cut, frame, numbers, pair
from sklearn.ensemble import HistGradientBoostingRegressor

from unbiasedgbm import unbiased_gain as local_gain
from unbiasedgbm.distributed import unbiased_gain


def assert_equal_results(one, other):
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "groups" and a is not None:
            assert_equal_results(a, b)
        elif isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        else:
            assert a == b, field.name


def compare(model, X, y, other, target, weight=None, **options):
    weights, cuts = {}, {}
    if weight is not None:
        weights = {"sample_weight_train": weight}
        cuts = {"sample_weight_train": cut(weight, UGLY)}
    held = (0, 150, 1, len(target) - 151)
    expected = local_gain(model, X, y, other, target, **weights, **options)
    found = unbiased_gain(model, cut(X, UGLY), cut(y, UGLY), cut(other, held), cut(target, held), **cuts, **options)
    assert (expected.importance != 0).sum() > 1
    assert_equal_results(expected, found)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", ["regression", "huber", "binary", "multiclass"])
def test_our_models(client, task, weighted):
    X, y = numbers()
    other, target = numbers(300, seed=4)
    weight = np.random.default_rng(0).random(len(y)) if weighted else None
    kind = "classifier" if task in ("binary", "multiclass") else "regressor"
    options = {"binary": {"class_weight": "balanced"}, "huber": {"loss": "huber"}}.get(task, {})
    if kind == "classifier":
        cuts = [0.3] if task == "binary" else [-1, 1]
        y, target = np.digitize(y, cuts), np.digitize(target, cuts)
    model = pair(kind, min_split_gain=-np.inf, **options)[0].fit(X, y, weight)
    compare(model, X, y, other, target, weight, min_rows=3)


def test_frames_and_groups(client):
    table, y = frame()
    other, target = frame(300, 4)
    local, remote = pair("regressor", min_split_gain=-np.inf)
    remote.fit(cut(table, CUTS["two"]), cut(y, CUTS["two"]))
    groups = {"words": ["town", "code"], "numbers": ["a", "b", "c"]}
    compare(remote.to_local(), table, y, other, target, min_rows=2, groups=groups, level=0.9)
    held = (0, 300)
    of_remote = unbiased_gain(remote, cut(table, UGLY), cut(y, UGLY), cut(other, held), cut(target, held))
    assert_equal_results(local_gain(local.fit(table, y), table, y, other, target), of_remote)


def test_models_of_others(client):
    X, y = numbers()
    other, target = numbers(300, seed=4)
    model = HistGradientBoostingRegressor(max_iter=10, min_samples_leaf=5).fit(X, y)
    compare(model, X, y, other, target)


def test_no_rows(client):
    X, y = numbers()
    model = pair("regressor")[0].fit(X, y)
    with pytest.raises(ValueError, match="X_val has no rows"):
        unbiased_gain(model, cut(X, UGLY), cut(y, UGLY), cut(X[:0], (0, 0)), cut(y[:0], (0, 0)))


@pytest.mark.parametrize("missing", ["X_train", "y_train", "X_val", "y_val"])
def test_rows_that_are_not_given(missing):
    """They are refused before anything is placed."""
    X, y = numbers()
    given = {"X_train": cut(X, UGLY), "y_train": cut(y, UGLY), "X_val": cut(X, UGLY), "y_val": cut(y, UGLY)}
    with pytest.raises(ValueError, match=f"{missing} must be a collection of all rows, got None"):
        unbiased_gain(pair("regressor")[0].fit(X, y), **{**given, missing: None})


@pytest.mark.parametrize("name", ["sample_weight_train", "sample_weight_val"])
def test_no_weight(client, name):
    X, y = numbers()
    model, rows = pair("regressor")[0].fit(X, y), (cut(X, UGLY), cut(y, UGLY))
    with pytest.raises(ValueError, match=f"{name} must be finite, not negative and not all zero"):
        unbiased_gain(model, *rows, *rows, **{name: cut(0 * y, UGLY)})
    with pytest.raises(ValueError, match=f"{name} must be finite, not negative and not all zero"):
        local_gain(model, X, y, X, y, **{name: 0 * y})


def test_targets_of_other_lengths(client):
    X, y = numbers()
    model = pair("regressor")[0].fit(X, y)
    held = cut(X, UGLY), cut(y, UGLY)
    with pytest.raises(ValueError, match="X_train has 120 rows but y_train has 0"):
        unbiased_gain(model, cut(X, (300, 120)), cut(y[:300], (300, 0)), *held)
    with pytest.raises(ValueError, match="X_val has no rows in a partition in which y_val has 120"):
        unbiased_gain(model, *held, cut(X[:300], (300, 0)), cut(y, (300, 120)))
