"""Pure noise: which feature a rule takes at the root of the first tree, and what its scores average to.

Nine noise features: categories and whole numbers of 2, 6, 50 and 500 levels, and a continuous one; 300 rows.

What holds: `without_ub` and `evidence`, which judge a feature by a gain on other rows, choose all alike. `merged` and
`separate` judge by a product of both sets of rows. Its mean is 0 for every feature, but its spread grows with the gain
on the searching rows, which is larger the more cuts there were to choose from; the largest of nine scores is therefore
more often that of a feature with many levels. They are unbiased in the mean, not in the choice.
"""

import math
from functools import lru_cache

import numpy as np
import pytest
from reference import Twin
from workbench import booster, trees_of

from unbiasedgbm import UnbiasedGBMRegressor

LEVELS = (2, 6, 50, 500)
N_FEATURES = 9
MANY_LEVELS = 3  # position of the 500-level category


def noise_booster(rule, seed, n=300, **options):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, k, n) for k in LEVELS + LEVELS]
    X = np.column_stack([*columns, rng.normal(size=n)]).astype(np.float64)
    y = rng.normal(size=n)
    options = {"num_leaves": 2, "min_split_gain": -np.inf, "min_child_weight": 0.0, **options}
    return booster(X, y, categorical=range(4), split_rule=rule, seed=seed, **options)


@lru_cache
def roots(rule, n_repeats, **options):
    """Share of each feature among the roots, in units of a fair share, and the candidates of all of them."""
    chosen, candidates = np.zeros(N_FEATURES), []
    accepted = []
    for seed in range(n_repeats):
        boosted = noise_booster(rule, seed, **options)
        tree = trees_of(boosted, boosted.iterate()[:1])
        candidates.append(boosted.candidates())
        if tree.feature[0] >= 0:
            chosen[tree.feature[0]] += 1
            accepted.append(tree.score[0])
    assert chosen.sum() > 0.99 * n_repeats
    return chosen / chosen.sum() * N_FEATURES, np.stack(candidates), np.array(accepted)


def z_score(values):
    return values.mean() / (values.std() / math.sqrt(len(values)))


@pytest.mark.parametrize("rule", ["evidence", "without_ub"])
def test_honest_gains_choose_all_alike(rule):
    # 1,000 repeats: a fair share is 111 +- 10, so 0.7 and 1.3 are more than three standard deviations away
    share, _, _ = roots(rule, 1000)
    assert share.min() > 0.7
    assert share.max() < 1.3


def test_standard_takes_the_feature_with_most_levels():
    share, _, _ = roots("standard", 200)
    assert share[MANY_LEVELS] > 0.9 * N_FEATURES


@pytest.mark.parametrize("rule", ["merged", "separate"])
def test_products_choose_features_of_many_levels_too_often_but_far_less_than_standard(rule):
    share, _, _ = roots(rule, 1000 if rule == "separate" else 500)
    assert 1.5 < share[MANY_LEVELS] < 4.5
    # numbers are alike, but for the coin, whose only cut was not chosen
    numbers = share[5:] / share[5:].mean()
    assert numbers.min() > 0.6
    assert numbers.max() < 1.5


def test_acceptance_score_of_separate_averages_zero():
    # rows that chose neither the cut nor the feature: mean 0 for the chosen one. |z| < 4 has an error rate of 6e-5
    _, _, accepted = roots("separate", 1000)
    assert abs(z_score(accepted)) < 4


@pytest.mark.parametrize("rule", ["separate", "evidence"])
def test_every_feature_scores_zero_on_average(rule):
    # separate: the score that selects; evidence: the honest evidence that the bonus is made of. 9 tests at |z| < 4.5
    _, candidates, _ = roots(rule, 1000)
    field = "select" if rule == "separate" else "evidence"
    for f in range(N_FEATURES):
        scores = candidates[field][candidates["select"][:, f] > -np.inf, f]
        assert len(scores) > 900
        assert abs(z_score(scores)) < 4.5


def test_evidence_gain_has_the_null_mean_it_is_said_to_have():
    # 2 * gain on weighted rows has mean 2 without lambda; `accept` has it taken off
    _, candidates, _ = roots("evidence", 400, reg_lambda=0.0, n=600)
    for f in (0, 1, 4, 5, 8):
        scores = candidates["accept"][candidates["select"][:, f] > -np.inf, f]
        # chi-square with one degree of freedom, weighted: its spread is about 3
        assert abs(scores.mean()) < 4.5 * scores.std() / math.sqrt(len(scores))


def test_why_products_prefer_many_levels():
    """Given the searching rows, the spread of cross(S1 -> S2) is that of their gain: the twin shows it, too."""
    spread = {}
    for f in (0, MANY_LEVELS):
        ratio, gains = [], []
        for seed in range(60):
            boosted = noise_booster("separate", seed)
            boosted.iterate()
            twin = Twin(boosted)
            rows = twin.role < 4
            candidate = twin.candidate(f, type("Root", (), {"rows": rows, "low": -np.inf, "high": np.inf}))
            if candidate is not None:
                assert candidate.select == pytest.approx(boosted.candidates()["select"][f], rel=1e-6, abs=1e-9)
                gains.append(twin.gain(candidate.left, rows, [0]))
                ratio.append(candidate.select)
        spread[f] = np.std(ratio), np.mean(gains)
    assert spread[MANY_LEVELS][1] > 5 * spread[0][1]
    assert spread[MANY_LEVELS][0] > 2 * spread[0][0]


@pytest.mark.parametrize("rule", ["evidence", "separate", "without_se", "merged", "without_ub", "standard"])
def test_importance_gathered_in_training(rule):
    """Positive for noise where the score that is added up has chosen the feature, else zero or less.

    A mean of 12 tables that is zero lies more than 4 standard errors off with a chance of 0.1 %.
    """
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.integers(0, 2, 500), rng.normal(size=500), rng.normal(size=500)])
        y = 2 * np.sin(2 * X[:, 2]) + rng.normal(size=500)
        model = UnbiasedGBMRegressor(n_estimators=20, split_rule=rule, random_state=seed, n_jobs=1).fit(X, y)
        found.append(model.feature_importances_[:2])
    z = [z_score(values) for values in np.array(found).T]
    if rule in ("merged", "without_ub", "standard"):
        assert min(z) > 4
    else:
        assert max(z) < 4


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["evidence", "without_ub"])
@pytest.mark.parametrize("n", [150, 300, 1000])
def test_honest_gains_choose_all_alike_many_times(rule, n):
    _, candidates, _ = roots(rule, 8000, n=n)
    # with 150 rows most of the 500 levels are unknown to the searching rows, and often no cut has rows enough: a fair
    # share is one of those that have a cut at all
    possible = candidates["select"] > -np.inf
    fair = (possible / possible.sum(axis=1, keepdims=True)).sum(axis=0)
    chosen = np.bincount(np.argmax(candidates["select"], axis=1), minlength=N_FEATURES)
    share = chosen / fair
    assert share.min() > 0.7
    assert share.max() < 1.3


@pytest.mark.slow
def test_acceptance_score_of_separate_averages_zero_many_times():
    _, _, accepted = roots("separate", 10_000)
    assert abs(z_score(accepted)) < 4
