"""`warm_start` and `init_model`: 100 + 100 iterations are 200, to the bit."""

import numpy as np
import pytest
from sklearn.base import clone
from workbench import ALL_RULES, mixed_table, same_trees

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor


def assert_equal_models(a, b):
    assert same_trees(a.ensemble_, b.ensemble_)
    np.testing.assert_array_equal(a.feature_importances_, b.feature_importances_)
    assert a.n_iter_ == b.n_iter_
    assert (a.ensemble_.left >= 0).sum() > 20


def check(make, X, y, n=(20, 40), **fit):
    whole = make(n_estimators=n[1]).fit(X, y, **fit)
    first = make(n_estimators=n[0]).fit(X, y, **fit)
    before = first.predict(X).copy()
    more = make(n_estimators=n[1]).fit(X, y, init_model=first, **fit)
    assert_equal_models(more, whole)
    # the model to go on from is left as it was
    np.testing.assert_array_equal(first.predict(X), before)
    assert first.n_iter_ == n[0]
    warm = make(n_estimators=n[0], warm_start=True).fit(X, y, **fit)
    assert_equal_models(warm.set_params(n_estimators=n[1]).fit(X, y, **fit), whole)


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("role_draw", ["tree", "node", "fit"])
def test_regression(rule, role_draw):
    X, y = mixed_table(400, 1)

    def make(**options):
        return UnbiasedGBMRegressor(
            split_rule=rule, role_draw=role_draw, categorical_features=[4, 5], subsample=0.8, colsample_bytree=0.8,
            min_split_gain=-1.0, n_jobs=1, **options,
        )  # fmt: skip

    check(make, X, y)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("weights", [None, "whole", "any", "class"])
def test_classification(n_classes, weights):
    X, y = mixed_table(400, 2)
    c = np.digitize(y, [1, 0, 2][: n_classes - 1] if n_classes == 2 else [0, 1, 2])
    weight = {"whole": np.arange(400) % 3 + 1.0, "any": np.arange(400) % 3 + 0.5}.get(weights)

    def make(**options):
        class_weight = "balanced" if weights == "class" else None
        return UnbiasedGBMClassifier(categorical_features=[4, 5], class_weight=class_weight, n_jobs=1, **options)

    check(make, X, c, sample_weight=weight)


@pytest.mark.parametrize("loss", ["absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"])
def test_losses(loss):
    X, y = mixed_table(400, 3)

    def make(**options):
        return UnbiasedGBMRegressor(loss=loss, n_jobs=1, **options)

    check(make, X, np.exp(y / 2))


def test_one_hundred_and_one_hundred():
    X, y = mixed_table(300, 2)
    options = {"min_split_gain": -np.inf, "num_leaves": 4, "n_jobs": 1}  # else boosting ends before
    check(lambda **more: UnbiasedGBMClassifier(**options, **more), X, np.digitize(y, [0, 2]), n=(100, 200))


def test_boosting_that_has_ended_stays_ended():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    whole = UnbiasedGBMRegressor(n_estimators=400, n_jobs=1).fit(X, y)
    first = UnbiasedGBMRegressor(n_estimators=20, n_jobs=1).fit(X, y)
    more = UnbiasedGBMRegressor(n_estimators=400, n_jobs=1).fit(X, y, init_model=first)
    assert more.n_iter_ == whole.n_iter_ < 400
    assert same_trees(more.ensemble_, whole.ensemble_)


def test_history_goes_on():
    X, y = mixed_table(300, 3)
    options = {"early_stopping": False, "n_jobs": 1}
    first = UnbiasedGBMRegressor(n_estimators=5, **options).fit(X, y, X_val=X, y_val=y)
    more = UnbiasedGBMRegressor(n_estimators=12, **options).fit(X, y, X_val=X, y_val=y, init_model=first)
    whole = UnbiasedGBMRegressor(n_estimators=12, **options).fit(X, y, X_val=X, y_val=y)
    assert len(first.history_["validation"]["loss"]) == 5
    assert more.history_ == whole.history_


