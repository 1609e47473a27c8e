from __future__ import annotations

from typing import Any

import catboost
import lightgbm
import numpy as np
import pytest
from sklearn import config_context
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from unbiasedgbm.importance import UnbiasedGainSelector

from .helpers import mixed_table, numeric


@parametrize_with_checks(
    [
        UnbiasedGainSelector(
            HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=3),
            mode="k_best",
            param=1,
            min_rows=2,
            random_state=0,
        ),
        UnbiasedGainSelector(
            GradientBoostingRegressor(n_estimators=4, random_state=0),
            mode="fraction",
            param=0.5,
            min_rows=2,
            cv=KFold(2),
        ),
    ]
)
@pytest.mark.filterwarnings("ignore::unbiasedgbm.importance.FewUsableSplitsWarning")
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def noisy_table(n_rows: int = 1500) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 12))
    return X, (X[:, 2] + X[:, 7] + rng.normal(size=n_rows) > 0).astype(int)


def classifier() -> Any:
    return lightgbm.LGBMClassifier(n_estimators=20, num_leaves=6, n_jobs=1, verbose=-1)


@pytest.mark.parametrize(("mode", "param"), [("fdr", 0.1), ("p_value", 0.01), ("k_best", 2), ("fraction", 2 / 12)])
@pytest.mark.parametrize("cv", [None, 5])
def test_modes_find_the_two_useful_features(mode: str, param: float, cv: Any) -> None:
    X, y = noisy_table()
    selector = UnbiasedGainSelector(classifier(), mode=mode, param=param, cv=cv, random_state=0).fit(X, y)
    np.testing.assert_array_equal(selector.get_support(indices=True), [2, 7])
    np.testing.assert_array_equal(selector.transform(X), X[:, [2, 7]])


