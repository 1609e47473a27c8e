"""Defaults that depend on the table."""

import numpy as np
import pytest
from workbench import ALL_RULES

from unbiasedgbm import UnbiasedGBMClassifier
from unbiasedgbm.training.defaults import leaf_rows, most_leaves, rate


@pytest.mark.parametrize(
    ("n_rows", "classes", "values", "means"),
    [(29, 5, 3, 3), (30, 2, 2, 1), (299, 2, 2, 1), (300, 3, 3, 1), (499, 4, 3, 1), (500, 5, 3, 1), (1e9, 5, 3, 1)],
)
def test_leaves_have_fewer_rows_in_small_tables(n_rows, classes, values, means):
    losses = {"log_loss": classes, "multiclass_log_loss": classes, "huber": values, "squared_error": means}
    for loss, expected in losses.items():
        assert leaf_rows(None, "evidence", n_rows, loss) == expected
    for rule in ALL_RULES:
        assert leaf_rows(7, rule, n_rows, "log_loss") == leaf_rows(7, rule, n_rows, "squared_error") == 7
        if rule != "evidence":
            assert [leaf_rows(None, rule, n_rows, loss) for loss in losses] == [5, 5, 3, 3]


def test_trees_are_smaller_where_every_class_has_its_own():
    losses = ("log_loss", "multiclass_log_loss", "quantile", "squared_error")
    for n_rows in (1, 4000):
        assert [most_leaves(None, "evidence", n_rows, loss) for loss in losses] == [127, 31, 127, 255]
    for n_rows in (1, 1e9):
        assert [most_leaves(None, "merged", n_rows, loss) for loss in losses] == [127, 31, 127, 127]
        assert [most_leaves(64, "evidence", n_rows, loss) for loss in losses] == [64] * 4
    X = np.random.default_rng(0).normal(size=(4000, 2))
    options = {"n_estimators": 1, "min_split_gain": -np.inf, "linear_start": False, "n_bags": 1, "n_jobs": 1}
    for y, most in ((X[:, 0] > 0, 127), (np.digitize(X[:, 0], [-1, 1]), 31)):
        trees = UnbiasedGBMClassifier(**options).fit(X, y).ensemble_
        leaves = np.add.reduceat(trees.left < 0, trees.tree_start[:-1])
        assert leaves.tolist() == [most] * trees.n_trees


@pytest.mark.parametrize(
    ("n_rows", "classes", "more_classes", "means"),
    [
        (10_000, 127, 76, 255),
        (20_000, 127, 127, 255),
        (80_000, 254, 254, 510),
        (320_000, 508, 508, 1020),
        (1e9, 1023, 1023, 1023),
    ],
)
def test_trees_are_larger_in_large_tables(n_rows, classes, more_classes, means):
    for loss, expected in {"log_loss": classes, "multiclass_log_loss": more_classes, "squared_error": means}.items():
        assert most_leaves(None, "evidence", n_rows, loss) == expected


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
