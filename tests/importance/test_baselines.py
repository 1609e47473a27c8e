from __future__ import annotations

import sys
from typing import Any

import catboost
import lightgbm
import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from scipy import sparse
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.inspection import permutation_importance as sklearn_permutation_importance

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.ensemble.adapters import UnsupportedModelError, read_model
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
from unbiasedgbm.importance.gain import TrainingRowsWarning

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
    with pytest.warns(TrainingRowsWarning):
        same = unbiased_gain(model, X[:500], y[:500], X[:500], y[:500], min_rows=2, paper_sums=True)
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


MODELS = [
    lightgbm.LGBMRegressor(n_estimators=4, num_leaves=6, n_jobs=1, verbose=-1),
    xgboost.XGBRegressor(n_estimators=4, max_depth=3, n_jobs=1),
    catboost.CatBoostRegressor(iterations=4, depth=3, thread_count=1, verbose=0, allow_writing_files=False),
    HistGradientBoostingRegressor(max_iter=4),
    GradientBoostingRegressor(n_estimators=4),
    UnbiasedGBMRegressor(n_estimators=4, random_state=0, n_jobs=1),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_columns_may_be_numbered(data: tuple[Any, Any], model: Any) -> None:
    X, y = data
    model.fit(X[:500], y[:500])
    expected = compare_importances(model, X[:500], y[:500], X[500:], y[500:], n_repeats=2).results
    # with row numbers that are not those of the rows
    frame = pd.DataFrame(X, index=np.arange(len(X))[::-1])
    before = frame.copy()
    model.fit(frame[:500], y[:500])
    found = compare_importances(model, frame[:500], y[:500], frame[500:], y[500:], n_repeats=2).results
    for method in METHODS:
        np.testing.assert_allclose(found[method].importance, expected[method].importance, rtol=1e-6, atol=1e-9)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_shap_of_a_table_with_more_columns(data: tuple[Any, Any], model: Any) -> None:
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    model.fit(frame[:500], y[:500])
    expected = shap_importance(model, frame[500:])
    further = frame.assign(z=1.0)[["z", "d", "a", "c", "b"]]
    for table in (further, frame.assign(z=1.0)):
        found = shap_importance(model, table[500:])
        assert found.feature_names == tuple("abcd")
        np.testing.assert_allclose(found.importance, expected.importance)
        np.testing.assert_allclose(found.se, expected.se)
    # without names there is no telling
    model.fit(X[:500], y[:500])
    wide = np.column_stack([X, np.ones(len(X))])
    if isinstance(model, catboost.CatBoost):
        np.testing.assert_allclose(shap_importance(model, wide[500:]).importance, expected.importance)
    else:
        with pytest.raises(Exception, match=r"4 columns of the model, got 5|5 features|data \(5\)|Check failed"):
            shap_importance(model, wide[500:])


@pytest.mark.parametrize("model", MODELS[1:], ids=lambda model: type(model).__name__)
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_made_up_names_tell_no_columns(data: tuple[Any, Any], model: Any) -> None:
    X, y = data
    model.fit(X[:500], y[:500])
    names = read_model(model).feature_names
    turned = pd.DataFrame(X, columns=names[::-1])[500:]
    np.testing.assert_array_equal(model.predict(turned), model.predict(X[500:]))
    for of_table in (shap_importance, lambda model, table: permutation_importance(model, table, y[500:])):
        found, expected = (of_table(model, table) for table in (turned, X[500:]))
        np.testing.assert_allclose(found.importance, expected.importance, rtol=1e-6)


def test_catboost_finds_columns_by_name(data: tuple[Any, Any]) -> None:
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    options = {"iterations": 8, "depth": 3, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
    model = catboost.CatBoostRegressor(**options).fit(frame[:500], y[:500])
    expected = permutation_importance(model, frame[500:], y[500:])
    for names in (["d", "c", "a", "b"], ["z", "d", "a", "c", "b"], ["a", "b", "c", "d", "z"]):
        table = frame.assign(z=1.0)[names][500:]
        np.testing.assert_array_equal(model.predict(table), model.predict(frame[500:]))
        for one in (table, pl.from_pandas(table)):
            found = permutation_importance(model, one, y[500:])
            assert found.feature_names == tuple("abcd")
            np.testing.assert_array_equal(found.importance, expected.importance)
            np.testing.assert_array_equal(found.se, expected.se)
    # Trained on columns without names, it goes by position, whatever their names are now.
    plain = catboost.CatBoostRegressor(**options).fit(X[:500], y[:500])
    assert plain.feature_names_ == list("0123")
    for names in (list("3102"), [3, 1, 0, 2]):
        table = pd.DataFrame(X, columns=names)[500:]
        np.testing.assert_array_equal(plain.predict(table), plain.predict(X[500:]))
        np.testing.assert_array_equal(permutation_importance(plain, table, y[500:]).importance, expected.importance)
        np.testing.assert_allclose(shap_importance(plain, table).importance, shap_importance(plain, X[500:]).importance)


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix"])
def test_permutation_of_sparse_tables(data: tuple[Any, Any], kind: str) -> None:
    X, y = data
    dense = np.where(np.abs(X) < 0.7, np.nan, X)
    table = getattr(sparse, kind)(np.nan_to_num(dense))
    # XGBoost takes what is not stored for missing
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1).fit(table[:500], y[:500])
    np.testing.assert_array_equal(model.predict(table), model.predict(dense))
    before = table.copy()
    found, expected = (permutation_importance(model, one[500:], y[500:]) for one in (table, dense))
    np.testing.assert_array_equal(found.importance, expected.importance)
    np.testing.assert_array_equal(found.se, expected.se)
    assert (table != before).nnz == 0


def test_permutation_wants_a_table_and_repeats(data: tuple[Any, Any], lgbm: Any) -> None:
    X, y = data
    with pytest.raises(ValueError, match="n_repeats must be at least 1, got 0"):
        permutation_importance(lgbm, X[500:], y[500:], n_repeats=0)
    booster = xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(X, y)
    with pytest.raises(TypeError, match=r"X_val must be a table: .*; got a DMatrix"):
        permutation_importance(booster, xgboost.DMatrix(X), y)
    cat = catboost.CatBoostRegressor(iterations=2, verbose=0, allow_writing_files=False).fit(X, y)
    with pytest.raises(TypeError, match=r"X_val must be a table: .*; got a Pool"):
        permutation_importance(cat, catboost.Pool(X), y)
    with pytest.raises(TypeError, match=r"X_val must be a table"):
        permutation_importance(lgbm, X[500:, 0], y[500:])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
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
    for wrong in (["gini"], "gini", (), ["gain", "gini"]):
        with pytest.raises(ValueError, match="methods must be some of"):
            compare_importances(lgbm, X[:500], y[:500], X[500:], y[500:], methods=wrong)
    one = compare_importances(lgbm, X[:500], y[:500], X[500:], y[500:], methods="gain").results
    assert list(one) == ["gain"]
    np.testing.assert_array_equal(one["gain"].importance, gain_importance(lgbm).importance)


def test_comparison_knows_groups_of_rows_levels_and_few_rows(data: tuple[Any, Any], lgbm: Any) -> None:
    X, y = data
    tables = (X[:500], y[:500], X[500:], y[500:])
    options = {"row_groups_val": np.arange(400) // 4, "level": 0.8, "min_rows": 60}
    methods = ("unbiased_gain", "permutation")
    plain = compare_importances(lgbm, *tables, n_repeats=2, methods=methods).results
    found = compare_importances(lgbm, *tables, n_repeats=2, methods=methods, **options).results
    expected = unbiased_gain(lgbm, *tables, **options)
    for name in ("importance", "se", "df", "n_splits", "level"):
        np.testing.assert_array_equal(getattr(found["unbiased_gain"], name), getattr(expected, name))
    assert found["permutation"].level == 0.8
    for name, value in options.items():
        alone = compare_importances(lgbm, *tables, methods="unbiased_gain", **{name: value}).results["unbiased_gain"]
        changed = [
            not np.array_equal(getattr(alone, one), getattr(plain["unbiased_gain"], one))
            for one in ("se", "level", "n_splits")
        ]
        assert any(changed), name
