"""Bags: chains of trees side by side, whose mean is the model."""

import numpy as np
import pytest
from workbench import booster, mixed_table

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor, load_model, unbiased_gain
from unbiasedgbm.training.defaults import DEFAULT_BAGS

X, y = mixed_table(400, 0)
OPTIONS = {"n_estimators": 12, "n_jobs": 1, "categorical_features": [4, 5], "linear_start": False}


def test_default_is_three_for_evidence_and_one_for_the_paper():
    assert UnbiasedGBMRegressor(**OPTIONS).fit(X, y).ensemble_.n_trees == 36
    assert UnbiasedGBMRegressor(split_rule="merged", **OPTIONS).fit(X, y).ensemble_.n_trees == 12
    assert DEFAULT_BAGS["standard"] == 1


def test_raw_predictions_are_the_mean_of_the_bags():
    boosted = booster(X, y, categorical=[4, 5], split_rule="evidence", n_bags=3)
    for _ in range(5):
        boosted.rows.advance(boosted, boosted.iterate())
    bags = boosted.rows.bags
    np.testing.assert_allclose(boosted.rows.raw, np.mean(bags, axis=0), rtol=1e-12)
    # chains of their own, not three copies of one
    assert np.abs(bags[0] - bags[1]).max() > 0.01
    assert np.abs(bags[1] - bags[2]).max() > 0.01


def test_a_bag_goes_its_own_way():
    """The first tree of every bag is a tree from the start values, whatever the other bags did before it."""
    together = booster(X, y, split_rule="evidence", n_bags=3)
    first = together.iterate()
    assert all(tree.node["n_rows"][0] == 400 for tree in first)
    base = together.base[0]
    for bag, tree in zip(together.rows.bags, first, strict=True):
        values = np.unique(bag[:, 0])
        np.testing.assert_allclose(values, np.unique(base + 3 * tree.value[tree.node["left"] < 0]))


def test_importance_is_a_mean_over_bags():
    one, three = (UnbiasedGBMRegressor(n_bags=k, **OPTIONS).fit(X, y).feature_importances_ for k in (1, 3))
    assert 0.5 < three.sum() / one.sum() < 2


@pytest.mark.parametrize("kind", ["regression", "absolute", "multiclass"])
def test_going_on_equals_one_go(kind, tmp_path):
    if kind == "multiclass":
        make, target = UnbiasedGBMClassifier, np.digitize(y, [0.5, 1.5])
        options = OPTIONS
    else:
        make, target = UnbiasedGBMRegressor, y
        options = {**OPTIONS, "loss": "absolute_error" if kind == "absolute" else "squared_error"}
    whole = make(**options).fit(X, target)
    half = make(**{**options, "n_estimators": 5}).fit(X, target)
    half.save_model(tmp_path / "half.json")
    for start in (half, load_model(tmp_path / "half.json")):
        more = make(**options).fit(X, target, init_model=start)
        np.testing.assert_array_equal(more.ensemble_.value, whole.ensemble_.value)
        np.testing.assert_array_equal(more.predict(X), whole.predict(X))


def test_going_on_with_other_bags_is_refused():
    half = UnbiasedGBMRegressor(n_bags=2, **{**OPTIONS, "n_estimators": 2}).fit(X, y)
    with pytest.raises(ValueError, match="n_bags must be 2"):
        UnbiasedGBMRegressor(**OPTIONS).fit(X, y, init_model=half)


def test_staged_predictions_count_iterations_not_trees():
    model = UnbiasedGBMRegressor(**OPTIONS).fit(X, y)
    staged = list(model.staged_predict(X))
    assert len(staged) == 12
    np.testing.assert_array_equal(staged[3], model.predict(X, n_iterations=4))
    assert model.apply(X).shape == (400, 36)


def test_unbiased_gain_of_bags():
    model = UnbiasedGBMRegressor(**OPTIONS).fit(X[:300], y[:300])
    gain = unbiased_gain(model, X[:300], y[:300], X[300:], y[300:])
    # by iterations: 36 trees of share 1/3 explain what 12 trees do
    single = UnbiasedGBMRegressor(n_bags=1, **OPTIONS).fit(X[:300], y[:300])
    alone = unbiased_gain(single, X[:300], y[:300], X[300:], y[300:])
    assert 0.7 < gain.importance[0] / alone.importance[0] < 1.4
