"""Roots that are divided on trial: features that mean something together are found, noise is not believed more."""

import numpy as np
import pytest
from sklearn.metrics import log_loss
from workbench import mixed_table

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.training.booster import Booster


def parity(n, n_levels, n_features, seed):
    """Whether one of the first two features is odd, but not both: neither of them alone says anything."""
    X = np.random.default_rng(seed).integers(0, n_levels, (n, n_features))
    return X.astype(float), (X[:, 0] % 2) ^ (X[:, 1] % 2)


@pytest.mark.parametrize(
    ("n", "n_levels", "n_features", "most"), [(1600, 2, 6, 0.02), (1600, 6, 6, 0.05), (1600, 6, 20, 0.35)]
)
def test_features_that_act_together(n, n_levels, n_features, most):
    # random answers have a loss of 0.69; without trials, the last kind of table was left at 0.6 on average
    for seed in range(5):
        X, y = parity(n + 1000, n_levels, n_features, seed)
        model = UnbiasedGBMClassifier(random_state=seed).fit(X[:n], y[:n])
        assert log_loss(y[n:], model.predict_proba(X[n:])[:, 1]) < most


@pytest.mark.parametrize(("n", "n_features", "most"), [(500, 1, 0.01), (500, 8, 0.02), (2000, 10, 0.01)])
def test_noise_is_not_believed(n, n_features, most):
    # mean over ten tables of what predictions of new rows lose, in units of the target's variance
    lost = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        model = UnbiasedGBMRegressor(random_state=seed).fit(rng.normal(size=(n, n_features)), rng.normal(size=n))
        lost.append(np.mean(model.predict(rng.normal(size=(1000, n_features))) ** 2))
    assert np.mean(lost) < most


@pytest.fixture
def trials(monkeypatch):
    """How trials ended: True for those that were taken back."""
    ended = []
    end_trial = Booster._end_trial

    def judged(self, lane, *arguments):
        node = lane.memory.nodes.node[0]
        on_trial = node["left"] >= 0 and node["score"] <= self.parameters.min_split_gain
        end_trial(self, lane, *arguments)
        if on_trial:
            ended.append(node["left"] < 0)

    monkeypatch.setattr(Booster, "_end_trial", judged)
    return ended


@pytest.mark.parametrize("role_draw", ["tree", "node", "fit"])
@pytest.mark.parametrize("weighted", [False, True])
def test_training_and_prediction_agree(trials, role_draw, weighted):
    X, y = parity(1000, 2, 5, 0)
    X = np.column_stack([X, mixed_table(1000)[0][:, 0]])
    weight = np.random.default_rng(0).random(1000) + 0.5 if weighted else None
    model = UnbiasedGBMClassifier(n_estimators=15, role_draw=role_draw, subsample=0.9)
    model.fit(X, y, sample_weight=weight)
    part = UnbiasedGBMClassifier(n_estimators=7, role_draw=role_draw, subsample=0.9).fit(X, y, sample_weight=weight)
    # raw predictions that training kept are what the trees say: going on from the trees makes no difference
    rest = UnbiasedGBMClassifier(n_estimators=15, role_draw=role_draw, subsample=0.9)
    rest.fit(X, y, sample_weight=weight, init_model=part)
    assert (rest.decision_function(X) == model.decision_function(X)).all()
    assert True in trials


def test_some_pass(trials):
    X, y = parity(1600, 2, 6, 0)
    UnbiasedGBMClassifier(n_estimators=30).fit(X, y)
    assert True in trials
    assert False in trials


@pytest.mark.parametrize(
    "parameters",
    [{"num_leaves": 2}, {"max_depth": 1}, {"split_rule": "merged"}, {"min_split_gain": -np.inf}],
    ids=["two leaves", "stumps", "another rule", "no limit"],
)
def test_where_there_is_nothing_to_try(trials, parameters):
    X, y = parity(500, 2, 5, 0)
    UnbiasedGBMClassifier(n_estimators=5, **parameters).fit(X, y)
    assert not trials


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_do_not_matter(n_jobs):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (40_000, 4)).astype(float)
    y = (X[:, 0] % 2 != X[:, 1] % 2) ^ (rng.random(40_000) < 0.4)
    one, other = (UnbiasedGBMClassifier(n_estimators=4, n_bags=2, n_jobs=k).fit(X, y) for k in (1, n_jobs))
    assert (one.decision_function(X) == other.decision_function(X)).all()
