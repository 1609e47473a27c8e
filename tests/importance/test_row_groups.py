"""Held-out rows that belong together are one observation."""

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut

from unbiasedgbm import cross_unbiased_gain, unbiased_gain
from unbiasedgbm.importance import sums


def table(rng, n_groups=60, size=10):
    """Nothing but noise: two features that tell groups apart, two that do not, and a target that has groups, too."""
    group = np.repeat(np.arange(n_groups), size)
    X = np.column_stack([rng.normal(size=(n_groups, 2))[group], rng.normal(size=(len(group), 2))])
    y = rng.normal(size=n_groups)[group] + rng.normal(size=len(group))
    return X, y, group


def one_tree(X, y):
    return LGBMRegressor(n_estimators=1, num_leaves=8, min_child_samples=20, n_jobs=1, verbose=-1).fit(X, y)


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    X, y, _ = table(rng)
    X_val, y_val, group = table(rng)
    return HistGradientBoostingRegressor(max_iter=5).fit(X, y), (X, y, X_val, y_val), group


def test_rows_that_are_groups_are_as_without_groups(parts):
    model, tables, group = parts
    plain = unbiased_gain(model, *tables)
    alone = unbiased_gain(model, *tables, row_groups_val=[f"row {k}" for k in range(len(group))])
    for name in ("importance", "se", "df"):
        np.testing.assert_allclose(getattr(plain, name), getattr(alone, name), rtol=1e-12)


def test_a_row_twice_is_one_observation(parts):
    model, (X, y, X_val, y_val), _ = parts
    once = unbiased_gain(model, X, y, X_val, y_val)
    twice = (np.tile(X_val, (2, 1)), np.tile(y_val, 2))
    together = unbiased_gain(model, X, y, *twice, row_groups_val=np.tile(np.arange(len(y_val)), 2))
    np.testing.assert_allclose(together.importance, once.importance, rtol=1e-9)
    np.testing.assert_allclose(together.se, once.se, rtol=1e-9)
    # as if they were two, but for the correction of nodes with few rows
    np.testing.assert_allclose(unbiased_gain(model, X, y, *twice, min_rows=10).se, once.se / np.sqrt(2), rtol=0.05)


def test_groups_of_features_count_groups_of_rows_too(parts):
    model, tables, group = parts
    rows, groups = (unbiased_gain(model, *tables, groups={"both": [0, 1]}, row_groups_val=one) for one in (None, group))
    assert groups.groups.se[0] > 1.3 * rows.groups.se[0]


@pytest.mark.filterwarnings("ignore::unbiasedgbm.importance.gain.FewUsableSplitsWarning")
def test_noise_that_has_groups_is_noise():
    """Of 120 models of noise, the z-scores of two features that tell groups apart must spread as chance has it.

    The standard deviation of 120 normal numbers is between 0.76 and 1.27 in all but one of 10,000 cases. By rows it is
    far above that, and the 5 % test calls noise useful several times too often.
    """
    z = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        X, y, _ = table(rng)
        X_val, y_val, group = table(rng)
        model = one_tree(X, y)
        z.append([unbiased_gain(model, X, y, X_val, y_val, row_groups_val=one).z[:2] for one in (group, None)])
    spread = np.nanstd(z, axis=0)
    assert (spread[0] > 0.76).all()
    assert (spread[0] < 1.27).all()
    assert (spread[1] > 1.8).all()
    # 95 % point of Student's t with few degrees of freedom is higher
    by_groups, by_rows = (np.array(z)[:, k] > 1.645 for k in (0, 1))
    assert by_groups.mean() < 0.1
    assert by_rows.mean() > 0.2


def test_cross_fitting_counts_the_groups_of_its_folds():
    X, y, group = table(np.random.default_rng(1), n_groups=200)
    model = HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=4)
    folds = list(GroupKFold(3).split(X, y, group))
    by_rows = cross_unbiased_gain(model, X, y, cv=folds, min_rows=50)  # five groups, where rows of a group go together
    by_groups = cross_unbiased_gain(model, X, y, cv=GroupKFold(3), cv_groups=group)
    assert (by_groups.se[:2] > 1.3 * by_rows.se[:2]).all()


@pytest.mark.parametrize(
    ("row_groups", "message"),
    [
        (np.zeros(600), "row_groups_val holds one group only"),
        (np.zeros(5), "row_groups_val has 5 entries, but X_val has 600 rows"),
        ([None] * 600, "row_groups_val holds a missing value"),
    ],
)
def test_errors(parts, row_groups, message):
    model, tables, _ = parts
    with pytest.raises(ValueError, match=message):
        unbiased_gain(model, *tables, row_groups_val=row_groups)


def test_rows_of_weight_zero_are_absent(parts):
    model, (X, y, X_val, y_val), group = parts
    # all rows of most groups, and some of the others
    weight = ((group < 12) & (np.arange(len(group)) % 3 > 0)).astype(float)
    there = weight > 0
    whole = unbiased_gain(model, X, y, X_val, y_val, sample_weight_val=weight, row_groups_val=group)
    part = unbiased_gain(model, X, y, X_val[there], y_val[there], row_groups_val=group[there])
    for name in ("importance", "se", "df"):
        np.testing.assert_allclose(getattr(whole, name), getattr(part, name), rtol=1e-9)
    assert part.importance.any()
    with pytest.raises(ValueError, match="one group only"):
        unbiased_gain(model, X, y, X_val, y_val, sample_weight_val=group == 3, row_groups_val=group)


def test_groups_of_a_node_are_counted():
    """The kernel's slow twin: sets of groups, and the masses of each."""
    rng = np.random.default_rng(0)
    #        0 -> 1, 2; 1 -> 3, 4
    parent = np.array([-1, 0, 0, 1, 1], np.int32)
    leaf = rng.choice([2, 3, 4], 50).astype(np.int32)
    groups = rng.integers(0, 12, 50).astype(np.uint32)
    h = rng.integers(0, 2, 50) * rng.uniform(1, 2, 50)
    count, square, mass, last = *np.zeros((3, 5)), np.full(5, -1)
    sums.count_groups(np.argsort(groups, kind="stable"), groups, leaf, h, parent, last, mass, count, square)
    below = {0: [2, 3, 4], 1: [3, 4], 2: [2], 3: [3], 4: [4]}
    assert count.tolist() == [len(set(groups[np.isin(leaf, below[v]) & (h > 0)].tolist())) for v in range(5)]
    for v in range(5):
        masses = np.bincount(groups, h * np.isin(leaf, below[v]))
        assert square[v] == pytest.approx((masses**2).sum(), rel=1e-12)


@pytest.mark.parametrize("cv", [LeaveOneGroupOut(), GroupKFold(6)], ids=str)
def test_a_fold_of_one_group_is_judged_by_its_rows(cv):
    X, y, group = table(np.random.default_rng(3), n_groups=6, size=60)
    y = y + 3 * X[:, 2]
    result = cross_unbiased_gain(HistGradientBoostingRegressor(max_iter=3), X, y, cv=cv, cv_groups=group)
    assert result.p_value[2] < 1e-3


def test_few_groups_judge_what_differs_within_them():
    rng = np.random.default_rng(4)
    X, y, group = table(rng, n_groups=30)
    y = y + 3 * X[:, 2]
    result = cross_unbiased_gain(
        HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=4), X, y, cv=GroupKFold(5), cv_groups=group
    )
    assert result.p_value[2] < 1e-3
