"""Held-out rows that belong together are one observation."""

import inspect

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GroupKFold

from unbiasedgbm import UnbiasedGBMRegressor, cross_unbiased_gain, unbiased_gain


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
    # but for the correction of nodes with few rows
    np.testing.assert_allclose(together.se, once.se, rtol=0.05)
    # as if they were two
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
    assert (spread[1] > 2.0).all()
    # 95 % point of Student's t with few degrees of freedom is higher
    by_groups, by_rows = (np.array(z)[:, k] > 1.645 for k in (0, 1))
    assert by_groups.mean() < 0.1
    assert by_rows.mean() > 0.2


def test_cross_fitting_counts_the_groups_of_its_folds():
    X, y, group = table(np.random.default_rng(1), n_groups=200)
    model = HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=4)
    folds = list(GroupKFold(3).split(X, y, group))
    by_rows = cross_unbiased_gain(model, X, y, cv=folds, min_rows=50)
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


def test_cross_fitting_trains_by_groups(monkeypatch):
    X, y, group = table(np.random.default_rng(2), n_groups=30)
    seen = []
    fit = UnbiasedGBMRegressor.fit

    def watched(self, *arguments, **more):
        seen.append(more.get("groups"))
        return fit(self, *arguments, **more)

    watched.__signature__ = inspect.signature(fit)
    monkeypatch.setattr(UnbiasedGBMRegressor, "fit", watched)
    cross_unbiased_gain(UnbiasedGBMRegressor(n_estimators=2), X, y, cv=GroupKFold(3), cv_groups=group, min_rows=2)
    assert len(seen) == 3
    for groups, (train, _) in zip(seen, GroupKFold(3).split(X, y, group), strict=True):
        assert np.array_equal(groups, group[train])