def test_in_a_pipeline_and_a_search() -> None:
    X, y = noisy_table()
    pipeline = make_pipeline(UnbiasedGainSelector(classifier(), random_state=0), LogisticRegression())
    search = GridSearchCV(pipeline, {"unbiasedgainselector__param": [0.1, 0.01]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.7
    assert search.best_estimator_[-1].coef_.shape == (1, 2)


def test_frames_keep_their_categories_and_names() -> None:
    X, targets = mixed_table(1200)
    selector = UnbiasedGainSelector(
        HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype"), mode="k_best", param=2,
        random_state=0,
    ).fit(X, targets["regression"])  # fmt: skip
    assert set(selector.get_feature_names_out()) == {"a", "many"}
    assert list(selector.set_output(transform="pandas").transform(X).columns) == ["a", "many"]


def test_weights_are_used() -> None:
    X, y = noisy_table()
    # Rows of weight zero hide the second useful feature.
    X = np.column_stack([X, np.where(np.arange(len(y)) < 900, y, 0.5)])
    weight = (np.arange(len(y)) >= 900).astype(float)
    seen = UnbiasedGainSelector(classifier(), mode="k_best", param=1, random_state=0)
    assert seen.fit(X, y).get_support(indices=True)[0] == 12
    assert seen.fit(X, y, sample_weight=weight).get_support(indices=True)[0] != 12


@pytest.mark.parametrize("cv", [None, KFold(3)])
def test_weights_are_routed(cv: Any) -> None:
    X, y = noisy_table()
    weight = np.random.default_rng(1).uniform(0.0, 2.0, len(y))
    expected = UnbiasedGainSelector(classifier(), cv=cv, random_state=0).fit(X, y, sample_weight=weight).importance_
    plain = UnbiasedGainSelector(classifier(), cv=cv, random_state=0).fit(X, y).importance_
    with config_context(enable_metadata_routing=True):
        for name, request in (("sample_weight", True), ("trust", "trust")):
            inner = classifier().set_fit_request(sample_weight=request)
            selector = UnbiasedGainSelector(inner, cv=cv, random_state=0)
            direct = selector.fit(X, y, **{name: weight}).importance_
            np.testing.assert_array_equal(direct.importance, expected.importance)
            last = LogisticRegression().set_fit_request(sample_weight=False)
            pipeline = make_pipeline(selector, last).fit(X, y, **{name: weight})
            np.testing.assert_array_equal(pipeline[0].importance_.importance, expected.importance)
        silent = make_pipeline(UnbiasedGainSelector(inner, cv=cv, random_state=0), LogisticRegression()).fit(X, y)
        np.testing.assert_array_equal(silent[0].importance_.importance, plain.importance)


def test_routing_is_that_of_scikit_learn_s_selector() -> None:
    X, y = noisy_table(300)
    weight = np.ones(300)
    with config_context(enable_metadata_routing=True):
        for cls in (UnbiasedGainSelector, SelectFromModel):
            with pytest.raises(UnsetMetadataPassedError, match=r"LGBMClassifier\.fit"):
                cls(classifier()).fit(X, y, sample_weight=weight)
            with pytest.raises(TypeError, match="sample_weight"):
                cls(classifier().set_fit_request(sample_weight=False)).fit(X, y, sample_weight=weight)
            routing = cls(classifier().set_fit_request(sample_weight="trust")).get_metadata_routing()
            assert routing.consumes("fit", ["trust", "sample_weight", "groups"]) == {"trust"}
            assert not hasattr(cls(classifier()), "set_fit_request")
        asked = classifier().set_fit_request(feature_name=True)
        with pytest.raises(TypeError, match="'feature_name'"):
            UnbiasedGainSelector(asked).fit(X, y, feature_name=["a"])


def test_weights_and_groups_are_routed_through_cross_validation() -> None:
    X, y = noisy_table(900)
    weight, groups = np.random.default_rng(1).uniform(0.0, 2.0, 900), np.arange(900) // 10
    with config_context(enable_metadata_routing=True):
        inner = classifier().set_fit_request(sample_weight=True)
        last = LogisticRegression().set_fit_request(sample_weight=False).set_score_request(sample_weight=True)
        pipeline = make_pipeline(UnbiasedGainSelector(inner, cv=GroupKFold(3), mode="k_best", param=2), last)
        found = cross_validate(
            pipeline, X, y, params={"sample_weight": weight, "groups": groups}, cv=GroupKFold(2), return_estimator=True
        )
    rows, _ = next(iter(GroupKFold(2).split(X, y, groups)))
    alone = UnbiasedGainSelector(classifier(), cv=GroupKFold(3), mode="k_best", param=2)
    expected = alone.fit(X[rows], y[rows], sample_weight=weight[rows], groups=groups[rows]).importance_
    np.testing.assert_array_equal(found["estimator"][0][0].importance_.importance, expected.importance)
    assert (found["test_score"] > 0.6).all()


def test_groups_of_rows_stay_together() -> None:
    X, y = noisy_table(600)
    groups = np.arange(600) // 10
    selector = UnbiasedGainSelector(classifier(), cv=GroupKFold(3)).fit(X, y, groups=groups.tolist())
    assert selector.importance_.settings["n_folds"] == 3
    # What would ignore the groups is refused, with routing or without.
    folds = list(KFold(3).split(X))
    for cv, got in ((None, "None"), (3, "3"), (folds, "a list of folds"), (iter(folds), "a list_iterator of folds")):
        selector = UnbiasedGainSelector(classifier(), cv=cv)
        with pytest.raises(ValueError, match=f"groups needs a cv .* got cv={got}"):
            selector.fit(X, y, groups=groups)
        with config_context(enable_metadata_routing=True), pytest.raises(TypeError, match="groups"):
            selector.fit(X, y, groups=groups)
    with pytest.raises(
        ValueError, match=r"^groups must have a value for each of the 600 rows of X, got shape \(599,\)"
    ):
        UnbiasedGainSelector(classifier(), cv=GroupKFold(3)).fit(X, y, groups=groups[1:])


@pytest.mark.parametrize("cv", [None, KFold(3)])
def test_an_estimator_without_requests_gets_weights(cv: Any) -> None:
    X, y = noisy_table(600)
    weight = np.random.default_rng(1).uniform(0.0, 2.0, 600)
    model = catboost.CatBoostClassifier(iterations=5, depth=2, verbose=0, thread_count=1, allow_writing_files=False)
    assert not hasattr(model, "get_metadata_routing")
    selector = UnbiasedGainSelector(model, cv=cv, random_state=0)
    plain, expected = (selector.fit(X, y, **w).importance_.importance for w in ({}, {"sample_weight": weight}))
    assert np.abs(plain - expected).max() > 0.0
    with config_context(enable_metadata_routing=True):
        assert selector.get_metadata_routing().consumes("fit", ["sample_weight", "groups"]) == {"sample_weight"}
        np.testing.assert_array_equal(selector.fit(X, y, sample_weight=weight).importance_.importance, expected)
        last = LogisticRegression().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(selector, last).fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(pipeline[0].importance_.importance, expected)
        np.testing.assert_array_equal(selector.fit(X, y).importance_.importance, plain)
        with pytest.raises(TypeError, match="baseline"):
            selector.fit(X, y, baseline=weight)


def test_errors_name_the_parameter() -> None:
    X, y = noisy_table(200)
    for options, message in (
        ({"mode": "best"}, "mode must be one of"),
        ({"mode": "k_best", "param": 0}, "param must be at least 1"),
        ({"param": 2.0}, "param must lie in"),
        ({"held_out": 1.0}, "held_out must lie"),
    ):
        with pytest.raises(ValueError, match=message):
            UnbiasedGainSelector(classifier(), **options).fit(X, y)
    with pytest.raises(TypeError, match="'eval_set'"):
        UnbiasedGainSelector(classifier()).fit(numeric(mixed_table(50)[0]), np.zeros(50), eval_set=[])


def test_nothing_selected_is_said_aloud() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
    with pytest.warns(UserWarning, match=r"No feature is selected: the smallest adjusted p-value is 0\.\d+.*k_best"):
        selector = UnbiasedGainSelector(classifier(), param=0.001, random_state=0).fit(X, y)
    assert not selector.get_support().any()


def test_folds_suit_small_classes() -> None:
    X, y = noisy_table(300)
    y[:2], y[2:] = 2, y[2:] % 2
    selector = UnbiasedGainSelector(classifier(), mode="k_best", param=2, random_state=0).fit(X, y)
    assert selector.importance_.settings["n_folds"] == 2
    y[0] = 3
    model = HistGradientBoostingRegressor(max_iter=3)
    assert (
        UnbiasedGainSelector(model, mode="k_best", random_state=0, param=1).fit(X, y).importance_.settings["n_folds"]
        == 5
    )


def test_pipelines_and_classes_of_one_row_are_refused() -> None:
    X, y = noisy_table(200)
    with pytest.raises(TypeError, match="put its other steps before the selector"):
        UnbiasedGainSelector(make_pipeline(LogisticRegression(), classifier())).fit(X, y)
    y[:], y[0] = 0, 1
    with pytest.raises(ValueError, match="a class with one row, which cannot both train and judge"):
        UnbiasedGainSelector(classifier()).fit(X, y)
