"""Trees of all six rules, split by split, against the plain-float twin."""

import numpy as np
import pytest
from reference import Twin, check_tree, close
from workbench import ALL_RULES, bins_of, booster, mixed_table

from unbiasedgbm.losses import LogLoss, PoissonLoss
from unbiasedgbm.training.harvest import GrownTree
from unbiasedgbm.training.nodes import N_NODES


def grow_and_check(boosted, n_trees=1):
    first_squares, limit = None, 2.0
    end_trial, tried = boosted._end_trial, []

    def record(lane, *arguments):
        m = int(lane.memory.state[N_NODES])
        node, levels = lane.memory.nodes.node[:m].copy(), lane.memory.levels
        if m > 1 and node[0]["score"] <= boosted.parameters.min_split_gain:
            levels = None if levels is None else levels[:m].copy()
            tried.append(GrownTree(0, node, levels, np.zeros(m), lane.memory.nodes.count[:m].copy()))
        end_trial(lane, *arguments)

    boosted._end_trial = record
    for _ in range(n_trees):
        tried.clear()
        memory = boosted.progress.memories[0]
        bonus = memory.bonus(1.0)
        before_mean, n_before = memory.mean.copy(), memory.n_trees
        importance_before = boosted.progress.importance.copy()
        g, h = boosted.loss.gradients(boosted.rows.data.y, boosted.rows.raw[:, 0].copy())
        raw_before = boosted.rows.raw[:, 0].copy()
        grown = boosted.iterate()[0]
        w = 1.0 if boosted.rows.data.sample_weight is None else boosted.rows.data.sample_weight
        squares = ((w * boosted.rows.g[0].astype(np.float64)) ** 2).sum()
        first_squares = squares if first_squares is None else first_squares
        if boosted.parameters.split_rule == "evidence":
            # the best of p useless features: log p times the mean of one, as far as the target is unexplained
            useful = sum(len(np.unique(bins_of(boosted, j))) > 1 for j in range(len(boosted.features)))
            unexplained = min(squares / first_squares, 1.0)
            limit = 1.0 + np.sqrt(unexplained)
            bonus[-32:] -= limit * np.log(useful) * unexplained
        twin = Twin(boosted, bonus, limit)
        leaves, found, importance = check_tree(boosted, grown, twin, on_trial=bool(tried))
        if tried:
            # what was tried has left its evidence, and was kept if the scores of all splits make up for the root's
            found = check_tree(boosted, tried[0], twin, on_trial=True)[1]
            score = tried[0].node["score"][tried[0].node["left"] >= 0] - boosted.parameters.min_split_gain
            kept = len(score) > 1 and score.sum() > 8.0 * limit * max(np.log(useful), 1.0) * unexplained
            assert kept == (len(grown.node) > 1)
        # leaf values: Newton steps without the search's weights, from all rows of the tree or, by default, from S2
        for i, mask in leaves.items():
            used = mask & (twin.role == 1 if boosted.parameters.split_rule == "evidence" else twin.role < 3)
            value = -(w * g)[used].sum() / ((w * h * np.ones_like(g))[used].sum() + boosted.parameters.reg_lambda)
            value *= boosted.parameters.learning_rate
            if not twin.features["monotone"].any():
                assert grown.value[i] == pytest.approx(value, rel=1e-5, abs=1e-7)
            np.testing.assert_array_equal(boosted.rows.raw[mask, 0], raw_before[mask] + grown.value[i])
            assert grown.count[i, :3].sum() == (mask & (twin.role < 3)).sum()
        np.testing.assert_allclose(boosted.progress.importance - importance_before, importance, rtol=1e-6, atol=1e-7)
        if boosted.parameters.split_rule == "evidence":
            n = min(n_before + 1, 30)
            np.testing.assert_allclose(memory.mean, before_mean + (found - before_mean) / n, rtol=1e-6, atol=1e-8)
    return grown


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_trees_are_grown_by_the_book(rule, seed):
    X, y = mixed_table(300, seed)
    boosted = booster(
        X, y, categorical=[4, 5], split_rule=rule, num_leaves=8, min_samples_leaf=3, seed=seed, max_bins=20
    )
    grow_and_check(boosted, 2)


