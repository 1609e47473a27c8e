from __future__ import annotations

import sys
from typing import Any

import catboost
import lightgbm
import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.inspection import permutation_importance as sklearn_permutation_importance

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.ensemble.adapters import UnsupportedModelError
from unbiasedgbm.export import to_shap
from unbiasedgbm.importance import (
    compare_importances,
    gain_importance,
    permutation_importance,
    shap_importance,
    split_importance,
    unbiased_gain,
)
from unbiasedgbm.importance.comparison import METHODS

from .helpers import mixed_table, numeric

mpl.use("Agg")


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    X, targets = mixed_table(900)
    return numeric(X), targets["regression"]


@pytest.fixture(scope="module")
def lgbm(data: tuple[Any, Any]) -> Any:
    X, y = data
    return lightgbm.LGBMRegressor(n_estimators=10, num_leaves=8, n_jobs=1, verbose=-1).fit(X[:500], y[:500])


def test_gain_and_splits_are_those_of_the_library(data: tuple[Any, Any], lgbm: Any) -> None:
    X, y = data
    np.testing.assert_allclose(gain_importance(lgbm).importance, lgbm.booster_.feature_importance("gain"), rtol=1e-5)
    np.testing.assert_array_equal(split_importance(lgbm).importance, lgbm.booster_.feature_importance("split"))
    xgb = xgboost.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X, y)
    for ours, kind in ((gain_importance(xgb), "total_gain"), (split_importance(xgb), "weight")):
        theirs = xgb.get_booster().get_score(importance_type=kind)
        np.testing.assert_allclose(ours.importance, [theirs.get(f"f{j}", 0.0) for j in range(4)], rtol=1e-5)
    classic = GradientBoostingRegressor(n_estimators=10).fit(X, y)
    gain = gain_importance(classic).importance
    # scikit-learn averages shares over trees; with one tree that is the share of the gain.
    one = GradientBoostingRegressor(n_estimators=1).fit(X, y)
    share = gain_importance(one).importance
    np.testing.assert_allclose(share / share.sum(), one.feature_importances_)
    assert gain.argmax() == classic.feature_importances_.argmax()
    hist = gain_importance(HistGradientBoostingRegressor(max_iter=10).fit(X, y))
    assert hist.importance.argmax() == gain.argmax()
    assert np.isnan(hist.p_value).all()


def test_gain_of_catboost_is_computed(data: tuple[Any, Any]) -> None:
    X, y = data
    model = catboost.CatBoostRegressor(iterations=5, depth=2, verbose=0, thread_count=1, allow_writing_files=False)
    model.fit(X[:500], y[:500])
    with pytest.raises(UnsupportedModelError, match="pass X_train"):
        gain_importance(model)
    result = gain_importance(model, X[:500], y[:500])
    assert (result.importance >= 0.0).all()
    # With a constant hessian and the training rows as held-out rows, unbiased gain is the gain.
    same = unbiased_gain(model, X[:500], y[:500], X[:500], y[:500], min_rows=2)
    np.testing.assert_allclose(result.importance, same.importance)


def test_permutation_is_that_of_scikit_learn(data: tuple[Any, Any], lgbm: Any) -> None:
    X, y = data
    ours = permutation_importance(lgbm, X[500:], y[500:], n_repeats=30)
    theirs = sklearn_permutation_importance(
        lgbm, X[500:], y[500:], scoring="neg_mean_squared_error", n_repeats=30, random_state=1
    )
    # Our loss is half the squared error.
    error = theirs.importances_std / 2 / np.sqrt(15)
    assert (np.abs(ours.importance - theirs.importances_mean / 2) < 4 * error + 1e-12).all()
    assert ours.p_value[0] < 1e-6


def test_permutation_of_any_table() -> None:
    X, targets = mixed_table(800)
    y = targets["binary"]
    model = lightgbm.LGBMClassifier(n_estimators=10, num_leaves=8, n_jobs=1, verbose=-1).fit(X[:400], y[:400])
    result = permutation_importance(model, X[400:], y[400:])
    assert result.p_value[1] < 1e-6 < result.p_value[3]
    weighted = permutation_importance(model, X[400:], y[400:], sample_weight_val=np.linspace(0.0, 1.0, 400))
    assert weighted.importance[0] != result.importance[0]
    frame = pl.from_pandas(X[["a", "gaps"]])
    hist = HistGradientBoostingRegressor(max_iter=5).fit(frame[:400], targets["regression"][:400])
    assert permutation_importance(hist, frame[400:], targets["regression"][400:]).importance[0] > 0.0


