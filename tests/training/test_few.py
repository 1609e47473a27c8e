"""Nodes of few rows: the same trees as with a histogram for every node, to the bit."""

import numpy as np
import pytest
from test_splitting import grow_and_check
from workbench import ALL_RULES, booster, mixed_table

from unbiasedgbm.losses import LogLoss
from unbiasedgbm.training import workspace
from unbiasedgbm.training.splitting import FEW_SEARCH


def grow(monkeypatch, few, X, y, n_trees=3, **how):
    monkeypatch.setattr(workspace, "FEW_SEARCH", few)
    boosted = booster(X, y, **how)
    grown = [tree for _ in range(n_trees) for tree in boosted.iterate()]
    return boosted, grown


def check_same(monkeypatch, X, y, **how):
    """Trees with histograms alone, with rows alone where it can be, and with both."""
    (plain, expected), *others = (grow(monkeypatch, few, X, y, **how) for few in (0, 8, FEW_SEARCH))
    for boosted, grown in others:
        for one, other in zip(expected, grown, strict=True):
            made = one.node["left"] >= 0
            for name in ("begin", "n_rows", "left", "depth", "feature", "bin", "missing_left", "score", "worth"):
                np.testing.assert_array_equal(one.node[name], other.node[name])
            np.testing.assert_array_equal(one.value, other.value)
            if one.levels is not None:
                np.testing.assert_array_equal(one.levels[made], other.levels[made])
        np.testing.assert_array_equal(plain.progress.importance, boosted.progress.importance)
        for one, other in zip(plain.progress.memories, boosted.progress.memories, strict=True):
            np.testing.assert_array_equal(one.mean, other.mean)
    assert max(len(tree.node) for tree in expected) > 9


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("seed", range(3))
def test_all_rules(monkeypatch, rule, seed):
    X, y = mixed_table(600, seed)
    check_same(monkeypatch, X, y, categorical=[4, 5], split_rule=rule, min_samples_leaf=2, seed=seed)


@pytest.mark.parametrize(
    "how",
    [
        {"min_samples_leaf": 1},
        {"min_samples_leaf": 11},
        {"min_child_weight": 8.0},
        {"max_bins": 255},
        {"max_bins": 4},
        {"role_draw": "node"},
        {"role_ratio": (4, 1)},
        {"subsample": 0.6},
        {"colsample_bynode": 0.5},
        {"colsample_bytree": 0.5},
        {"max_depth": 4},
    ],
    ids=str,
)
def test_all_parameters(monkeypatch, how):
    X, y = mixed_table(700, 5)
    how = {"split_rule": "evidence", "min_samples_leaf": 3, "min_split_gain": -20.0, **how}
    check_same(monkeypatch, X, y, categorical=[4, 5], **how)


@pytest.mark.parametrize("rule", ["evidence", "separate", "standard"])
def test_confident_rows_have_little_hessian(monkeypatch, rule):
    X, y = mixed_table(600, 1)
    how = {"loss": LogLoss(), "learning_rate": 1.0, "min_child_weight": 0.5, "min_samples_leaf": 2}
    check_same(monkeypatch, X, (y > np.median(y)).astype(float), split_rule=rule, min_split_gain=-20.0, **how)


@pytest.mark.parametrize("weights", ["whole", "zero", "real"])
def test_weights(monkeypatch, weights):
    X, y = mixed_table(500, 2)
    rng = np.random.default_rng(0)
    weight = {
        "whole": rng.integers(1, 4, 500).astype(float),
        "zero": rng.integers(0, 2, 500).astype(float),
        "real": rng.exponential(size=500),
    }[weights]
    check_same(monkeypatch, X, y, weight=weight, split_rule="evidence", min_samples_leaf=2, min_split_gain=-20.0)


def test_features_of_one_word_and_of_many(monkeypatch):
    rng = np.random.default_rng(3)
    for p in (1, 7, 8, 9, 30):
        X = rng.normal(size=(300, p)).round(1)
        y = np.sin(3 * X[:, 0]) + X[:, -1] + 0.3 * rng.normal(size=300)
        check_same(monkeypatch, X, y, split_rule="evidence", min_samples_leaf=2, min_split_gain=-20.0)


@pytest.mark.parametrize("rule", ALL_RULES)
def test_histograms_alone_grow_trees_by_the_book(monkeypatch, rule):
    # the small tables of `test_splitting` are looked through row by row
    monkeypatch.setattr(workspace, "FEW_SEARCH", 0)
    X, y = mixed_table(300, 0)
    how = {"num_leaves": 8, "min_samples_leaf": 3, "max_bins": 20}
    grow_and_check(booster(X, y, categorical=[4, 5], split_rule=rule, **how), 2)
