"""Rows that are not what they are given for are noticed."""

from __future__ import annotations

import warnings
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor

from unbiasedgbm import TrainingRowsWarning, UnbiasedGBMRegressor, load_model, unbiased_gain
from unbiasedgbm.importance.leaks import check_leaves


def table(n_rows: int = 900, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    return X, X[:, 0] + rng.normal(size=n_rows)


MODELS: dict[str, Any] = {
    "lightgbm": lightgbm.LGBMRegressor(n_estimators=5, num_leaves=8, n_jobs=1, verbose=-1),
    "xgboost": xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1),
    "catboost": catboost.CatBoostRegressor(iterations=5, depth=3, verbose=0, allow_writing_files=False),
    "histogram": HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=8),
    "classic": GradientBoostingRegressor(n_estimators=5, random_state=0),
    "own": UnbiasedGBMRegressor(n_estimators=5, random_state=0, n_jobs=1),
}
# Of these every training row is in the first tree, as far as the model tells.
WHOLE = ("lightgbm", "histogram", "classic")


def warned(model: Any, *tables: Any, **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TrainingRowsWarning)
        unbiased_gain(model, *tables, n_jobs=1, **options)
    return [str(one.message) for one in caught if one.category is TrainingRowsWarning]


@pytest.fixture(scope="module", params=MODELS)
def fitted(request: pytest.FixtureRequest) -> tuple[str, Any]:
    X, y = table()
    return request.param, MODELS[request.param].fit(X[:500], y[:500])


def test_the_right_rows_are_not_warned_of(fitted: tuple[str, Any]) -> None:
    X, y = table()
    assert not warned(fitted[1], X[:500], y[:500], X[500:], y[500:])
    assert not warned(fitted[1], X[:500], y[:500], X[500:], y[500:], paper_sums=True)
    # in any order
    order = np.random.default_rng(1).permutation(500)
    assert not warned(fitted[1], X[order], y[order], X[500:], y[500:])


def test_a_part_of_the_training_rows(fitted: tuple[str, Any]) -> None:
    X, y = table()
    (message,) = warned(fitted[1], X[:400], y[:400], X[500:], y[500:])
    trained = "rows that weigh 500 in all" if fitted[0] in ("xgboost", "catboost") else "500 rows"
    assert f"was trained on {trained}, but X_train has 400" in message


def test_more_than_the_training_rows(fitted: tuple[str, Any]) -> None:
    name, model = fitted
    X, y = table()
    found = warned(model, X[:700], y[:700], X[700:], y[700:])
    assert len(found) == (name in WHOLE)
    assert all("was trained on 500 rows, but X_train has 700" in message for message in found)


def test_other_rows_and_swapped_tables(fitted: tuple[str, Any]) -> None:
    X, y = table(1000)
    (message,) = warned(fitted[1], X[500:], y[500:], *table(300, 1))
    assert "X_train does not hold the rows that the model was trained on" in message
    # A tree of few leaves does not tell.
    few = fitted[0] == "catboost"
    (message,) = warned(fitted[1], X[500:], y[500:], X[:500], y[:500])
    assert "are X_train and X_val swapped?" in message or few
    (message,) = warned(fitted[1], X[500:900], y[500:900], X[:500], y[:500])
    assert "are X_train and X_val swapped?" in message or few


@pytest.mark.parametrize(
    "as_table",
    [
        np.asarray,
        lambda X: pd.DataFrame(X, columns=list("abcd")),
        lambda X: pl.DataFrame(X, schema=list("abcd")),
        lambda X: pd.DataFrame(X, columns=list("abcd")).to_numpy().tolist(),
    ],
    ids=["array", "pandas", "polars", "lists"],
)
def test_held_out_rows_that_are_training_rows(as_table: Any) -> None:
    X, y = table()
    model = HistGradientBoostingRegressor(max_iter=3).fit(as_table(X[:500]), y[:500])
    held = np.r_[480:900]
    (message,) = warned(model, as_table(X[:500]), y[:500], as_table(X[held]), y[held])
    assert "20 of the 420 rows of X_val are in X_train" in message
    # Rows of weight zero are absent.
    weight = (held >= 500).astype(float)
    assert not warned(model, as_table(X[:500]), y[:500], as_table(X[held]), y[held], sample_weight_val=weight)


