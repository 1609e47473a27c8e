"""Models that were trained on top of offsets are judged on top of them."""

from __future__ import annotations

from typing import Any

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold

from unbiasedgbm.ensemble.adapters import UnsupportedModelError, read_model
from unbiasedgbm.importance import (
    compare_importances,
    cross_unbiased_gain,
    gain_importance,
    permutation_importance,
    unbiased_gain,
)

from .helpers import twin_unbiased_gain

N = 600


def table(seed: int = 0) -> tuple[Any, Any, Any]:
    """A useful and two useless columns, offsets that say more than the columns do, and their noisy sum."""
    rng = np.random.default_rng(seed)
    X, offset = rng.normal(size=(2 * N, 3)), rng.normal(3.0, 2.0, 2 * N)
    return X, offset, X[:, 0] + offset + rng.normal(size=2 * N)


# What each library calls an offset, and how its start value is made zero.
LIBRARIES: dict[str, tuple[str, dict[str, Any]]] = {
    "lightgbm": ("init_score", {"boost_from_average": False}),
    "xgboost": ("base_margin", {"base_score": 0.0}),
    "catboost": ("baseline", {"boost_from_average": False}),
}


def build(library: str, kind: str = "regression", **options: Any) -> Any:
    """An untrained model of a library."""
    name = "Regressor" if kind == "regression" else "Classifier"
    if library == "lightgbm":
        cls = getattr(lightgbm, f"LGBM{name}")
        return cls(n_estimators=8, num_leaves=6, n_jobs=1, verbose=-1, **options)
    if library == "xgboost":
        return getattr(xgboost, f"XGB{name}")(n_estimators=8, max_depth=3, n_jobs=1, **options)
    cls = getattr(catboost, f"CatBoost{name}")
    return cls(iterations=8, depth=2, verbose=0, thread_count=1, allow_writing_files=False, **options)


