"""Labels of models that keep none: an error that names y, never gradients of another target."""

from __future__ import annotations

from typing import Any

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost

from unbiasedgbm.ensemble.adapters import read_model
from unbiasedgbm.importance import unbiased_gain
from unbiasedgbm.losses import LogLoss

from ..helpers import mixed_table, numeric

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


def test_a_given_loss_sees_any_target() -> None:
    for booster in (BOOSTERS["xgboost"], BOOSTERS["lightgbm"]):
        expected = unbiased_gain(booster, X, BINARY, X, BINARY).importance
        loss = lambda y, raw: LogLoss().gradients((y > 1.5).astype(float), raw)  # noqa: E731
        given = unbiased_gain(booster, X, BINARY + 1, X, BINARY + 1, loss=loss)
        np.testing.assert_array_equal(given.importance, expected)
