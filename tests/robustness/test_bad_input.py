"""One clear sentence that names the argument: a table of calls and what they must answer."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + RNG.normal(size=N)
C = (Y > 0).astype(int)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
TEXT = FRAME.assign(t=np.where(C == 1, "yes", "no"))


def GRADIENTS(y, raw):
    return raw - y, np.ones_like(raw)


def VALUES(y, raw):
    return (raw - y) ** 2 / 2


def changed(array, k, value):
    array = array.astype(float)
    array[k] = value
    return array


def regress(X=X, y=Y, sample_weight=None, fit=None, **parameters):
    parameters = {"n_estimators": 2, "n_jobs": 1, **parameters}
    return UnbiasedGBMRegressor(**parameters).fit(X, y, sample_weight, **(fit or {}))


def classify(X=X, y=C, sample_weight=None, fit=None, **parameters):
    parameters = {"n_estimators": 2, "n_jobs": 1, **parameters}
    return UnbiasedGBMClassifier(**parameters).fit(X, y, sample_weight, **(fit or {}))


CASES = [
    # missing targets of every kind, and weights beyond all measure
    (lambda: classify(y=pd.Series(["a", "b", None] * 20, dtype="string")), r"Input y contains NaN"),
    (lambda: classify(y=pd.Series([True, False, None] * 20, dtype="boolean")), r"Input y contains NaN"),
    (lambda: regress(sample_weight=np.full(N, 1e307)), r"sample_weight holds 1e\+307, more than 1e\+10"),
    # shapes
    (lambda: regress(y=Y[:-1]), r"X has 60 rows, but y has 59"),
    (lambda: regress(y=np.column_stack([Y, Y])), r"y should be a 1d array"),
    (lambda: regress(X=X[0]), r"Expected 2D array"),
    (lambda: regress(X=X[:, :0]), r"0 feature"),
    (lambda: regress(X=X[:0], y=Y[:0]), r"0 sample"),
    (lambda: regress(X=X[None]), r"[Dd]im|2D"),
    (lambda: regress(y=None), r"y to be passed, but the target y is None"),
    # targets
    (lambda: regress(y=changed(Y, 3, np.nan)), r"Input y contains NaN"),
    (lambda: regress(y=changed(Y, 3, np.inf)), r"y holds an infinite value"),
    (lambda: regress(y=changed(Y, 3, -np.inf)), r"y holds an infinite value"),
    (lambda: regress(y=np.array(["a"] * N)), r"y must hold numbers"),
    (lambda: regress(y=Y + 1j), r"Complex data not supported: y"),
    (lambda: regress(y=np.where(C, 1.7e308, -1.7e308)), r"y holds a number of the size 1.7e\+308, more than 1e\+280"),
    (lambda: regress(fit={"X_val": X, "y_val": Y * 1e300}), r"y_val holds a number of the size .*divide all targets"),
    (lambda: regress(y=np.ma.masked_array(Y, Y > 1)), r"Input y contains NaN"),
    (lambda: classify(y=np.ma.masked_array(C, Y > 1)), r"Input y contains NaN"),
    (lambda: classify(y=np.ma.masked_array(np.where(C, "yes", "no"), Y > 1)), r"Input y contains NaN"),
    (lambda: regress(fit={"X_val": X, "y_val": np.ma.masked_array(Y, Y > 1)}), r"Input y_val contains NaN"),
    (lambda: regress(y=Y * 1e39), r"loss: a gradient is not finite.*the target or the learning rate is too large"),
    (lambda: regress(y=Y * 1e200), r"loss: a gradient is not finite.*the target or the learning rate is too large"),
    (lambda: classify(y=np.zeros(N)), r"y must have at least 2 classes.*1 class"),
    (lambda: classify(y=changed(C, 3, np.nan)), r"Input y contains NaN"),
    (lambda: classify(y=np.array([None, "a", "b"] * 20, dtype=object)), r"Input y contains NaN"),
    (lambda: classify(y=Y), r"Unknown label type: continuous"),
    (lambda: regress(y=-np.abs(Y), loss="poisson"), r"loss='poisson' needs y >= 0"),
    (lambda: regress(y=np.zeros(N), loss="poisson"), r"loss='poisson' needs y >= 0 with at least one positive"),
    (lambda: regress(y=np.zeros(N), loss="gamma"), r"loss='gamma' needs y > 0"),
    (lambda: regress(y=-np.abs(Y), loss="tweedie"), r"loss='tweedie' needs y >= 0"),
    # weights
    (lambda: regress(sample_weight=changed(np.ones(N), 2, -1)), r"sample_weight holds a negative value: -1"),
    (lambda: regress(sample_weight=np.zeros(N)), r"sample_weight is zero in every row"),
    (lambda: regress(sample_weight=changed(np.ones(N), 2, np.nan)), r"sample_weight holds a value that is missing"),
    (lambda: regress(sample_weight=changed(np.ones(N), 2, np.inf)), r"sample_weight holds a value"),
    (lambda: regress(sample_weight=np.ma.masked_array(np.ones(N), Y > 1)), r"sample_weight holds a value that is"),
    (
        lambda: regress(sample_weight=pa.chunked_array([pa.array([None, 1.0, 2.0] * 20).dictionary_encode()])),
        r"sample_weight holds a value that is missing",
    ),
    (lambda: regress(sample_weight=np.arange(N).astype("M8[D]")), r"sample_weight must hold numbers, not dates"),
    (lambda: regress(fit={"groups": np.ma.masked_array(np.arange(N) // 4, Y > 1)}), r"groups holds a missing value"),
    (lambda: regress(sample_weight=np.ones(N - 1)), r"sample_weight has 59 entries, but X has 60 rows"),
    (lambda: regress(sample_weight=np.r_[np.ones(N), 0.0, 1.0]), r"sample_weight has 62 entries, but X has 60 rows"),
    (lambda: regress(sample_weight=["heavy"] * N), r"sample_weight must hold numbers"),
    (lambda: regress(sample_weight=np.ones((N, 1))), r"sample_weight has 2 dimensions"),
    (lambda: classify(sample_weight=C.astype(float)), r"y must have at least 2 classes; the rows with"),
    (lambda: classify(class_weight={0: 1.0}, y=np.where(C, "p", "q")), r"class_weight"),
    (lambda: classify(class_weight="heavy"), r"class_weight"),
    # parameters
    (lambda: regress(loss="nonsense"), r"loss must be one of squared_error, .*; got 'nonsense'"),
    (lambda: regress(loss=(np.exp,)), r"loss must be a name or a pair of callables"),
    (lambda: regress(split_rule="best"), r"split_rule must be one of 'evidence', .*; got 'best'"),
    (lambda: regress(n_estimators=0), r"n_estimators must be a whole number >= 1; got 0"),
    (lambda: regress(n_estimators=2.5), r"n_estimators must be a whole number"),
    (lambda: regress(learning_rate=0), r"learning_rate must be a number > 0, or None; got 0"),
    (lambda: regress(learning_rate=np.inf), r"learning_rate must be a number > 0, or None; got inf"),
    (lambda: regress(loss=(lambda y, f: f - y, VALUES)), r"loss: the gradient function must return two arrays"),
    (lambda: regress(loss=(lambda y, f: 1.0, VALUES)), r"loss: the gradient function must return .*; got float"),
    (lambda: regress(loss=(GRADIENTS, lambda y, f: 1.0)), r"loss: the function of values .* shape \(60,\); got \(\)"),
    (lambda: regress(num_leaves=1), r"num_leaves must be a whole number >= 2"),
    (lambda: regress(max_bins=256), r"max_bins must be a whole number >= 2 and <= 255, or None; got 256"),
    (lambda: regress(subsample=1.5), r"subsample must be a number > 0 and <= 1"),
    (lambda: regress(reg_lambda=-1.0), r"reg_lambda must be a number >= 0"),
    (lambda: regress(min_split_gain=float("nan")), r"min_split_gain must be a number"),
    (lambda: regress(loss="tweedie", tweedie_power=2.0), r"tweedie_power must be a number > 1 and < 2"),
    (lambda: regress(validation_fraction=1.0), r"validation_fraction must be a number > 0 and < 1"),
    (lambda: regress(validation_fraction=0), r"validation_fraction must be .* a whole number >= 1, or None; got 0"),
    (lambda: regress(validation_fraction=True), r"validation_fraction must be .*; got True"),
    (lambda: regress(early_stopping=True, validation_fraction=9999), r"validation_fraction=9999 leaves no training"),
    (lambda: regress(early_stopping="often"), r"early_stopping must be True, False or 'auto'; got 'often'"),
    (lambda: regress(early_stopping=True, validation_fraction=0.999), r"validation_fraction=0.999 leaves no training"),
    (lambda: regress(scoring="nonsense", early_stopping=True), r"scoring: 'nonsense'"),
    (lambda: regress(scoring=["loss", None]), r"scoring: None stands alone, not in a list"),
    (lambda: regress(n_jobs=0), r"n_jobs == 0"),
    (lambda: regress(random_state="a"), r"random_state: 'a'"),
    (lambda: regress(role_draw="row"), r"role_draw must be one of"),
    # roles
    (lambda: regress(split_rule="merged", role_ratio=(1, 0)), r"role_ratio must be None or two or three numbers"),
    (lambda: regress(split_rule="merged", role_ratio="1:2"), r"role_ratio must be None or two or three numbers"),
    (lambda: regress(split_rule="merged", role_ratio=(1, 9)), r"role_ratio=\(1.0, 9.0\) leaves a role"),
    (lambda: regress(split_rule="separate", role_ratio=(1, 1)), r"role_ratio: split_rule='separate' needs"),
    (lambda: regress(split_rule="without_se", role_ratio=(1, 1, 0)), r"role_ratio: split_rule='without_se' needs"),
    # constraints
    (lambda: regress(monotonic_cst=[1, 0]), r"monotonic_cst has 2 entries, but X has 3 features"),
    (lambda: regress(monotonic_cst=[1, 0, 2]), r"monotonic_cst: must be -1, 0 or 1 for each feature; got 2"),
    (lambda: regress(monotonic_cst=1), r"monotonic_cst must be a sequence"),
    (lambda: regress(monotonic_cst="up"), r"monotonic_cst must be a sequence"),
    (lambda: regress(X=FRAME, monotonic_cst={"z": 1}), r"monotonic_cst: 'z' is not a column of X"),
    (lambda: regress(X=TEXT, monotonic_cst={"t": 1}), r"monotonic_cst: feature 't' is categorical"),
    (lambda: classify(y=np.arange(N) % 3, monotonic_cst=[1, 0, 0]), r"monotonic_cst is not supported"),
    (lambda: regress(interaction_cst="some"), r"interaction_cst must be 'pairwise', 'no_interactions' or a list"),
    (lambda: regress(interaction_cst=[0, 1]), r"interaction_cst must be a list of groups"),
    (lambda: regress(interaction_cst=[[0, 3]]), r"interaction_cst: 3 is not a column of X, which has 3 features"),
    (lambda: regress(interaction_cst=3), r"interaction_cst must be a list of groups"),
    # weights of classes
    (lambda: classify(class_weight={0: -1, 1: 1}), r"class_weight must hold numbers from 0"),
    (lambda: classify(class_weight={0: np.nan, 1: 1}), r"class_weight must hold numbers from 0"),
    (lambda: classify(class_weight={0: 1e300, 1: 1}), r"class_weight must hold numbers from 0"),
    (lambda: classify(class_weight={0: 0, 1: 0}), r"class_weight must be positive for at least 2 classes"),
    (lambda: classify(class_weight={0: 0, 1: 1}), r"class_weight must be positive for at least 2 classes"),
    # validation rows
    (lambda: regress(fit={"X_val": X}), r"X_val was given, but y_val is None"),
    (lambda: regress(fit={"y_val": Y}), r"y_val and sample_weight_val have no meaning without X_val"),
    (lambda: regress(fit={"X_val": X[:, :2], "y_val": Y}), r"X_val: X has 2 features, but .* is expecting 3"),
    (lambda: regress(y=np.exp(Y), loss="gamma", fit={"X_val": X, "y_val": Y}), r"loss='gamma' needs y_val > 0"),
    (lambda: regress(fit={"X_val": X, "y_val": Y[:-1]}), r"X_val has 60 rows, but y_val has 59"),
    (lambda: regress(fit={"X_val": X, "y_val": changed(Y, 0, np.nan)}), r"Input y_val contains NaN"),
    (lambda: regress(fit={"X_val": X, "y_val": Y, "sample_weight_val": -np.ones(N)}), r"sample_weight_val holds"),
    (lambda: classify(fit={"X_val": X, "y_val": C + 5}), r"y_val has the class .*which the training"),
    (
        lambda: classify(y=np.where(C, "p", "q").astype(object), fit={"X_val": X, "y_val": C}),
        r"y_val has labels of another type than the training target",
    ),
    # tables
    (lambda: regress(X=TEXT, categorical_features=None), r"'?t'?.*(text|string|number)"),
    (lambda: regress(X=X, categorical_features=[7]), r"categorical_features"),
    (lambda: regress(X=FRAME, categorical_features=["z"]), r"categorical_features"),
    # predict
    (lambda: regress().predict(X[:, :2]), r"X has 2 features, but UnbiasedGBMRegressor is expecting 3 features"),
    (lambda: regress().predict(np.column_stack([X, X])), r"X has 6 features, but UnbiasedGBMRegressor is expecting 3"),
    (lambda: regress(X=FRAME).predict(FRAME.rename(columns={"a": "z"})), r"feature names should match"),
    (lambda: regress().predict(X[0]), r"Expected 2D array"),
    (lambda: regress(X=TEXT, handle_unknown="error").predict(TEXT.assign(t="maybe")), r"'?t'?.*maybe"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), CASES, ids=[message for _, message in CASES])
def test_message(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n\n" not in str(caught.value)


def test_a_fit_that_fails_leaves_the_last_one():
    model = classify()
    before = model.predict(X)
    with pytest.raises(ValueError, match="X_val"):
        model.fit(X, np.where(C == 1, "yes", "no"), X_val=X[:, :2], y_val=C)
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(ValueError, match="X_val"):
        (fresh := UnbiasedGBMClassifier()).fit(X, C, X_val=X[:, :2], y_val=C)
    assert not hasattr(fresh, "classes_")


LABELS = np.where(C, "yes", "no").tolist()
ARROW = {
    "text": pa.array(LABELS),
    "dictionary": pa.array(LABELS).dictionary_encode(),
    "dictionary of numbers": pa.array(C).dictionary_encode(),
    "booleans": pa.array(C == 1),
    "integers": pa.array(C),
    "decimals": pa.array([Decimal(int(c)) for c in C]),
}
WRAPPED = {
    "array": lambda column: column,
    "chunks": lambda column: pa.chunked_array([column[:20], column[20:]]),
    "table": lambda column: pa.table({"y": column}),
    "batch": lambda column: pa.record_batch({"y": column}),
    "polars": pl.from_arrow,
    "pandas": lambda column: pd.Series(column, dtype=pd.ArrowDtype(column.type)),
}


@pytest.mark.parametrize("wrapped", list(WRAPPED))
@pytest.mark.parametrize("kind", list(ARROW))
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_targets_of_arrow(kind, wrapped):
    column = ARROW[kind]
    fit = regress if kind in ("integers", "decimals", "booleans", "dictionary of numbers") else classify
    expected = fit(y=np.array(column.to_pylist())).predict(X)
    np.testing.assert_array_equal(fit(y=WRAPPED[wrapped](column)).predict(X), expected)
    gap = pa.array([None, *column.to_pylist()[1:]], column.type)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        fit(y=WRAPPED[wrapped](gap))
    with pytest.raises(ValueError, match="Input y_val contains NaN"):
        fit(y=np.array(column.to_pylist()), fit={"X_val": X, "y_val": WRAPPED[wrapped](gap)})


DAYS = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=int(k)) for k in range(N)]
TIMES = {
    "datetime64": np.array(DAYS, "M8[s]"),
    "timedelta64": np.arange(N).astype("m8[D]"),
    "datetimes": DAYS,
    "dates": [day.date() for day in DAYS],
    "spans": [datetime.timedelta(days=k) for k in range(N)],
    "times": np.array([datetime.time(k % 24) for k in range(N)], object),
    "objects": np.array(list(np.array(DAYS, "M8[s]")), object),
    "pandas": pd.Series(DAYS),
    "pandas with a zone": pd.Series(DAYS).dt.tz_localize("UTC"),
    "pandas spans": pd.Series(pd.to_timedelta(range(N), unit="D")),
    "polars": pl.Series(DAYS),
    "polars dates": pl.Series([day.date() for day in DAYS]),
    "arrow": pa.array(DAYS),
    "arrow with a zone": pa.chunked_array([pa.array(DAYS, pa.timestamp("s", "UTC"))]),
    "arrow over pandas": pd.Series(DAYS, dtype=pd.ArrowDtype(pa.date32())),
}


@pytest.mark.parametrize("kind", list(TIMES))
def test_dates_are_no_numbers(kind):
    with pytest.raises(ValueError, match=r"y holds dates or times \(.*\). Convert it to numbers first"):
        regress(y=TIMES[kind])
    with pytest.raises(ValueError, match=r"y_val holds dates or times"):
        regress(fit={"X_val": X, "y_val": TIMES[kind]})


@pytest.mark.parametrize(
    "gap",
    [
        np.where(C == 1, np.datetime64("2020-01-01"), np.datetime64("NaT")),
        np.array([np.datetime64("NaT"), *[np.datetime64("2020-01-01"), np.datetime64("2021-01-01")] * 30][:N], object),
        np.where(C == 1, np.timedelta64(1, "D"), np.timedelta64("NaT")),
        pd.Series(DAYS).dt.tz_localize("UTC").where(C == 1),
    ],
    ids=["datetime64", "objects", "timedelta64", "pandas with a zone"],
)
def test_missing_dates_are_missing(gap):
    for fit in (regress, classify):
        with pytest.raises(ValueError, match="Input y contains NaN"):
            fit(y=gap)


def test_masked_arrays_without_a_masked_cell():
    plain = regress(sample_weight=np.arange(N) + 1.0)
    masked = regress(y=np.ma.masked_array(Y), sample_weight=np.ma.masked_array(np.arange(N) + 1.0, np.zeros(N, bool)))
    np.testing.assert_array_equal(masked.predict(X), plain.predict(X))


def test_a_score_that_is_never_a_number():
    own = C == 1
    with pytest.warns(UserWarning, match="scoring: 'roc_auc' of the validation rows was not a number in any iteration"):
        classify(scoring="roc_auc", n_estimators=50, fit={"X_val": X[own], "y_val": C[own]})