@pytest.mark.parametrize("rate", [0.2, 1.0])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_on_top_of_an_offset_is_what_is_left_of_the_target(library: str, rate: float) -> None:
    X, offset, y = table()
    argument, start_at_zero = LIBRARIES[library]
    model = build(library, learning_rate=rate)
    model.fit(X[:N], y[:N], **{argument: offset[:N]})
    result = unbiased_gain(model, X[:N], y[:N], X[N:], y[N:], offset_train=offset[:N], offset_val=offset[N:])
    # Of squared errors both are the same training, and so are the importances.
    left = build(library, learning_rate=rate, **start_at_zero).fit(X[:N], (y - offset)[:N])
    expected = unbiased_gain(left, X[:N], (y - offset)[:N], X[N:], (y - offset)[N:])
    np.testing.assert_allclose(result.importance, expected.importance, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(result.se, expected.se, rtol=1e-3, atol=1e-5)
    assert result.p_value[0] < 1e-6


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_offsets_equal_the_slow_twin(library: str, kind: str) -> None:
    X, offset, signal = table()
    y = np.digitize(signal, [3.0] if kind == "binary" else [1.0, 4.0])
    if kind == "multiclass":
        offset = np.column_stack([-offset, np.zeros(2 * N), offset])
    model = build(library, kind).fit(X[:N], y[:N], **{LIBRARIES[library][0]: offset[:N]})
    tables, offsets = (X[:N], y[:N], X[N:], y[N:]), (offset[:N], offset[N:])
    result = unbiased_gain(model, *tables, offset_train=offsets[0], offset_val=offsets[1])
    importance, se = twin_unbiased_gain(read_model(model, offset=True), tables, offsets=offsets)
    np.testing.assert_allclose(result.importance, importance, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(result.se, se, rtol=1e-6, atol=1e-10)
    assert np.abs(result.importance / unbiased_gain(model, *tables).importance - 1.0).max() > 0.1


def test_dart_has_no_start_value_on_top_of_an_offset() -> None:
    X, offset, y = table()
    model = build("lightgbm", boosting_type="dart", drop_rate=0.5).fit(X, y, init_score=offset - 5.0)
    tree_model = read_model(model, offset=True)
    np.testing.assert_array_equal(tree_model.bind(X, 1).base(), 0.0)


def test_offsets_in_a_matrix_or_a_pool() -> None:
    X, offset, y = table()
    offsets = {"offset_train": offset[:N], "offset_val": offset[N:]}
    parts = ((X[:N], offset[:N]), (X[N:], offset[N:]))
    for library, hold in (
        ("xgboost", lambda part, start: xgboost.DMatrix(part, base_margin=start)),
        ("catboost", lambda part, start: catboost.Pool(part, baseline=start)),
    ):
        model = build(library).fit(X[:N], y[:N], **{LIBRARIES[library][0]: offset[:N]})
        expected = unbiased_gain(model, X[:N], y[:N], X[N:], y[N:], **offsets).importance
        held = [hold(*part) for part in parts]
        result = unbiased_gain(model, held[0], y[:N], held[1], y[N:])
        np.testing.assert_allclose(result.importance, expected, rtol=1e-5, atol=1e-8)
        # Given ones replace those in the matrix.
        again = unbiased_gain(model, held[0], y[:N], held[1], y[N:], **offsets)
        np.testing.assert_allclose(again.importance, expected, rtol=1e-5, atol=1e-8)


def test_a_start_value_that_is_not_used_costs_no_digits() -> None:
    X, offset, y = table()
    offset, y = offset + 50.0, y + 50.0
    model = build("xgboost", objective="reg:pseudohubererror").fit(X[:N], y[:N], base_margin=offset[:N])
    # XGBoost has a base score, nevertheless; with one Newton step from zero it lies far from all targets.
    start = read_model(model).bind(X, 1).base()
    assert np.abs(start).min() > 1000.0 * y.max()
    offsets = {"offset_train": offset[:N], "offset_val": offset[N:]}
    result = unbiased_gain(model, X[:N], y[:N], X[N:], y[N:], **offsets)
    assert result.p_value[0] < 1e-6
    # Matrices are handed back as they were, with a margin or without.
    for margin in (np.empty(0), offset):
        held = [xgboost.DMatrix(part) for part in (X[:N], X[N:])]
        for matrix, rows in zip(held, (slice(N), slice(N, None)), strict=True):
            matrix.set_base_margin(margin[rows])
        again = unbiased_gain(model, held[0], y[:N], held[1], y[N:], **offsets)
        np.testing.assert_array_equal(again.importance, result.importance)
        np.testing.assert_array_equal(held[0].get_base_margin(), margin[:N].astype(np.float32))
        np.testing.assert_array_equal(held[1].get_base_margin(), margin[N:].astype(np.float32))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_cross_fitting_trains_and_judges_on_top_of_the_offset(library: str) -> None:
    X, offset, y = table()
    model, argument = build(library), LIBRARIES[library][0]
    folds = list(KFold(3).split(X))
    pooled = cross_unbiased_gain(model, X, y, cv=folds, offset=offset.tolist())
    single = [
        unbiased_gain(
            model.fit(X[rows], y[rows], **{argument: offset[rows]}), X[rows], y[rows], X[held], y[held],
            offset_train=offset[rows], offset_val=offset[held],
        ).importance
        for rows, held in folds
    ]  # fmt: skip
    np.testing.assert_allclose(pooled.importance, np.mean(single, axis=0))


@pytest.mark.filterwarnings("ignore::unbiasedgbm.importance.gain.TrainingRowsWarning")
def test_the_other_importances_know_offsets() -> None:
    X, offset, y = table()
    model = build("catboost").fit(X[:N], y[:N], baseline=offset[:N])
    offsets = {"offset_train": offset[:N], "offset_val": offset[N:]}
    # With the training rows as held-out rows, unbiased gain is the gain.
    gain = gain_importance(model, X[:N], y[:N], offset_train=offset[:N])
    same = unbiased_gain(
        model, X[:N], y[:N], X[:N], y[:N], offset_train=offset[:N], offset_val=offset[:N], min_rows=2,
        paper_sums=True,
    )  # fmt: skip
    np.testing.assert_allclose(gain.importance, same.importance, rtol=1e-6)
    permuted = permutation_importance(model, X[N:], y[N:], offset_val=offset[N:])
    left = permutation_importance(model, X[N:], (y - offset)[N:])
    np.testing.assert_allclose(permuted.importance, left.importance)
    methods = ("unbiased_gain", "gain", "permutation")
    compared = compare_importances(model, X[:N], y[:N], X[N:], y[N:], methods=methods, **offsets).results
    np.testing.assert_array_equal(compared["gain"].importance, gain.importance)
    np.testing.assert_array_equal(compared["permutation"].importance, permuted.importance)


def test_errors_name_the_argument() -> None:
    X, offset, y = table()
    tables = (X[:N], y[:N], X[N:], y[N:])
    model = build("lightgbm").fit(*tables[:2], init_score=offset[:N])
    good = {"offset_train": offset[:N], "offset_val": offset[N:]}
    for wrong, message in (
        ({"offset_train": offset[:5]}, r"offset_train must have shape \(600,\), got \(5,\)"),
        ({"offset_val": np.zeros((N, 2))}, r"offset_val must have shape \(600,\), got \(600, 2\)"),
        ({"offset_val": np.full(N, np.nan)}, "offset_val holds a value that is missing"),
        ({"offset_val": None}, "offset_train and offset_val must be given together"),
    ):
        with pytest.raises(ValueError, match=message):
            unbiased_gain(model, *tables, **(good | wrong))
    three = build("lightgbm", "multiclass").fit(X, np.digitize(y, [1.0, 4.0]))
    with pytest.raises(ValueError, match=r"offset_train must have shape \(1200, 3\), got \(1200,\)"):
        unbiased_gain(three, X, np.digitize(y, [1.0, 4.0]), X, y, offset_train=offset, offset_val=offset)
    with pytest.raises(ValueError, match="offset must have a value for each of the 1200 rows"):
        cross_unbiased_gain(model, X, y, offset=offset[:-1])
    with pytest.raises(UnsupportedModelError, match="HistGradientBoostingRegressor is never trained on top of offsets"):
        unbiased_gain(HistGradientBoostingRegressor(max_iter=2).fit(*tables[:2]), *tables, **good)
    with pytest.raises(UnsupportedModelError, match="never trained on top of offsets"):
        cross_unbiased_gain(HistGradientBoostingRegressor(max_iter=2), X, y, offset=offset)
