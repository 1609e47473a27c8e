"""Tables that are tiny, flat, empty of information, very wide, or very large in their numbers."""

import numpy as np
import pandas as pd
import pytest
from workbench import ALL_RULES, booster

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.losses import MulticlassLogLoss

FAST = {"n_estimators": 5, "n_jobs": 1}


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 11])
def test_few_rows(rule, n):
    X, y = np.arange(n * 2.0).reshape(n, 2), np.arange(n * 1.0)
    model = UnbiasedGBMRegressor(split_rule=rule, **FAST).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    if n > 1:
        proba = UnbiasedGBMClassifier(split_rule=rule, **FAST).fit(X, np.arange(n) % 2).predict_proba(X)
        assert np.isfinite(proba).all()


def test_five_rows_can_be_learned():
    X, y = np.arange(5.0)[:, None], np.array([0.0, 0.0, 0.0, 9.0, 9.0])
    model = UnbiasedGBMRegressor(n_estimators=300, learning_rate=0.3, min_samples_leaf=1, n_jobs=1).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=0.01)


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("column", ["constant", "missing", "infinite", "constant and missing"])
def test_columns_without_information(rule, column):
    rng = np.random.default_rng(0)
    values = {
        "constant": np.full(200, 3.0),
        "missing": np.full(200, np.nan),
        "infinite": np.where(np.arange(200) % 2, np.inf, -np.inf),
        "constant and missing": np.where(np.arange(200) % 2, 7.0, np.nan),
    }[column]
    x = rng.normal(size=200)
    y = x + rng.normal(size=200) * 0.1
    alone = UnbiasedGBMRegressor(split_rule=rule, **FAST).fit(values[:, None], y)
    assert np.isfinite(alone.predict(values[:, None])).all()
    X = np.column_stack([values, x])
    model = UnbiasedGBMRegressor(split_rule=rule, n_estimators=50, learning_rate=0.2, n_jobs=1).fit(X, y)
    assert model.score(X, y) > 0.8


def test_categories_without_information():
    frame = pd.DataFrame({"one": ["a"] * 100, "none": pd.Series([None] * 100, dtype="object"), "x": np.arange(100.0)})
    model = UnbiasedGBMRegressor(**FAST).fit(frame, np.arange(100.0))
    assert model.feature_importances_[:2].tolist() == [0, 0]
    assert model.feature_importances_[2] > 0
    assert np.isfinite(model.predict(frame)).all()


@pytest.mark.parametrize("rule", ALL_RULES)
def test_constant_target(rule):
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = UnbiasedGBMRegressor(split_rule=rule, n_estimators=100, n_jobs=1).fit(X, np.full(200, 4.5))
    np.testing.assert_array_equal(model.predict(X), 4.5)


def test_twenty_thousand_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 20_000)).astype(np.float32)
    y = 5 * X[:, 12_345] + rng.normal(size=120) * 0.1
    model = UnbiasedGBMRegressor(n_estimators=3, n_jobs=2).fit(X, y)
    assert model.feature_importances_.argmax() == 12_345
    assert model.predict(X).shape == (120,)


def test_one_column():
    x = np.linspace(0, 10, 500)
    model = UnbiasedGBMRegressor(n_estimators=100, learning_rate=0.2, n_jobs=1).fit(x[:, None], np.sin(x))
    assert model.score(x[:, None], np.sin(x)) > 0.97


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_features_of_any_size(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + rng.normal(size=300) * 0.1
    plain = UnbiasedGBMRegressor(**FAST).fit(X, y)
    scaled = UnbiasedGBMRegressor(**FAST).fit(X * scale, y)
    np.testing.assert_allclose(scaled.predict(X * scale), plain.predict(X))


@pytest.mark.parametrize("scale", [1e-35, 1e-10, 1e10, 1e35])
def test_targets_of_any_size(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) * 0.1) * scale
    model = UnbiasedGBMRegressor(n_estimators=60, learning_rate=0.2, n_jobs=1).fit(X, y)
    # far from underflow of the score's squares
    assert model.score(X / 1.0, y) > 0.9 or scale < 1e-30
    assert np.corrcoef(model.predict(X) / scale, y / scale)[0, 1] > 0.95


@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_targets_far_from_zero(offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + rng.normal(size=300) * 0.1
    model = UnbiasedGBMRegressor(n_estimators=60, learning_rate=0.2, n_jobs=1).fit(X, y + offset)
    assert model.score(X, y + offset) > 0.9


def test_separable_classes_stay_finite():
    x = np.linspace(-1, 1, 200)[:, None]
    model = UnbiasedGBMClassifier(n_estimators=500, learning_rate=1.0, split_rule="standard", reg_lambda=0.0, n_jobs=1)
    model.fit(x, (x[:, 0] > 0).astype(int))
    assert np.isfinite(model.decision_function(x)).all()
    assert model.score(x, (x[:, 0] > 0).astype(int)) == 1.0


def test_rare_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = np.zeros(2000, int)
    y[:3] = 1
    proba = UnbiasedGBMClassifier(**FAST).fit(X, y).predict_proba(X)
    assert np.isfinite(proba).all()
    assert proba[:, 1].mean() == pytest.approx(0.0015, abs=0.003)


@pytest.mark.parametrize("rule", ["standard", "evidence"])
@pytest.mark.parametrize("learning_rate", [0.1, 0.3, 1.0])
def test_fifty_classes(rule, learning_rate):
    """Hessians are small, and Newton steps long: they must not swing to and fro."""
    rng = np.random.default_rng(0)
    c = rng.integers(0, 50, 1500)
    X = np.column_stack([c + rng.normal(size=1500) * 0.1, rng.normal(size=1500)])
    model = UnbiasedGBMClassifier(n_estimators=20, learning_rate=learning_rate, split_rule=rule, n_jobs=1).fit(X, c)
    assert model.score(X, c) > 0.85


def test_classes_that_are_told_apart_for_sure():
    """Nothing is left to learn: sums of hessians are zero in fixed point, hessians are not."""
    c = np.arange(300) % 3
    boosted = booster(c[:, None] + 0.5, c.astype(float), loss=MulticlassLogLoss(3), split_rule="evidence")
    for certainty in (40.0, 80.0, 700.0):
        boosted.rows.raw[:] = certainty * (np.arange(3) == c[:, None])
        for tree in boosted.iterate():
            assert np.isfinite(tree.value).all()
            assert np.abs(tree.value).max() < 0.5


@pytest.mark.parametrize("rule", ALL_RULES)
def test_a_constant_target_grows_no_tree(rule):
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = UnbiasedGBMRegressor(split_rule=rule, n_estimators=100, n_jobs=1).fit(X, np.full(200, 3.0))
    assert (model.ensemble_.feature == -1).all()
    assert model.n_iter_ < 100
    np.testing.assert_array_equal(model.predict(X), 3.0)
