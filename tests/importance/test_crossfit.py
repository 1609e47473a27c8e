from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from unbiasedgbm.importance import FewUsableSplitsWarning, cross_unbiased_gain, unbiased_gain

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
    # Measured, see validation; a fold that does not use a feature has the variance of the others.
    inflation = pooled.settings["variance_inflation"]
    assert inflation == 1.6
    each = np.array([np.where(r.n_splits > 0, r.se**2, np.nan) for r in single])
    used = ~np.isnan(each).all(axis=0)
    mean = np.array([np.nanmean(column) for column in each.T[used]])
    se = np.sqrt(inflation * np.where(np.isnan(each[:, used]), mean, each[:, used]).sum(axis=0) / 16)
    np.testing.assert_allclose(pooled.se[used], se)
    assert np.isnan(pooled.se[~used]).all()
    assert (pooled.p_value[~used] == 1.0).all()
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


def test_a_feature_that_no_fold_uses_has_no_interval() -> None:
    X = np.column_stack([np.random.default_rng(0).normal(size=400), np.zeros(400)])
    y = (X[:, 0] > 0).astype(int)
    result = cross_unbiased_gain(estimator(), X, y, cv=3)
    assert np.isnan([result.se[1], result.ci_low[1], result.ci_high[1]]).all()
    assert result.importance[1] == result.z[1] == 0.0
    assert result.p_value[1] == result.p_adjusted[1] == 1.0
    assert result.ranking()[-1] == 1
    assert "no split" in repr(result)


def test_pipelines() -> None:
    X, targets = mixed_table(900)
    X, y, weight = X[["a", "gaps"]], targets["binary"], np.linspace(0.5, 2.0, 900)
    pipeline = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler(), estimator())
    result = cross_unbiased_gain(pipeline, X, y, cv=3, sample_weight=weight)
    assert result.feature_names == ("a", "gaps", "missingindicator_gaps")
    assert result.p_value[0] < 1e-3
    by_hand = []
    for rows, held in StratifiedKFold(3).split(X, y):
        steps = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()).fit(X.iloc[rows])
        train, other = steps.transform(X.iloc[rows]), steps.transform(X.iloc[held])
        model = estimator().fit(train, y[rows], sample_weight=weight[rows])
        weights = {"sample_weight_train": weight[rows], "sample_weight_val": weight[held]}
        by_hand.append(unbiased_gain(model, train, y[rows], other, y[held], **weights).importance)
    np.testing.assert_allclose(result.importance, np.mean(by_hand, axis=0))


def test_what_cannot_be_fitted_anew_is_refused() -> None:
    X, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 2
    booster = estimator().fit(X, y).booster_
    with pytest.raises(TypeError, match=r"got a lightgbm\.basic\.Booster, which cannot be trained anew.*unbiased_gain"):
        cross_unbiased_gain(booster, X, y)
    with pytest.raises(TypeError, match=r"got the class LGBMClassifier: write LGBMClassifier\(\)"):
        cross_unbiased_gain(lightgbm.LGBMClassifier, X, y)


def test_small_folds_are_said_aloud_once() -> None:
    X, targets = mixed_table(120)
    with pytest.warns(FewUsableSplitsWarning, match="A fold of 24 held-out rows gives rough standard errors") as caught:
        cross_unbiased_gain(estimator(), X, targets["binary"])
    assert [one.filename for one in caught] == [__file__]
    X, targets = mixed_table(600)
    with pytest.warns(FewUsableSplitsWarning, match="In 5 of 5 folds, most of what the model's splits do") as caught:
        cross_unbiased_gain(estimator(), X, targets["binary"], min_rows=80)
    assert len(caught) == 1


def test_rows_that_are_held_out_again_say_no_more() -> None:
    X, targets = mixed_table(600)
    y = targets["binary"]
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    once, twice = (cross_unbiased_gain(estimator(), X, y, cv=folds * times) for times in (1, 2))
    np.testing.assert_allclose(twice.importance, once.importance)
    np.testing.assert_allclose(twice.se, once.se)


def test_steps_that_choose_other_columns_in_each_fold_are_refused() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 20)), rng.normal(size=400)
    pipeline = make_pipeline(SelectKBest(f_regression, k=3), lightgbm.LGBMRegressor(n_estimators=3, verbose=-1))
    with pytest.raises(ValueError, match=r"estimator: its steps give other columns in fold \d than in fold 1"):
        cross_unbiased_gain(pipeline, X, y, cv=4)


def test_pipelines_of_one_step_and_groups_by_their_names() -> None:
    X, targets = mixed_table(600)
    y = targets["binary"]
    alone = cross_unbiased_gain(Pipeline([("model", estimator())]), X, y, cv=3)
    np.testing.assert_array_equal(alone.importance, cross_unbiased_gain(estimator(), X, y, cv=3).importance)
    pipeline = make_pipeline(SimpleImputer(add_indicator=True), estimator())
    groups = {"gaps": ["gaps", "missingindicator_gaps"]}
    result = cross_unbiased_gain(pipeline, X[["a", "gaps"]], y, cv=3, groups=groups)
    assert result.groups.feature_names == ("gaps",)


def test_weights_of_zero_in_a_fold() -> None:
    X, targets = mixed_table(600)
    y, weight = targets["binary"], np.ones(600)
    weight[:220] = 0.0
    with pytest.raises(ValueError, match="sample_weight is zero for all held-out rows of fold 1"):
        cross_unbiased_gain(estimator(), X, y, cv=KFold(3), sample_weight=weight)
    # One group alone has weight in the first fold: rows are counted there.
    together = np.arange(600) // 50
    weight = (together != 0).astype(float)
    assert np.isfinite(cross_unbiased_gain(
        estimator(), X, y, cv=GroupKFold(6), cv_groups=together, sample_weight=weight, min_rows=2
    ).importance).all()  # fmt: skip
    with pytest.raises(ValueError, match="cv gives no folds"):
        cross_unbiased_gain(estimator(), X, y, cv=[])


def test_few_groups_are_named_as_the_reason() -> None:
    X, targets = mixed_table(1000)
    together = np.arange(1000) // 50
    with pytest.warns(FewUsableSplitsWarning, match="splits need rows of min_rows groups on both sides.*more groups"):
        cross_unbiased_gain(estimator(), X, targets["binary"], cv=GroupKFold(5), cv_groups=together)