def test_early_stopping_goes_on():
    X, y = mixed_table(400, 3)
    rows = {"X_val": X[300:], "y_val": y[300:]}
    options = {"split_rule": "standard", "learning_rate": 0.3, "n_iter_no_change": 6, "n_jobs": 1}
    whole = UnbiasedGBMRegressor(n_estimators=300, **options).fit(X[:300], y[:300], **rows)
    assert whole.best_iteration_ < whole.n_iter_ < 300
    part = UnbiasedGBMRegressor(n_estimators=whole.n_iter_ - 3, warm_start=True, **options).fit(
        X[:300], y[:300], **rows
    )
    for _ in range(2):
        # the second time there is nothing left to do
        part.set_params(n_estimators=300).fit(X[:300], y[:300], **rows)
        assert (part.n_iter_, part.best_iteration_) == (whole.n_iter_, whole.best_iteration_)
        np.testing.assert_array_equal(part.predict(X), whole.predict(X))
    # other rows have a history of their own
    other = UnbiasedGBMRegressor(n_estimators=300, **options)
    other.fit(X[:300], y[:300], X_val=X[200:300], y_val=y[200:300], init_model=whole)
    assert other.n_iter_ > whole.n_iter_ + 6


def test_a_small_table_first():
    X, y = mixed_table(300, 3)
    model = UnbiasedGBMRegressor(n_estimators=5, warm_start=True, n_jobs=1).fit(X[:20], y[:20])
    assert model.split_rule_ == "standard"
    model.set_params(n_estimators=10).fit(X, y)
    assert (model.split_rule_, model.n_iter_) == ("evidence", 10)


def test_unknown_levels_as_they_are_handled_now():
    X = np.array([["a"], ["b"]] * 50, dtype=object)
    y = np.arange(100) % 2.0
    model = UnbiasedGBMRegressor(n_estimators=2, warm_start=True, n_jobs=1).fit(X, y)
    model.set_params(n_estimators=4, handle_unknown="error").fit(X, y)
    with pytest.raises(ValueError, match="not seen"):
        model.predict(np.array([["c"]], dtype=object))


def test_other_rows():
    X, y = mixed_table(600, 3)
    first = UnbiasedGBMRegressor(n_estimators=10, n_jobs=1).fit(X[:300], y[:300])
    more = UnbiasedGBMRegressor(n_estimators=30, n_jobs=1).fit(X[300:], y[300:], init_model=first)
    np.testing.assert_array_equal(more.predict(X, n_iterations=10), first.predict(X))
    assert more.score(X[300:], y[300:]) > first.score(X[300:], y[300:])


def test_bad_models(monkeypatch):
    X, y = mixed_table(300, 3)
    first = UnbiasedGBMRegressor(n_estimators=10, n_jobs=1).fit(X, y)
    with pytest.raises(ValueError, match="n_estimators=5 must be at least the 10 iterations"):
        UnbiasedGBMRegressor(n_estimators=5).fit(X, y, init_model=first)
    with pytest.raises(ValueError, match="init_model must be a fitted UnbiasedGBMClassifier"):
        UnbiasedGBMClassifier().fit(X, y > 0, init_model=first)
    with pytest.raises(ValueError, match="loss must be 'squared_error', as in the model to go on from; got 'poisson'"):
        UnbiasedGBMRegressor(loss="poisson").fit(X, np.exp(y), init_model=first)
    with pytest.raises(ValueError, match="loss must be 'squared_error'"):
        clone(first).set_params(warm_start=True).fit(X, y).set_params(loss="poisson").fit(X, np.exp(y))
    with monkeypatch.context() as patch:
        patch.setattr("unbiasedgbm.estimators.MOST_CUTS", 255)
        with pytest.raises(ValueError, match="too many different thresholds"):
            UnbiasedGBMRegressor(n_estimators=20).fit(X, y, init_model=first)
    with pytest.raises(ValueError, match="not fitted"):
        UnbiasedGBMRegressor().fit(X, y, init_model=clone(first))
    with pytest.raises(ValueError, match="X has 3 features"):
        UnbiasedGBMRegressor().fit(X[:, :3], y, init_model=first)
    classes = UnbiasedGBMClassifier(n_estimators=3, n_jobs=1).fit(X, (y > 0).astype(int))
    with pytest.raises(ValueError, match="y has the class"):
        UnbiasedGBMClassifier(n_estimators=5).fit(X, np.digitize(y, [0, 2]), init_model=classes)
