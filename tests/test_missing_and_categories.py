"""One rule for missing values, one for categories: the same in training, predict and apply."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from workbench import ALL_RULES, mixed_table

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor


@pytest.mark.parametrize("rule", ALL_RULES)
def test_missing_values_are_information(rule):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    X[rng.random(600) < 0.3, 0] = np.nan
    y = np.where(np.isnan(X[:, 0]), 3.0, 0.0) + rng.normal(size=600) * 0.1
    model = UnbiasedGBMRegressor(split_rule=rule, n_estimators=60, learning_rate=0.2, n_jobs=1).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.predict([[np.nan, 0.0]])[0] == pytest.approx(3, abs=0.3)
    assert model.predict([[0.0, 0.0]])[0] == pytest.approx(0, abs=0.3)


def test_missing_values_are_like_an_extreme_value_where_that_is_best():
    rng = np.random.default_rng(0)
    x = rng.normal(size=500).round(1)  # few values: the bins of all others are the same
    y = x + rng.normal(size=500) * 0.1
    missing, extreme = x.copy(), x.copy()
    missing[x > 1], extreme[x > 1] = np.nan, 1e6
    options = {"split_rule": "standard", "n_estimators": 20, "n_jobs": 1}
    a = UnbiasedGBMRegressor(**options).fit(missing[:, None], y).predict(missing[:, None])
    b = UnbiasedGBMRegressor(**options).fit(extreme[:, None], y).predict(extreme[:, None])
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("rule", ["standard", "evidence"])
def test_missing_first_seen_at_predict_goes_with_most_rows(rule):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = np.where(X[:, 0] < 1.0, 0.0, 5.0) + rng.normal(size=400) * 0.1  # 84 in 100 rows on the left
    model = UnbiasedGBMRegressor(split_rule=rule, n_estimators=1, num_leaves=2, learning_rate=1.0, n_jobs=1).fit(X, y)
    assert model.predict([[np.nan]])[0] == model.predict([[0.0]])[0] < 1
    flipped = UnbiasedGBMRegressor(split_rule=rule, n_estimators=1, num_leaves=2, learning_rate=1.0, n_jobs=1)
    flipped.fit(-X, y)
    assert flipped.predict([[np.nan]])[0] == flipped.predict([[0.0]])[0] < 1


@pytest.mark.parametrize("value", [None, np.nan, pd.NA])
def test_every_kind_of_missing(value):
    rng = np.random.default_rng(0)
    n = 300
    number, text = rng.normal(size=n), rng.choice(["a", "b", "c"], n)
    hole = rng.random(n) < 0.3
    y = number + hole + (text == "a") + rng.normal(size=n) * 0.1
    holed = pd.Series([value if h else t for h, t in zip(hole, text, strict=True)], dtype=object)
    frame = pd.DataFrame({"x": np.where(hole, np.nan, number), "t": holed})
    model = UnbiasedGBMRegressor(n_estimators=10, n_jobs=1).fit(frame, y)
    plain = pd.DataFrame({"x": frame["x"], "t": pd.Categorical(frame["t"].where(~hole, None))})
    same = UnbiasedGBMRegressor(n_estimators=10, n_jobs=1).fit(plain, y)
    np.testing.assert_array_equal(model.predict(frame), same.predict(plain))


@pytest.mark.parametrize("rule", ALL_RULES)
def test_categories_beyond_a_byte(rule):
    rng = np.random.default_rng(0)
    n, n_levels = 6000, 600
    effect = rng.normal(size=n_levels)
    level = rng.integers(0, n_levels, n)
    y = effect[level] + rng.normal(size=n) * 0.2
    X = np.column_stack([level, rng.normal(size=n)]).astype(float)
    model = UnbiasedGBMRegressor(
        split_rule=rule, n_estimators=60, learning_rate=0.2, categorical_features=[0], n_jobs=1
    ).fit(X, y)
    assert model.score(X, y) > 0.7
    assert model.feature_importances_[0] > model.feature_importances_[1]


def test_65535_levels():
    n = 65_535
    rng = np.random.default_rng(0)
    level = rng.permutation(n)
    y = (level % 2).astype(float)
    X = np.column_stack([level, level % 2]).astype(float)
    model = UnbiasedGBMRegressor(n_estimators=3, categorical_features=[0], n_jobs=1).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.score(X, y) > 0.1


def test_more_levels_are_refused_by_name():
    frame = pd.DataFrame({"many": [f"v{k}" for k in range(65_536)]})
    with pytest.raises(ValueError, match=r"many.*65,?535"):
        UnbiasedGBMRegressor().fit(frame, np.arange(65_536.0))


class TestUnknownLevels:
    def table(self):
        rng = np.random.default_rng(0)
        text = rng.choice(["a", "b", "c"], 400, p=[0.6, 0.2, 0.2])
        y = np.where(text == "a", 2.0, 0.0) + rng.normal(size=400) * 0.1
        return pd.DataFrame({"t": text, "x": rng.normal(size=400)}), y

    def test_are_missing(self):
        frame, y = self.table()
        model = UnbiasedGBMRegressor(n_estimators=20, split_rule="standard", n_jobs=1).fit(frame, y)
        unknown = pd.DataFrame({"t": ["z", None, "?"], "x": [0.0, 0.0, 0.0]})
        answers = model.predict(unknown)
        assert answers[0] == answers[1] == answers[2]
        # no missing value in training: it goes with most rows, and those are of level a
        stump = UnbiasedGBMRegressor(n_estimators=20, split_rule="standard", num_leaves=2, n_jobs=1).fit(frame, y)
        assert stump.predict(unknown)[0] == stump.predict(pd.DataFrame({"t": ["a"], "x": [0.0]}))[0]

    def test_are_an_error_if_asked_for(self):
        frame, y = self.table()
        model = UnbiasedGBMRegressor(n_estimators=5, handle_unknown="error", n_jobs=1).fit(frame, y)
        model.predict(frame)
        with pytest.raises(ValueError, match=r"t.*zebra"):
            model.predict(pd.DataFrame({"t": ["zebra"], "x": [0.0]}))

    def test_learned_missing_side(self):
        frame, y = self.table()
        frame.loc[frame["t"] == "b", "t"] = None
        y = np.where(frame["t"].isna(), 5.0, 0.0)
        model = UnbiasedGBMRegressor(n_estimators=60, learning_rate=0.2, n_jobs=1).fit(frame, y)
        assert model.predict(pd.DataFrame({"t": ["new", None], "x": [0.0, 0.0]})) == pytest.approx([5, 5], abs=0.2)


def test_one_hot_and_category_agree_for_two_levels():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 2, 300).astype(float)
    y = 2 * level + rng.normal(size=300) * 0.3
    options = {"split_rule": "standard", "n_estimators": 20, "n_jobs": 1}
    number = UnbiasedGBMRegressor(**options).fit(level[:, None], y).predict(level[:, None])
    category = UnbiasedGBMRegressor(categorical_features=[0], **options).fit(level[:, None], y).predict(level[:, None])
    np.testing.assert_array_equal(number, category)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_all_frames_give_the_same_model(n_classes):
    X, y = mixed_table(300, 1, n_levels=40)
    c = np.digitize(y, [0, 2][: n_classes - 1])
    names = ["one", "two", "three", "four", "small", "wide"]
    text = [[None if np.isnan(v) else f"v{int(v):03d}" for v in X[:, j]] for j in (4, 5)]
    pandas = pd.DataFrame(X[:, :4], columns=names[:4])
    pandas["small"], pandas["wide"] = pd.Categorical(text[0]), pd.Series(text[1], dtype="string")
    polars = pl.DataFrame({**{n: X[:, j] for j, n in enumerate(names[:4])}, "small": text[0], "wide": text[1]})
    polars = polars.with_columns(pl.col("small").cast(pl.Categorical), pl.col("two").fill_nan(None))
    frames = [pandas, polars, polars.to_arrow()]
    models = [UnbiasedGBMClassifier(n_estimators=8, n_jobs=1).fit(frame, c) for frame in frames]
    for model in models:
        assert model.feature_names_in_.tolist() == names
        for frame in frames:
            np.testing.assert_array_equal(model.predict_proba(frame), models[0].predict_proba(pandas))
    codes = X.copy()
    numbers = UnbiasedGBMClassifier(n_estimators=8, categorical_features=[4, 5], n_jobs=1).fit(codes, c)
    np.testing.assert_array_equal(numbers.predict_proba(codes), models[0].predict_proba(pandas))


def test_missing_values_alone_are_told_from_the_lowest_value():
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    x[:200], x[200:230] = np.nan, -np.inf
    y = np.where(np.isnan(x), 5.0, 0.0) + rng.normal(size=600) * 0.1
    model = UnbiasedGBMRegressor(split_rule="standard", n_estimators=1, num_leaves=2, learning_rate=1.0, n_jobs=1)
    model.fit(x[:, None], y)
    missing, lowest, middle, highest = model.predict([[np.nan], [-np.inf], [0.0], [np.inf]])
    assert lowest == middle == highest < 1 < missing


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, lambda columns: pl.DataFrame(columns).to_arrow()])
def test_large_integers_are_told_apart(make):
    rng = np.random.default_rng(0)
    level = rng.integers(0, 4, 9000)
    # the nearest floats are the same
    number = 1_700_000_000_000_000_001 + 61 * level
    columns = {"id": number, "x": rng.normal(size=9000)}
    model = UnbiasedGBMRegressor(
        n_estimators=30, learning_rate=0.3, categorical_features=["id"], handle_unknown="error", n_jobs=1
    )
    predicted = model.fit(make(columns), level).predict(make(columns))
    np.testing.assert_allclose(predicted, level, atol=0.1)
    few = make({name: values[:5] for name, values in columns.items()})
    np.testing.assert_array_equal(model.predict(few), predicted[:5])


def test_large_integers_beside_missing_ones():
    number = [None, 1_700_000_000_000_000_001, 1_700_000_000_000_000_002] * 100
    y = np.arange(300) % 3.0
    model = UnbiasedGBMRegressor(n_estimators=50, learning_rate=0.3, categorical_features=["id"], n_jobs=1)
    frame = pl.DataFrame({"id": number})
    np.testing.assert_allclose(model.fit(frame, y).predict(frame), y, atol=0.1)


def test_a_category_that_never_occurs_is_no_error():
    frame = pd.DataFrame({"c": pd.Categorical(list("ab") * 100, categories=list("abc"))})
    model = UnbiasedGBMRegressor(n_estimators=2, handle_unknown="error", n_jobs=1).fit(frame, np.arange(200) % 2.0)
    model.predict(frame)
    with pytest.raises(ValueError, match="not seen during fit: 'c'"):
        model.predict(pd.DataFrame({"c": pd.Categorical(list("abc"))}))
