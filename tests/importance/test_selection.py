from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
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
@pytest.mark.parametrize("cv", [None, 3])
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
