"""Labels of models that keep none: an error that names y, never gradients of another target."""

from __future__ import annotations

from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.ensemble.adapters import read_model
from unbiasedgbm.ensemble.adapters.objectives import ClassEncoder
from unbiasedgbm.importance import unbiased_gain
from unbiasedgbm.losses import LogLoss, SquaredError

from ..helpers import mixed_table, numeric

pytestmark = pytest.mark.filterwarnings("ignore::unbiasedgbm.importance.gain.TrainingRowsWarning")

X, TARGETS = mixed_table(400)
X = numeric(X)
BINARY, FOUR = TARGETS["numbers"], TARGETS["multiclass"]


def xgb(objective: str, y: Any, **options: Any) -> Any:
    return xgboost.train({"objective": objective, "nthread": 1, **options}, xgboost.DMatrix(X, y), 3)


def lgb(objective: str, y: Any, **options: Any) -> Any:
    parameters = {"objective": objective, "num_threads": 1, "verbose": -1, **options}
    return lightgbm.train(parameters, lightgbm.Dataset(X, y), 3)


def cat(objective: str, y: Any) -> Any:
    parameters = {"loss_function": objective, "iterations": 3, "thread_count": 1, "allow_writing_files": False}
    return catboost.CatBoost(parameters | {"verbose": 0}).fit(X, y)


BOOSTERS = {
    "xgboost": xgb("binary:logistic", BINARY),
    "xgboost raw": xgb("binary:logitraw", BINARY),
    "lightgbm": lgb("binary", BINARY),
    "lightgbm shares": lgb("cross_entropy", BINARY),
    "catboost shares": cat("CrossEntropy", BINARY),
}


@pytest.mark.parametrize("name", BOOSTERS)
def test_a_binary_booster_wants_zeros_and_ones(name: str) -> None:
    booster = BOOSTERS[name]
    expected = unbiased_gain(booster, X, BINARY, X, BINARY).importance
    for same in (BINARY == 1, BINARY.astype(str), BINARY.tolist(), BINARY.astype(object)):
        np.testing.assert_array_equal(unbiased_gain(booster, X, same, X, BINARY).importance, expected)
    refused = [(BINARY + 1, "2")]
    if name != "lightgbm":
        refused += [(2 * BINARY - 1, "-1"), ((2 * BINARY - 1).astype(str), "-1")]
    for wrong, value in refused:
        with pytest.raises(ValueError, match=f"y holds {value}, .* classes as 0 and 1"):
            unbiased_gain(booster, X, wrong, X, wrong)
    with pytest.raises(ValueError, match="y must hold numbers"):
        unbiased_gain(booster, X, np.where(BINARY == 1, "yes", "no"), X, BINARY)


def test_lightgbm_s_positive_class_is_what_lies_above_zero() -> None:
    expected = unbiased_gain(BOOSTERS["lightgbm"], X, BINARY, X, BINARY).importance
    signs = 2 * BINARY - 1
    estimator = lightgbm.LGBMModel(objective="binary", n_estimators=3, n_jobs=1, verbose=-1).fit(X, signs)
    for model in (lgb("binary", signs), estimator):
        for same in (signs, signs.astype(str), BINARY):
            np.testing.assert_array_equal(unbiased_gain(model, X, same, X, signs).importance, expected)
        only_ones = unbiased_gain(model, X, signs, X[signs > 0], signs[signs > 0])
        np.testing.assert_array_equal(
            only_ones.importance, unbiased_gain(model, X, BINARY, X[signs > 0], BINARY[signs > 0]).importance
        )
        for wrong, value in ((np.arange(400) % 3 - 1, "0"), (BINARY - 2, "-2"), (0.5 * signs, r"-?0\.5")):
            with pytest.raises(ValueError, match=f"y holds {value}, .* classes as 0 and 1, or as -1 and 1"):
                unbiased_gain(model, X, wrong, X, wrong)
    missing = np.where(np.arange(400) == 7, np.nan, signs)
    with pytest.raises(ValueError, match="y_train holds a value that is missing"):
        unbiased_gain(BOOSTERS["lightgbm"], X, missing, X, signs)


def test_shares_are_targets_where_the_library_takes_them() -> None:
    shares = np.clip(0.8 * BINARY + 0.1, 0.0, 1.0)
    for booster in (xgb("reg:logistic", shares), lgb("cross_entropy", shares), cat("CrossEntropy", shares)):
        np.testing.assert_array_equal(read_model(booster).encode(shares), shares)
    with pytest.raises(ValueError, match=r"y holds 0\.\d, "):
        read_model(BOOSTERS["lightgbm"]).encode(shares)


def test_a_multiclass_booster_wants_class_numbers() -> None:
    for booster in (
        xgb("multi:softprob", FOUR, num_class=4),
        lgb("multiclass", FOUR, num_class=4),
        lgb("multiclassova", FOUR, num_class=4),
    ):
        unbiased_gain(booster, X, FOUR, X, FOUR.astype(float))
        for wrong, value in ((FOUR + 1, "4"), (FOUR - 1, "-1"), (FOUR + 0.5, r"\d\.5")):
            with pytest.raises(ValueError, match=f"y holds {value}, .* classes as 0 to 3"):
                unbiased_gain(booster, X, FOUR, X, wrong)


def test_catboost_keeps_its_labels() -> None:
    expected = unbiased_gain(cat("Logloss", BINARY), X, BINARY, X, BINARY).importance
    for labels in (BINARY + 1, 2 * BINARY - 1, np.where(BINARY == 1, "yes", "no")):
        model = cat("Logloss", labels)
        np.testing.assert_allclose(unbiased_gain(model, X, labels, X, labels).importance, expected)
        with pytest.raises(ValueError, match="y holds the label 7"):
            unbiased_gain(model, X, np.full(400, 7), X, labels)


