"""Limits on the size of trees hold, for every rule, in every role."""

import numpy as np
import pytest
from workbench import ALL_RULES, booster, mixed_table, trees_of

from unbiasedgbm.training.roles import role_shares


def leaves_of(boosted, grown):
    """Leaf of each row, by the raw predictions' rows of the workspace."""
    leaf = np.empty(len(boosted.rows.data.y), int)
    tree, memory = trees_of(boosted, [grown]), boosted.rows
    for k in np.flatnonzero(tree.left < 0):
        begin = int(grown.node["begin"][k])
        leaf[memory.rows[begin : begin + int(grown.node["n_rows"][k])]] = k
    return leaf


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("min_samples", [1, 4, 17])
@pytest.mark.parametrize("subsample", [1.0, 0.7])
def test_min_samples_leaf_in_every_role(rule, min_samples, subsample):
    X, y = mixed_table(500, 1)
    boosted = booster(
        X, y, categorical=[4, 5], split_rule=rule, min_samples_leaf=min_samples, subsample=subsample,
        min_split_gain=-np.inf, num_leaves=60,
    )  # fmt: skip
    n_roles = (role_shares(rule, None) > 0).sum()
    for _ in range(3):
        grown = boosted.iterate()[0]
        leaf, roles = leaves_of(boosted, grown), boosted.roles()
        for k in np.unique(leaf):
            counts = np.bincount(roles[leaf == k], minlength=4)
            assert counts[:n_roles].min() >= min_samples
        assert len(np.unique(leaf)) > 3


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("min_samples", [20, 100, 400])
def test_children_with_any_number_of_rows_are_allowed(rule, min_samples):
    rng = np.random.default_rng(0)
    for n_ones in (2_100, 2_700, 3_300, 4_200, 5_000):
        X = np.zeros((10_000, 1))
        X[rng.permutation(10_000)[:n_ones]] = 1
        y = 2 * X[:, 0] + rng.normal(size=10_000)
        grown = booster(X, y, split_rule=rule, min_samples_leaf=min_samples).iterate()[0]
        assert (grown.node["left"] >= 0).sum() == 1


@pytest.mark.parametrize("rule", ["merged", "standard"])
def test_min_child_weight(rule):
    X, y = mixed_table(500, 1)
    boosted = booster(X, y, categorical=[4, 5], split_rule=rule, min_child_weight=40.0, min_split_gain=-np.inf)
    grown = boosted.iterate()[0]
    sizes = np.unique(leaves_of(boosted, grown), return_counts=True)[1]
    assert sizes.min() >= 40
    assert len(sizes) > 4


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("num_leaves", [2, 3, 4, 5, 31])
def test_num_leaves(rule, num_leaves):
    X, y = mixed_table(500, 1)
    boosted = booster(X, y, split_rule=rule, num_leaves=num_leaves, min_split_gain=-np.inf, min_samples_leaf=1)
    for _ in range(2):
        assert (boosted.iterate()[0].node["left"] < 0).sum() == num_leaves


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("max_depth", [1, 2, 3])
def test_max_depth(rule, max_depth):
    X, y = mixed_table(800, 1)
    boosted = booster(X, y, split_rule=rule, max_depth=max_depth, min_split_gain=-np.inf, min_samples_leaf=1)
    grown = boosted.iterate()[0]
    assert grown.node["depth"].max() == max_depth
    assert (grown.node["left"] < 0).sum() == 2**max_depth


@pytest.mark.parametrize("rule", ALL_RULES)
def test_min_split_gain(rule):
    X, y = mixed_table(500, 1)
    sizes = []
    for limit in (-np.inf, 0.0, 5.0, 1e9):
        boosted = booster(X, y, split_rule=rule, min_split_gain=limit)
        tree = trees_of(boosted, boosted.iterate())
        made = tree.left >= 0
        assert (tree.score[made] >= limit).all()
        sizes.append(len(tree.left))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    assert sizes[0] > sizes[2]


def test_column_samples():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 20)), rng.normal(size=300)
    boosted = booster(X, y, colsample_bytree=0.25, min_split_gain=-np.inf)
    used = [set(trees_of(boosted, boosted.iterate()).feature) - {-1} for _ in range(30)]
    assert max(len(features) for features in used) <= 5
    # every feature has its turn, and trees differ
    assert len(set().union(*used)) == 20
    assert len({frozenset(features) for features in used}) > 20
    by_node = booster(X, y, colsample_bynode=0.25, min_split_gain=-np.inf)
    roots = [int(trees_of(by_node, by_node.iterate()).feature[0]) for _ in range(40)]
    assert len(set(roots)) > 5


def test_no_split_is_better_than_a_bad_one():
    # a node without any candidate is a leaf, also at the root
    X, y = np.ones((50, 2)), np.arange(50.0)
    boosted = booster(X, y)
    tree = trees_of(boosted, boosted.iterate())
    assert tree.left.tolist() == [-1]
    assert tree.value[0] == pytest.approx(0.0, abs=1e-6)
