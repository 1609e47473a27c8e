"""The order of columns, of category codes and of names has no say in the model."""

import numpy as np
import pandas as pd
import pytest
from workbench import ALL_RULES, mixed_table

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor


def with_copies(seed=0, n=400):
    """A table with columns that tie: many features of two values, so that equal splits abound."""
    rng = np.random.default_rng(seed)
    X, y = mixed_table(n, seed, n_levels=300)
    coins = rng.integers(0, 2, (n, 6)).astype(float)
    return np.column_stack([X, coins]), y


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("options", [{}, {"colsample_bytree": 0.5}, {"colsample_bynode": 0.5}], ids=str)
def test_permuting_columns(rule, options):
    X, y = with_copies()
    order = np.random.default_rng(1).permutation(X.shape[1])
    parameters = {"n_estimators": 15, "split_rule": rule, "min_split_gain": -2.0, "n_jobs": 1, **options}
    plain = UnbiasedGBMRegressor(categorical_features=[4, 5], **parameters).fit(X, y)
    places = [int(np.flatnonzero(order == j)[0]) for j in (4, 5)]
    moved = UnbiasedGBMRegressor(categorical_features=places, **parameters).fit(X[:, order], y)
    np.testing.assert_array_equal(moved.predict(X[:, order]), plain.predict(X))
    np.testing.assert_array_equal(moved.feature_importances_, plain.feature_importances_[order])
    assert (plain.ensemble_.left >= 0).sum() > 15


def test_columns_with_the_same_bins():
    # x, exp(x) and x³ have the same order, so the same bins, and every split of one ties with one of the others
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=400), rng.normal(size=400)
    y = x + z + rng.normal(size=400)
    X = np.column_stack([x, np.exp(x), z, x**3, z**3])
    fresh = rng.normal(size=(1000, 5))
    plain = UnbiasedGBMRegressor(n_estimators=10, n_jobs=1).fit(X, y)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(5)
        moved = UnbiasedGBMRegressor(n_estimators=10, n_jobs=1).fit(X[:, order], y)
        np.testing.assert_array_equal(moved.predict(fresh[:, order]), plain.predict(fresh))
        np.testing.assert_array_equal(moved.feature_importances_, plain.feature_importances_[order])


def test_multiclass():
    X, y = with_copies()
    c = np.digitize(y, [0, 2])
    order = np.random.default_rng(1).permutation(X.shape[1])
    plain = UnbiasedGBMClassifier(n_estimators=10, n_jobs=1).fit(X, c)
    moved = UnbiasedGBMClassifier(n_estimators=10, n_jobs=1).fit(X[:, order], c)
    np.testing.assert_array_equal(moved.predict_proba(X[:, order]), plain.predict_proba(X))
    np.testing.assert_array_equal(moved.feature_importances_, plain.feature_importances_[order])


def test_constraints_move_with_their_columns():
    X, y = with_copies()
    order = np.random.default_rng(1).permutation(X.shape[1])
    back = np.argsort(order)
    signs = np.zeros(X.shape[1], int)
    signs[[0, 3]] = [1, -1]
    groups = [[0, 1, 2], [3, 4, 5, 6], [0, 7, 8]]
    plain = UnbiasedGBMRegressor(n_estimators=10, monotonic_cst=signs, interaction_cst=groups, n_jobs=1).fit(X, y)
    moved = UnbiasedGBMRegressor(
        n_estimators=10,
        monotonic_cst=signs[order],
        interaction_cst=[[int(back[j]) for j in g] for g in groups],
        n_jobs=1,
    ).fit(X[:, order], y)
    np.testing.assert_array_equal(moved.predict(X[:, order]), plain.predict(X))


@pytest.mark.parametrize("rule", ["evidence", "standard"])
def test_code_order_of_categories_does_not_matter(rule):
    X, y = mixed_table(400, 2)
    letters = np.array([f"level {k:03d}" for k in range(300)])
    column = letters[np.nan_to_num(X[:, 5]).astype(int)]
    frames = []
    for seed in (None, 0):
        levels = letters if seed is None else np.random.default_rng(seed).permutation(letters)
        frames.append(pd.DataFrame({"a": X[:, 0], "c": pd.Categorical(column, categories=levels)}))
    models = [UnbiasedGBMRegressor(n_estimators=10, split_rule=rule, n_jobs=1).fit(frame, y) for frame in frames]
    np.testing.assert_array_equal(models[0].predict(frames[0]), models[1].predict(frames[1]))
    # and a model reads a table whose codes are in another order
    np.testing.assert_array_equal(models[0].predict(frames[1]), models[1].predict(frames[1]))
    assert models[0].feature_importances_[1] != 0


def test_shifting_and_scaling_a_column_by_powers_of_two():
    X, y = mixed_table(400, 2)
    X = X[:, :4]
    plain = UnbiasedGBMRegressor(n_estimators=10, n_jobs=1).fit(X, y)
    scaled = UnbiasedGBMRegressor(n_estimators=10, n_jobs=1).fit(X * 1024.0, y)
    np.testing.assert_array_equal(scaled.predict(X * 1024.0), plain.predict(X))


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("power", [-90, 90])
def test_scaling_the_target_by_a_power_of_two(rule, power):
    X, y = mixed_table(400, 2)
    options = {"n_estimators": 10, "split_rule": rule, "n_jobs": 1}
    plain = UnbiasedGBMRegressor(**options).fit(X, y)
    scaled = UnbiasedGBMRegressor(**options).fit(X, y * 2.0**power)
    np.testing.assert_array_equal(scaled.predict(X), plain.predict(X) * 2.0**power)
