import numpy as np
import pytest
from sklearn.metrics import log_loss
from workbench import ALL_RULES, mixed_table, same_trees

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor

LOSSES = ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie")


def target_for(loss, y):
    return np.exp(y / 2) if loss in ("poisson", "gamma", "tweedie") else y


@pytest.mark.parametrize("rule", ALL_RULES)
def test_weight_zero_is_absence(rule):
    X, y = mixed_table(500, 1)
    keep = np.random.default_rng(0).random(500) < 0.7
    # what weighs nothing may be anything
    X[~keep] *= 1000
    y[~keep] = 1e6
    options = {"n_estimators": 10, "split_rule": rule, "categorical_features": [4, 5], "n_jobs": 1}
    weighted = UnbiasedGBMRegressor(**options).fit(X, y, sample_weight=keep.astype(float))
    absent = UnbiasedGBMRegressor(**options).fit(X[keep], y[keep])
    assert same_trees(weighted.ensemble_, absent.ensemble_)
    np.testing.assert_array_equal(weighted.feature_importances_, absent.feature_importances_)


def test_weight_zero_hides_a_class_and_a_level():
    X, y = mixed_table(300, 1)
    c = np.digitize(y, [0, 2])
    weight = (c < 2).astype(float)
    model = UnbiasedGBMClassifier(n_estimators=5, n_jobs=1).fit(X, c, sample_weight=weight)
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n", [150, 1300])
def test_weight_two_is_the_row_twice(loss, n):
    X, y = mixed_table(n, 1)
    y = target_for(loss, y)
    weight = np.random.default_rng(0).integers(0, 4, n)
    options = {
        "loss": loss, "split_rule": "standard", "n_estimators": 15, "categorical_features": [4, 5], "n_jobs": 1,
        "max_bins": 20, "min_samples_leaf": 7,
    }  # fmt: skip
    weighted = UnbiasedGBMRegressor(**options).fit(X, y, sample_weight=weight)
    twice = UnbiasedGBMRegressor(**options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert (weighted.ensemble_.left >= 0).sum() > 15
    np.testing.assert_array_equal(weighted.ensemble_.feature, twice.ensemble_.feature)
    np.testing.assert_array_equal(weighted.ensemble_.threshold, twice.ensemble_.threshold)
    np.testing.assert_array_equal(weighted.predict(X), twice.predict(X))
    np.testing.assert_array_equal(weighted.feature_importances_, twice.feature_importances_)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weight_two_is_the_row_twice_for_classes(n_classes):
    X, y = mixed_table(700, 1)
    c = np.digitize(y, [0, 2][: n_classes - 1])
    weight = np.random.default_rng(0).integers(0, 4, 700)
    options = {"split_rule": "standard", "n_estimators": 10, "categorical_features": [4, 5], "n_jobs": 1}
    weighted = UnbiasedGBMClassifier(**options).fit(X, c, sample_weight=weight)
    twice = UnbiasedGBMClassifier(**options).fit(np.repeat(X, weight, axis=0), np.repeat(c, weight))
    np.testing.assert_array_equal(weighted.decision_function(X), twice.decision_function(X))


def test_weights_of_one_are_no_weights():
    X, y = mixed_table(400, 1)
    options = {"split_rule": "merged", "n_estimators": 10, "n_jobs": 1}
    plain = UnbiasedGBMRegressor(**options).fit(X, y)
    ones = UnbiasedGBMRegressor(**options).fit(X, y, sample_weight=np.ones(400))
    assert same_trees(plain.ensemble_, ones.ensemble_)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("rule", ALL_RULES)
def test_weights_of_one_are_no_weights_for_classes(rule, n_classes):
    X, y = mixed_table(600, 1)
    c = np.digitize(y, [0, 2][: n_classes - 1])
    options = {"split_rule": rule, "n_estimators": 10, "linear_start": True, "n_jobs": 1}
    plain = UnbiasedGBMClassifier(**options).fit(X, c)
    ones = UnbiasedGBMClassifier(**options).fit(X, c, sample_weight=np.ones(600))
    by_class = UnbiasedGBMClassifier(class_weight=dict.fromkeys(range(n_classes), 1), **options).fit(X, c)
    keep = np.random.default_rng(0).random(600) < 0.7
    absent = UnbiasedGBMClassifier(**options).fit(X[keep], c[keep])
    weightless = UnbiasedGBMClassifier(**options).fit(X, c, sample_weight=keep.astype(float))
    assert same_trees(plain.ensemble_, ones.ensemble_)
    assert same_trees(plain.ensemble_, by_class.ensemble_)
    assert same_trees(absent.ensemble_, weightless.ensemble_)


def test_a_line_does_not_change_what_noise_is_worth():
    X, y = mixed_table(600, 1)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 600)
    found = [
        UnbiasedGBMClassifier(n_estimators=2, linear_start=line, n_jobs=1).fit(X, y > 1, sample_weight=weight)
        for line in (True, False)
    ]
    assert found[0]._model.progress.n_line > 0
    with_line, without = (model._model.progress.start_dispersion for model in found)
    assert with_line == pytest.approx(without, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1e3, 1e7])
