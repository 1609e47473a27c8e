from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import GroupKFold, KFold

from unbiasedgbm.importance import cross_unbiased_gain, unbiased_gain

from .helpers import load_validation, mixed_table

validation = load_validation()


def estimator(**options: object) -> lightgbm.LGBMClassifier:
    return lightgbm.LGBMClassifier(n_estimators=6, num_leaves=6, n_jobs=1, verbose=-1, **options)


def test_folds_are_averaged_and_their_dependence_is_paid_for() -> None:
    X, targets = mixed_table(1000)
    y = targets["binary"]
    folds = list(KFold(4, shuffle=True, random_state=0).split(X))
    pooled = cross_unbiased_gain(estimator(), X, y, cv=folds, groups={"g": ["a", "gaps"]})
    single = [
        unbiased_gain(
            estimator().fit(X.iloc[rows], y[rows]),
            X.iloc[rows],
            y[rows],
            X.iloc[held],
            y[held],
            groups={"g": ["a", "gaps"]},
        )
        for rows, held in folds
    ]
    np.testing.assert_allclose(pooled.importance, np.mean([r.importance for r in single], axis=0))
    inflation = 1 + 4 * (250 / 750)
    se = np.sqrt(inflation * np.sum([(r.se / 4) ** 2 for r in single], axis=0))
    np.testing.assert_allclose(pooled.se, se)
    assert pooled.settings["variance_inflation"] == inflation
    np.testing.assert_array_equal(pooled.n_splits, np.sum([r.n_splits for r in single], axis=0))
    np.testing.assert_allclose(pooled.per_tree.sum(axis=0), pooled.importance)
    np.testing.assert_allclose(pooled.groups.importance, np.mean([r.groups.importance for r in single], axis=0))


def test_cross_fitting_finds_more_than_one_fold() -> None:
    X, y = validation.toy(5, 1500, "log", strength=0.6)
    pooled = cross_unbiased_gain(estimator(), X, y)
    rows, held = next(iter(KFold(5).split(X)))
    single = unbiased_gain(estimator().fit(X[rows], y[rows]), X[rows], y[rows], X[held], y[held])
    assert pooled.se[0] < single.se[0]
    assert pooled.p_value[0] < 0.01
    assert (pooled.p_value[1:] > 0.05).all()


def test_weights_and_row_groups_reach_the_folds() -> None:
    X, targets = mixed_table(600)
    y, weight = targets["binary"], np.random.default_rng(0).uniform(0.5, 2.0, 600)
    weighted = cross_unbiased_gain(estimator(), X, y, cv=3, sample_weight=weight)
    assert (weighted.importance != cross_unbiased_gain(estimator(), X, y, cv=3).importance).any()
    grouped = cross_unbiased_gain(estimator(), X, y, cv=GroupKFold(3), cv_groups=np.arange(600) // 20)
    assert grouped.settings["n_folds"] == 3


def test_row_groups_and_weights_of_any_type() -> None:
    X, targets = mixed_table(600)
    y, together, weight = targets["binary"], np.arange(600) % 30, np.linspace(0.5, 2.0, 600)
    odd = np.arange(600) + 7
    expected = cross_unbiased_gain(estimator(), X, y, cv=GroupKFold(3), cv_groups=together, sample_weight=weight)
    for groups, weights in (
        (together.tolist(), weight.tolist()),
        (pd.Series(together, index=odd), pd.Series(weight, index=odd)),
        (pl.Series(together), pl.Series(weight)),
    ):
        result = cross_unbiased_gain(estimator(), X, y, cv=GroupKFold(3), cv_groups=groups, sample_weight=weights)
        np.testing.assert_array_equal(result.importance, expected.importance)
    for name in ("cv_groups", "sample_weight"):
        for wrong in (together[:-1], np.append(together, 0)):
            with pytest.raises(ValueError, match=f"{name} must have a value for each of the 600 rows of X, got shape"):
                cross_unbiased_gain(estimator(), X, y, cv=GroupKFold(3), **{name: wrong})


def test_folds_with_different_numbers_of_trees() -> None:
    X, targets = mixed_table(600)
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=60, learning_rate=0.4, early_stopping=True, n_iter_no_change=2, categorical_features="from_dtype",
        random_state=0,
    )  # fmt: skip
    result = cross_unbiased_gain(model, X, targets["regression"], cv=3)
    np.testing.assert_allclose(result.per_tree.sum(axis=0), result.importance)