@pytest.mark.parametrize("rule", ALL_RULES)
def test_log_loss(rule):
    X, y = mixed_table(300, 5)
    boosted = booster(
        X, (y > 1).astype(float), categorical=[4, 5], loss=LogLoss(), split_rule=rule, num_leaves=6, max_bins=12
    )
    grow_and_check(boosted, 2)


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize(
    "limits",
    [
        {"min_samples_leaf": 1},
        {"min_samples_leaf": 25},
        {"min_child_weight": 30.0},
        {"max_depth": 2},
        {"reg_lambda": 0.0},
        {"reg_lambda": 50.0},
        {"cat_smooth": 0.0},
        {"subsample": 0.6},
        {"min_split_gain": 3.0},
        {"min_split_gain": -np.inf},
        {"role_ratio": (4.0, 1.0, 1.0)},
    ],
    ids=str,
)
def test_limits(rule, limits):
    X, y = mixed_table(240, 7, n_levels=270)
    boosted = booster(X, y, categorical=[4, 5], split_rule=rule, max_bins=10, **{"num_leaves": 6, **limits})
    grow_and_check(boosted)


@pytest.mark.parametrize("rule", ["evidence", "merged", "separate", "standard"])
def test_monotone(rule):
    X, y = mixed_table(300, 3)
    signs = [1, -1, 1, 0, 0, 0]
    boosted = booster(
        X, y, categorical=[4, 5], split_rule=rule, num_leaves=8, monotone=signs, max_bins=15, min_split_gain=-np.inf
    )
    grow_and_check(boosted, 2)


def test_evidence_bonuses_enter_the_score():
    X, y = mixed_table(300, 2)
    rng = np.random.default_rng(0)
    boosted = booster(X, y, categorical=[4, 5], split_rule="evidence", num_leaves=5, max_bins=8)
    memory = boosted.progress.memories[0]
    memory.n_trees = 20
    memory.mean[:] = rng.normal(size=6 + 32)
    memory.square[:] = memory.mean**2 + 5
    assert np.abs(memory.bonus(1.0)[:6]).max() > 0.3
    assert np.abs(memory.bonus(1.0)[6:]).max() > 0.3
    grow_and_check(boosted)


@pytest.mark.parametrize("rule", ["evidence", "without_ub", "standard"])
def test_weights(rule):
    X, y = mixed_table(300, 4)
    weight = np.random.default_rng(0).exponential(size=300) + 0.1
    boosted = booster(X, y, categorical=[4, 5], split_rule=rule, num_leaves=6, weight=weight, max_bins=12)
    grow_and_check(boosted, 2)


def test_dispersion_is_that_of_the_residuals():
    X, y = mixed_table(300, 4)
    boosted = booster(X, np.exp(y), loss=PoissonLoss(), split_rule="evidence", num_leaves=4, max_bins=8)
    g, h = boosted.loss.gradients(boosted.rows.data.y, boosted.rows.raw[:, 0].copy())
    grow_and_check(boosted)
    assert boosted.dispersion == pytest.approx((g**2).sum() / h.sum(), rel=1e-5)
    logistic = booster(X, (y > 1).astype(float), loss=LogLoss(), split_rule="evidence", num_leaves=2)
    logistic.iterate()
    assert logistic.dispersion == 1.0


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("n_rows", [60, 500])
def test_every_candidate_of_a_root(rule, n_rows):
    # few rows: more bins than rows, where only filled bins are listed; many rows: all bins
    X, y = mixed_table(n_rows, 11)
    boosted = booster(X, y, categorical=[4, 5], split_rule=rule, num_leaves=2, min_samples_leaf=2, max_bins=64)
    boosted.iterate()
    twin = Twin(boosted)
    root = twin.node(twin.role < 4)
    got = boosted.candidates()
    for f, expected in enumerate(root.candidates):
        if expected is None:
            assert got[f]["select"] == -np.inf
            continue
        assert close(got[f]["select"], expected.select)
        assert close(got[f]["accept"], expected.accept)
        assert close(got[f]["evidence"], expected.evidence)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("seed", range(100, 130))
def test_trees_are_grown_by_the_book_many_times(rule, seed):
    rng = np.random.default_rng(seed)
    X, y = mixed_table(int(rng.integers(80, 500)), seed, n_levels=int(rng.integers(2, 500)))
    boosted = booster(
        X,
        y,
        categorical=[4, 5],
        split_rule=rule,
        num_leaves=int(rng.integers(2, 20)),
        min_samples_leaf=int(rng.integers(1, 12)),
        min_child_weight=float(rng.choice([0.0, 10.0])),
        reg_lambda=float(rng.choice([0.0, 1.0, 10.0])),
        subsample=float(rng.choice([0.7, 1.0])),
        seed=seed,
        max_bins=int(rng.integers(2, 100)),
    )
    grow_and_check(boosted, 3)
