"""What the evidence rule does with noise, and with a weak signal among it."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from workbench import booster

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor


def bonuses(make_target, n_repeats, n_trees=25, n=300):
    """Bonus of each of four features after some trees, shape (n_repeats, 4)."""
    result = []
    for seed in range(n_repeats):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(size=n), rng.integers(0, 2, n), rng.integers(0, 100, n), rng.normal(size=n)])
        boosted = booster(
            X, make_target(rng, X), categorical=[2], split_rule="evidence", seed=seed, learning_rate=0.02, num_leaves=4
        )
        for _ in range(n_trees):
            boosted.iterate()
        result.append(boosted.progress.memories[0].bonus(1.0)[:4])
    return np.array(result)


def test_noise_gets_no_bonus_on_average():
    # roles are drawn anew for every tree, but the rows stay the same: the bonus of one table is not 0, that of many is.
    # 80 tables, bonuses within +-2: four standard errors are at most 4 * 2 / sqrt(80) = 0.9
    found = bonuses(lambda rng, X: rng.normal(size=len(X)), 80)
    means, errors = found.mean(axis=0), found.std(axis=0) / np.sqrt(80)
    assert (means < 4 * errors).all()
    assert (np.abs(found) <= 2).all()


def test_a_weak_signal_earns_one():
    # explains a tenth of the variance
    found = bonuses(lambda rng, X: 0.33 * X[:, 0] + rng.normal(size=len(X)), 30)
    assert found[:, 0].mean() > 1.0
    assert found[:, 0].mean() > found[:, 1:].mean(axis=0).max() + 0.7


def test_bonus_grows_with_the_trees():
    def target(rng, X):
        return 0.33 * X[:, 0] + rng.normal(size=len(X))

    early, late = bonuses(target, 30, n_trees=6)[:, 0].mean(), bonuses(target, 30, n_trees=25)[:, 0].mean()
    assert late > early


def noise_table(seed, n=500):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=(n, 5)), rng.integers(0, 50, (n, 3))]), rng


@pytest.mark.parametrize("seed", range(3))
def test_boosting_ends_by_itself_on_one_noise_feature(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(500, 1)), rng.normal(size=500)
    model = UnbiasedGBMRegressor(n_estimators=2000, random_state=seed, n_jobs=1).fit(X, y)
    assert model.n_iter_ < 500
    assert model.predict(X).var() < 0.01 * y.var()
    classifier = UnbiasedGBMClassifier(n_estimators=2000, random_state=seed, n_jobs=1).fit(X, y > 0.5)
    assert classifier.n_iter_ < 500
    assert classifier.predict_proba(X)[:, 1].std() < 0.03


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 10))])
def test_several_noise_features_give_a_nearly_constant_model(seed):
    # The limit is where one noise feature scores on average, but the best of several is compared with it. What boosting
    # adds before it ends stays small all the same.
    X, rng = noise_table(seed)
    y = rng.normal(size=len(X))
    fresh = noise_table(seed + 100, 3000)[0]
    ours = UnbiasedGBMRegressor(n_estimators=300, random_state=seed, n_jobs=1).fit(X, y)
    standard = UnbiasedGBMRegressor(n_estimators=300, random_state=seed, split_rule="standard", n_jobs=1).fit(X, y)
    assert ours.predict(fresh).var() < 0.1 * y.var()
    assert ours.predict(fresh).var() < 0.4 * standard.predict(fresh).var()
    assert ours.predict(X).var() < 0.1 * y.var() < 0.5 * standard.predict(X).var()


def test_boosting_on_noise_ends_soon():
    """With noise, what splits are worth is as often less than nothing as more; so most fits end in a few iterations.

    A fit ends within 30 of 200 iterations with a chance of about 0.65 (measured), so that of 40 of them, each with a
    table of its own, fewer than 16 do with a chance of less than 1 %.
    """
    ended = []
    for seed in range(40):
        rng = np.random.default_rng(1000 + seed)
        X, y = rng.normal(size=(500, 8)), rng.normal(size=500)
        model, target = (UnbiasedGBMRegressor, y) if seed % 2 else (UnbiasedGBMClassifier, y > 0)
        ended.append(model(random_state=seed, n_jobs=1).fit(X, target).n_iter_)
    assert max(ended) < 200
    assert sum(n <= 30 for n in ended) >= 16


def test_importance_of_noise_is_next_to_nothing():
    X, rng = noise_table(0, n=2000)
    y = X[:, 0] + rng.normal(size=2000)
    small = {"n_estimators": 500, "learning_rate": 0.04, "num_leaves": 31, "min_samples_leaf": 5, "max_bins": 128}
    importance = UnbiasedGBMRegressor(n_jobs=1, **small).fit(X, y).feature_importances_
    assert importance[0] == importance.max() > 0
    assert np.abs(importance[1:]).max() < 0.05 * importance[0]
    importance = UnbiasedGBMRegressor(n_jobs=1).fit(X, y).feature_importances_
    assert importance[0] == importance.max() > 0
    # noise that was fitted all the same shows as negative
    assert importance[1:].max() < 0.02 * importance[0]
    assert importance[1:].min() > -0.1 * importance[0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_useless_category_of_many_levels_does_no_harm(seed):
    """Three rows a level: whoever puts the levels in order knows the target of a third of them."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(6000, 2)), rng.integers(0, 1000, 6000)])
    y = rng.random(6000) < 1 / (1 + np.exp(1.5 - X[:, 0] - X[:, 1]))
    train, test = slice(0, 3000), slice(3000, None)
    auc = [
        roc_auc_score(
            y[test],
            UnbiasedGBMClassifier(n_jobs=1, categorical_features=categories)
            .fit(X[train, :p], y[train])
            .predict_proba(X[test, :p])[:, 1],
        )
        for p, categories in ((2, None), (3, [2]))
    ]
    # the standard error of a difference is about 0.002
    assert auc[1] > auc[0] - 0.01 > 0.75