def classifiers() -> list[Any]:
    return [
        lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1),
        xgboost.XGBClassifier(n_estimators=3, n_jobs=1),
        catboost.CatBoostClassifier(iterations=3, thread_count=1, verbose=0, allow_writing_files=False),
        GradientBoostingClassifier(n_estimators=3),
        HistGradientBoostingClassifier(max_iter=3),
        RandomForestClassifier(3, random_state=0),
        UnbiasedGBMClassifier(n_estimators=3, random_state=0, n_jobs=1),
    ]


@pytest.mark.parametrize("model", classifiers(), ids=lambda model: type(model).__name__)
def test_labels_are_equal_if_their_numbers_are(model: Any) -> None:
    model.fit(X, FOUR)
    expected = unbiased_gain(model, X, FOUR, X, FOUR).importance
    numbers = FOUR.astype(float)
    for same in (
        numbers,
        numbers.astype(object),
        numbers.tolist(),
        FOUR.astype(object),
        FOUR[:, None],
        pd.Series(FOUR, dtype="Int64"),
        pd.Series(numbers, dtype="category"),
    ):
        np.testing.assert_array_equal(unbiased_gain(model, X, same, X, same).importance, expected)
    for wrong, label in ((numbers + 0.5, r"\d\.5"), (numbers + 4.0, r"[4-7]")):
        with pytest.raises(ValueError, match=f"y .*{label}"):
            unbiased_gain(model, X, FOUR, X, wrong.astype(object))


def test_labels_are_numbers_or_text() -> None:
    for classes, labels, expected in (
        ([0, 1], np.array([1.0, 0.0], dtype=object), [1, 0]),
        ([0, 1], np.array([True, False], dtype=object), [1, 0]),
        ([0, 1], np.array(["1", "0"]), [1, 0]),
        (np.array([0, 1], dtype=object), np.array([1.0, 0.0]), [1, 0]),
        (np.array([0.0, 1.0]), np.array([1, 0], dtype=object), [1, 0]),
        ([False, True], np.array([1.0, 0.0], dtype=object), [1, 0]),
        ([False, True], np.array(["True", "False"]), [1, 0]),
        (["0", "1"], np.array([1, 0]), [1, 0]),
        (["0.0", "1.0"], np.array([1.0, 0.0], dtype=object), [1, 0]),
        # as numbers of double precision they would be one
        ([2**62, 2**62 + 1], np.array([2**62 + 1, 2**62], dtype=object), [1, 0]),
    ):
        np.testing.assert_array_equal(ClassEncoder(classes)(labels), expected)
    for labels in (np.array([0, None], dtype=object), np.array([0.0, np.nan]), np.array([0, "zero"], dtype=object)):
        with pytest.raises(ValueError, match="y holds the label"):
            ClassEncoder([0, 1])(labels)


@pytest.mark.parametrize(
    "model",
    [
        lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1),
        xgboost.XGBRegressor(n_estimators=3, n_jobs=1),
        catboost.CatBoostRegressor(iterations=3, thread_count=1, verbose=0, allow_writing_files=False),
        GradientBoostingRegressor(n_estimators=3),
        HistGradientBoostingRegressor(max_iter=3),
        RandomForestRegressor(3, random_state=0),
        UnbiasedGBMRegressor(n_estimators=3, random_state=0, n_jobs=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_further_columns_of_y_are_for_a_loss_of_one_s_own(model: Any) -> None:
    y = TARGETS["regression"]
    model.fit(X, y)
    expected = unbiased_gain(model, X, y, X, y).importance
    two = np.column_stack([y, y])
    for tables in ((X, two, X, y), (X, y, X, two)):
        with pytest.raises(ValueError, match=r"y must have one column, got an array of shape \(400, 2\)"):
            unbiased_gain(model, *tables)
    np.testing.assert_array_equal(unbiased_gain(model, X, y[:, None], X, pd.DataFrame(y)).importance, expected)

    def loss(y: Any, raw: Any) -> Any:
        assert y.shape == (400, 2)
        return SquaredError().gradients(y[:, 0], raw)

    np.testing.assert_allclose(unbiased_gain(model, X, two, X, two, loss=loss).importance, expected)


def test_two_columns_are_no_labels() -> None:
    for model in classifiers():
        with pytest.raises(ValueError, match="y must have one column"):
            unbiased_gain(model.fit(X, BINARY), X, np.column_stack([BINARY, BINARY]), X, BINARY)
    for booster in BOOSTERS.values():
        with pytest.raises(ValueError, match="y must have one column"):
            unbiased_gain(booster, X, BINARY, X, np.column_stack([BINARY, BINARY]))


def test_weights_of_labels_go_by_the_first_column() -> None:
    for train in (xgb, lgb):
        booster = train("binary:logistic" if train is xgb else "binary", BINARY, scale_pos_weight=3.0)
        expected = unbiased_gain(booster, X, BINARY, X, BINARY).importance
        y = np.column_stack([BINARY, 7.0 * np.ones(400)])
        given = unbiased_gain(booster, X, y, X, y, loss=lambda y, raw: LogLoss().gradients(y[:, 0], raw))
        np.testing.assert_allclose(given.importance, expected)


def test_a_given_loss_sees_any_target() -> None:
    for booster in (BOOSTERS["xgboost"], BOOSTERS["lightgbm"]):
        expected = unbiased_gain(booster, X, BINARY, X, BINARY).importance
        loss = lambda y, raw: LogLoss().gradients((y > 1.5).astype(float), raw)  # noqa: E731
        given = unbiased_gain(booster, X, BINARY + 1, X, BINARY + 1, loss=loss)
        np.testing.assert_allclose(given.importance, expected, rtol=1e-6)