@pytest.mark.parametrize("rule", ["standard", "merged"])
def test_the_scale_of_weights_is_a_scale_of_lambda(scale, rule):
    X, y = mixed_table(500, 1)
    weight = np.random.default_rng(0).exponential(size=500) + 0.1
    options = {"split_rule": rule, "n_estimators": 10, "min_child_weight": 0.0, "n_jobs": 1}
    plain = UnbiasedGBMRegressor(reg_lambda=1.0, **options).fit(X, y, sample_weight=weight)
    scaled = UnbiasedGBMRegressor(reg_lambda=scale, **options).fit(X, y, sample_weight=weight * scale)
    np.testing.assert_allclose(scaled.predict(X), plain.predict(X), atol=1e-3 * y.std())


@pytest.mark.parametrize("kind", [UnbiasedGBMClassifier, UnbiasedGBMRegressor])
def test_evidence_does_not_care_for_the_unit_of_weights(kind):
    X, y = mixed_table(500, 1)
    y = (y > 1).astype(int) if kind is UnbiasedGBMClassifier else y
    options = {"n_estimators": 30, "categorical_features": [4, 5], "n_jobs": 1}
    plain = kind(**options).fit(X, y)
    for unit in (0.25, 100.0, 2.0**-20):
        assert same_trees(plain.ensemble_, kind(**options).fit(X, y, sample_weight=np.full(500, unit)).ensemble_)
    # whole numbers are no repetitions, whatever they add up to
    weight = np.random.default_rng(0).integers(1, 40, 500) * 1024.0
    whole = kind(**options).fit(X, y, sample_weight=weight)
    assert not same_trees(plain.ensemble_, whole.ensemble_)
    for unit in (2.0**-10, 2.0**-30):
        assert same_trees(whole.ensemble_, kind(**options).fit(X, y, sample_weight=weight * unit).ensemble_)


def test_evidence_takes_a_weight_for_no_number_of_rows():
    """Survey weights of thousands once made steps and trees as large as for millions of rows: log loss was above 2."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 6))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3])
    y = (signal + rng.normal(size=4000) * 0.5 > 0.8).astype(int)
    weight = rng.integers(500, 5000, 2000)
    for w in (weight, weight / weight.sum()):
        model = UnbiasedGBMClassifier(n_jobs=1).fit(X[:2000], y[:2000], sample_weight=w)
        assert log_loss(y[2000:], model.predict_proba(X[2000:])) < 0.42


class TestClassWeight:
    def fit(self, c, class_weight=None, sample_weight=None):
        X, _ = mixed_table(400, 1)
        X = X[:, :5].round(1)  # fewer values than bins, which follow sample_weight but not class_weight
        options = {"split_rule": "standard", "n_estimators": 10, "n_jobs": 1}
        model = UnbiasedGBMClassifier(class_weight=class_weight, **options).fit(X, c, sample_weight=sample_weight)
        return model.decision_function(X)

    def test_is_a_sample_weight(self):
        _, y = mixed_table(400, 1)
        c = np.where(y > 1, "yes", "no")
        by_class = self.fit(c, {"yes": 2.5, "no": 0.5})
        by_row = self.fit(c, sample_weight=np.where(c == "yes", 2.5, 0.5))
        np.testing.assert_allclose(by_class, by_row, atol=1e-6)

    def test_balanced(self):
        _, y = mixed_table(400, 1)
        c = (y > 2.5).astype(int)
        weights = {k: 400 / (2 * (c == k).sum()) for k in (0, 1)}
        np.testing.assert_array_equal(self.fit(c, "balanced"), self.fit(c, weights))
        # the rare class is no longer unlikely
        assert self.fit(c, "balanced").mean() > self.fit(c).mean() + 0.5

    def test_multiplies_sample_weight(self):
        _, y = mixed_table(400, 1)
        c = (y > 1).astype(int)
        weight = np.random.default_rng(0).exponential(size=400) + 0.1
        both = self.fit(c, {0: 0.5, 1: 3.0}, weight)
        product = self.fit(c, None, weight * np.where(c == 1, 3.0, 0.5))
        np.testing.assert_allclose(both, product, atol=1e-6)