def test_tables_of_few_different_values_hold_rows_twice() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.integers(0, 3, 800), "b": pd.Categorical(rng.choice(["x", "y"], 800))})
    y = (rng.random(800) < 0.5).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(X[:400], y[:400])
    assert not warned(model, X[:400], y[:400], X[400:], y[400:])
    # Text tells rows apart that numbers do not.
    X = X.assign(name=pd.Categorical([f"row {i}" for i in range(800)]))
    model.fit(X[:400], y[:400])
    assert not warned(model, X[:400], y[:400], X[400:], y[400:])
    (message,) = warned(model, X[:400], y[:400], X[350:], y[350:])
    assert "50 of the 450 rows" in message


def test_sampled_rows_are_no_other_rows() -> None:
    X, y = table()
    for model in (
        lightgbm.LGBMRegressor(n_estimators=3, subsample=0.5, subsample_freq=1, n_jobs=1, verbose=-1),
        lightgbm.LGBMRegressor(n_estimators=3, data_sample_strategy="goss", n_jobs=1, verbose=-1),
        xgboost.XGBRegressor(n_estimators=3, subsample=0.5, n_jobs=1),
        GradientBoostingRegressor(n_estimators=3, subsample=0.5),
        HistGradientBoostingRegressor(max_iter=3, early_stopping=True, random_state=0),
    ):
        model.fit(X[:500], y[:500])
        assert not warned(model, X[:500], y[:500], X[500:], y[500:])


def test_weights_and_offsets_are_no_other_rows() -> None:
    X, y = table()
    weight, offset = np.random.default_rng(0).integers(0, 3, 900).astype(float), np.linspace(0, 1, 900)
    weights = {"sample_weight_train": weight[:500], "sample_weight_val": weight[500:]}
    for name in MODELS:
        model = MODELS[name].fit(X[:500], y[:500], sample_weight=weight[:500])
        assert not warned(model, X[:500], y[:500], X[500:], y[500:], **weights), name
    model = MODELS["xgboost"].fit(X[:500], y[:500], base_margin=offset[:500])
    offsets = {"offset_train": offset[:500], "offset_val": offset[500:]}
    assert not warned(model, X[:500], y[:500], X[500:], y[500:], **offsets)


def test_rows_that_stopped_training(tmp_path: Any) -> None:
    X, y = table()
    model = UnbiasedGBMRegressor(n_estimators=40, random_state=0, n_jobs=1)
    model.fit(X[:400], y[:400], X_val=X[400:600], y_val=y[400:600])
    (message,) = warned(model, X[:400], y[:400], X[400:600], y[400:600])
    assert "are the rows that stopped the training of this model early" in message
    assert not warned(model, X[:400], y[:400], X[600:], y[600:])
    # The model file knows it, too.
    model.save_model(tmp_path / "model.json")
    assert len(warned(load_model(tmp_path / "model.json"), X[:400], y[:400], X[400:600], y[400:600])) == 1


def test_a_leaf_more_or_less_is_rounding() -> None:
    class Model:
        leaf_rows = np.array([0.0, 300.0, 200.0])
        all_rows = True
        leaf_weights = False

    held = np.array([0.0, 50.0, 50.0])
    assert check_leaves(Model(), np.array([0.0, 299.0, 201.0]), held) is None  # type: ignore[arg-type]
    assert check_leaves(Model(), np.array([0.0, 290.0, 210.0]), held) is not None  # type: ignore[arg-type]


def test_missing_values_in_one_table_hide_no_row() -> None:
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.loc[200:399, "b"] = np.nan
    model = lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1).fit(frame[:400], y[:400])
    for cast in (lambda part: part, pl.from_pandas):
        (message,) = warned(model, cast(frame[:400]), y[:400], cast(frame[:100]), y[:100])
        assert "100 of the 100 rows of X_val are in X_train" in message


def test_hessians_of_a_loss_of_ones_own_are_no_weights() -> None:
    X, y = table()
    model = xgboost.XGBRegressor(
        n_estimators=3, n_jobs=1, objective=lambda y, raw: (2.0 * (raw - y), np.full(len(y), 2.0))
    ).fit(X[:500], y[:500])
    tables = X[:500], y[:500], X[500:], y[500:]
    assert not warned(model, *tables, loss=lambda y, raw: (raw - y, np.ones(len(y))))
    far = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X[:500], y[:500] - 1000.0)
    assert not warned(far, X[:500], y[:500] - 1000.0, X[500:], y[500:] - 1000.0)