@pytest.mark.parametrize(
    "model",
    [
        lightgbm.LGBMRegressor(n_estimators=4, num_leaves=6, n_jobs=1, verbose=-1),
        xgboost.XGBRegressor(n_estimators=4, max_depth=3, n_jobs=1),
        catboost.CatBoostRegressor(iterations=4, depth=3, thread_count=1, verbose=0, allow_writing_files=False),
        HistGradientBoostingRegressor(max_iter=4),
        GradientBoostingRegressor(n_estimators=4),
        UnbiasedGBMRegressor(n_estimators=4, random_state=0, n_jobs=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_lists_are_tables(data: tuple[Any, Any], model: Any) -> None:
    X, y = data
    model.fit(X[:500], y[:500])
    arrays = (X[:500], y[:500], X[500:], y[500:])
    lists = tuple(array.tolist() for array in arrays)
    expected, found = (compare_importances(model, *tables, n_repeats=2).results for tables in (arrays, lists))
    for method in METHODS:
        np.testing.assert_allclose(found[method].importance, expected[method].importance, rtol=1e-6, atol=1e-9)
    rows = [tuple(row) for row in lists[2]]
    permuted = permutation_importance(model, rows, lists[3], n_repeats=2)
    np.testing.assert_allclose(permuted.importance, expected["permutation"].importance, rtol=1e-6, atol=1e-9)


def test_permutation_of_lists_with_text() -> None:
    X, targets = mixed_table(600)
    rows, y = X[["a", "few"]].astype(object).to_numpy().tolist(), targets["binary"].tolist()
    model = UnbiasedGBMClassifier(n_estimators=5, random_state=0, categorical_features=[1]).fit(rows[:300], y[:300])
    assert (permutation_importance(model, rows[300:], y[300:]).importance > 0.0).all()


def test_shap(data: tuple[Any, Any], lgbm: Any) -> None:
    X, _ = data
    result = shap_importance(lgbm, X[500:])
    contributions = lgbm.predict(X[500:], pred_contrib=True)[:, :-1]
    np.testing.assert_allclose(result.importance, np.abs(contributions).mean(axis=0), rtol=1e-6)
    assert (result.se > 0.0).any()
    assert np.isnan(result.p_value).all()


def test_shap_sums_over_classes() -> None:
    X, targets = mixed_table(600)
    y = targets["multiclass"]
    model = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=6, n_jobs=1, verbose=-1).fit(X, y)
    contributions = model.predict(X, pred_contrib=True).reshape(len(X), 4, 5)[:, :, :-1]
    np.testing.assert_allclose(shap_importance(model, X).importance, np.abs(contributions).sum(axis=1).mean(axis=0))
    cat = catboost.CatBoostClassifier(
        iterations=5, cat_features=["many", "few"], verbose=0, thread_count=1, allow_writing_files=False
    ).fit(X, y)
    assert shap_importance(cat, X).importance.argmax() in (0, 1)


def test_comparison_of_our_own_models() -> None:
    X, targets = mixed_table(800)
    for cls, target in (
        (UnbiasedGBMRegressor, "regression"),
        (UnbiasedGBMClassifier, "binary"),
        (UnbiasedGBMClassifier, "multiclass"),
    ):
        y = targets[target]
        for table in (X, numeric(X), pl.from_pandas(X)):
            model = cls(n_estimators=5, random_state=0, n_jobs=1).fit(table[:400], y[:400])
            compared = compare_importances(model, table[:400], y[:400], table[400:], y[400:], n_repeats=1)
            assert tuple(compared.results) == METHODS
            assert compared.to_frame().shape[0] == 4
            values = np.abs(to_shap(model).shap_values(table[400:]))
            expected = values.reshape(400, 4, -1).sum(axis=2).mean(axis=0)
            np.testing.assert_allclose(compared.results["shap"].importance, expected)
            for result in compared.results.values():
                assert result.importance[0] > 0.0
                assert result.feature_names == compared.results["unbiased_gain"].feature_names


def test_comparison_of_a_model_without_splits() -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.ones(60)
    model = UnbiasedGBMRegressor(n_estimators=5).fit(X, y)
    compared = compare_importances(model, X, y, X, y, n_repeats=1)
    for result in compared.results.values():
        np.testing.assert_array_equal(result.importance, 0.0)


def test_shap_without_the_package(monkeypatch: pytest.MonkeyPatch, lgbm: Any, data: tuple[Any, Any]) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ModuleNotFoundError, match=r"unbiasedgbm\[shap\]"):
        shap_importance(lgbm, data[0])


def test_comparison(data: tuple[Any, Any], lgbm: Any) -> None:
    X, y = data
    comparison = compare_importances(lgbm, X[:500], y[:500], X[500:], y[500:], n_repeats=2)
    assert tuple(comparison.results) == METHODS
    frame = comparison.to_frame()
    for method in METHODS:
        assert sorted(frame[f"{method}_rank"]) == [1, 2, 3, 4]
        best = frame[f"{method}_rank"].to_numpy() == 1
        assert frame[method].to_numpy()[best][0] == frame[method].max()
    assert "shap_p_value" not in frame
    assert list(frame["unbiased_gain_rank"]) == [1, 2, 3, 4]
    figure = comparison.plot()
    titles = ["unbiased gain", "gain", "split count", "permutation", "mean |SHAP|"]
    assert [ax.get_xlabel() for ax in figure.axes] == titles
    with pytest.raises(ValueError, match="methods must be some of"):
        compare_importances(lgbm, X, y, X, y, methods=["gini"])
