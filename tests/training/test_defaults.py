"""Defaults that depend on the table."""

import numpy as np
import pytest
from workbench import ALL_RULES

from unbiasedgbm import UnbiasedGBMClassifier
from unbiasedgbm.training.defaults import leaf_rows, most_leaves, rate


@pytest.mark.parametrize(
    ("n_rows", "classes", "values"),
    [(29, 5, 3), (30, 2, 2), (299, 2, 2), (300, 3, 3), (499, 4, 3), (500, 5, 3), (1e9, 5, 3)],
)
def test_leaves_have_fewer_rows_in_small_tables(n_rows, classes, values):
    assert leaf_rows(None, "evidence", n_rows, True) == classes
    assert leaf_rows(None, "evidence", n_rows, False) == values
    for rule in ALL_RULES:
        assert leaf_rows(7, rule, n_rows, True) == 7
        if rule != "evidence":
            assert leaf_rows(None, rule, n_rows, True) == 5
            assert leaf_rows(None, rule, n_rows, False) == 3


def test_trees_are_smaller_where_every_class_has_its_own():
    assert [most_leaves(None, n_outputs) for n_outputs in (1, 3, 100)] == [127, 31, 31]
    assert most_leaves(64, 1) == most_leaves(64, 3) == 64
    X = np.random.default_rng(0).normal(size=(10_000, 2))
    options = {"n_estimators": 1, "min_split_gain": -np.inf, "linear_start": False, "n_bags": 1, "n_jobs": 1}
    for y, most in ((X[:, 0] > 0, 127), (np.digitize(X[:, 0], [-1, 1]), 31)):
        trees = UnbiasedGBMClassifier(**options).fit(X, y).ensemble_
        leaves = np.add.reduceat(trees.left < 0, trees.tree_start[:-1])
        assert leaves.tolist() == [most] * trees.n_trees


@pytest.mark.parametrize(("n_rows", "expected"), [(1, 0.1), (20_000, 0.1), (40_000, 0.126), (160_000, 0.2), (1e9, 0.2)])
def test_steps_are_larger_in_large_tables(n_rows, expected):
    assert rate(None, "evidence", n_rows) == expected
    for rule in ALL_RULES:
        assert rate(0.03, rule, n_rows) == 0.03
        if rule != "evidence":
            assert rate(None, rule, n_rows) == 0.1


def test_the_rate_that_is_used():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 2))
    y = X[:, 0] + rng.normal(size=len(X)) > 0
    options = {"n_estimators": 2, "n_jobs": 1}
    found = UnbiasedGBMClassifier(**options).fit(X, y).predict_proba(X)
    same = UnbiasedGBMClassifier(learning_rate=0.126, **options).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(found, same)
