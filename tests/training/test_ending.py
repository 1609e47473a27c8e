"""The end of boosting: when splits are no longer worth it to rows that did not choose them."""

import numpy as np
import pytest
from workbench import ALL_RULES, booster

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor


def signal_table(n=600, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, 2 * X[:, 0] + np.abs(X[:, 1]) + rng.normal(size=n)


def iterate(boosted, n):
    """The trees of up to n iterations, and how the progress stood after each."""
    grown, states = [], []
    while len(states) < n and not boosted.exhausted:
        grown.append(boosted.iterate())
        states.append(boosted.progress.copy())
    return grown, states


@pytest.mark.parametrize("n_bags", [1, 3])
def test_worth_is_the_sum_over_all_splits_made(n_bags):
    X, y = signal_table()
    grown, states = iterate(booster(X, y, split_rule="evidence", n_bags=n_bags), 60)
    worths = [sum(tree.node["worth"][tree.node["left"] >= 0].sum() for tree in trees) for trees in grown]
    curve = np.cumsum(worths)
    assert len(states) > 20
    for k, state in enumerate(states):
        assert state.worth == pytest.approx(curve[k])
        assert state.peak == np.argmax(curve[: k + 1]) + 1
        assert state.peak_worth == pytest.approx(curve[: k + 1].max())


def test_boosting_ends_twice_as_far_as_its_peak_and_ten():
    X, y = signal_table()
    boosted = booster(X, y, split_rule="evidence", num_leaves=31)
    _, states = iterate(boosted, 1000)
    last = states[-1]
    assert last.idle == 0  # it is not the want of splits that ends it
    assert 5 < last.peak < len(states) == 2 * last.peak + 10
    # and not before
    assert all(len(states[: k + 1]) < 2 * state.peak + 10 for k, state in enumerate(states[:-1]))


def test_a_peak_that_is_never_reached():
    """Trees that are worth less than nothing from the first on."""
    rng = np.random.default_rng(7)
    for seed in range(50):
        boosted = booster(rng.normal(size=(200, 3)), rng.normal(size=200), split_rule="evidence", seed=seed)
        _, states = iterate(boosted, 100)
        if states[-1].peak == 0:
            assert len(states) == 10
            return
    pytest.fail("no such table among fifty")


def test_without_a_limit_boosting_goes_on():
    X, y = signal_table(n=300)
    ended = UnbiasedGBMRegressor(n_jobs=1).fit(X, y)
    assert ended.n_iter_ < 200
    endless = UnbiasedGBMRegressor(min_split_gain=-np.inf, num_leaves=4, n_jobs=1).fit(X, y)
    assert endless.n_iter_ == 200


@pytest.mark.parametrize("rule", [rule for rule in ALL_RULES if rule != "evidence"])
def test_other_rules_end_when_they_find_no_splits(rule):
    X, y = signal_table(n=300)
    boosted = booster(X, y, split_rule=rule)
    boosted.progress.n_iterations, boosted.progress.peak = 100, 1
    assert not boosted.exhausted


def test_what_ends_by_worth_goes_on_to_the_same_end():
    X, y = signal_table(n=400)
    whole = UnbiasedGBMClassifier(n_jobs=1).fit(X, y > 1)
    assert 30 < whole.n_iter_ < 200
    part = UnbiasedGBMClassifier(n_estimators=whole.n_iter_ - 7, n_jobs=1).fit(X, y > 1)
    more = UnbiasedGBMClassifier(n_jobs=1).fit(X, y > 1, init_model=part)
    assert more.n_iter_ == whole.n_iter_
    np.testing.assert_array_equal(more.predict_proba(X), whole.predict_proba(X))
