"""Exports: other tools predict what the model predicts, and SHAP values are Shapley values."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import treelite

from lifecycle.samples import mixed_table, models, raw
from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.export import to_frame, to_numbers, to_onnx, to_shap, to_treelite
from unbiasedgbm.export.parts import UnsupportedExportError, node_sets

KINDS = ["regression", "rate", "binary", "multiclass"]
# levels that training has not seen, and missing values in every column
PROBE = mixed_table(300, seed=5).assign(**{"色": lambda t: t["色"].astype(object).where(t.index % 9 != 0, "new")})
PROBE.loc[::7, 'say "x"\\n'] = np.nan
PROBE.loc[::11, "code"] = None


@pytest.fixture(scope="module")
def kinds():
    return models(n=600, n_estimators=15)


@pytest.fixture(scope="module")
def numeric():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    X[rng.random(X.shape) < 0.15] = np.nan
    y = np.nan_to_num(X[:, 0]) * 2 + np.isnan(X[:, 1]) + 0.1 * rng.normal(size=500)
    return {
        "regression": UnbiasedGBMRegressor(n_estimators=20).fit(X, y),
        "binary": UnbiasedGBMClassifier(n_estimators=20).fit(X, y > 0.5),
        "multiclass": UnbiasedGBMClassifier(n_estimators=10).fit(X, np.digitize(y, [-1.0, 1.0])),
    }, X


def run_onnx(model, feed):
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feed), strict=True))


def onnx_columns(table):
    """Text for the category of text, numbers for the rest."""
    text = table["色"].astype(object).where(table["色"].notna(), "").to_numpy(dtype=object)
    numbers = {name: table[name].astype(float).to_numpy() for name in table if name != "色"}
    return {name: column[:, None] for name, column in {**numbers, "色": text}.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_onnx(kinds, kind):
    model, _ = kinds[kind]
    found = run_onnx(model, onnx_columns(PROBE))
    np.testing.assert_allclose(found["raw"], raw(model, PROBE), rtol=0, atol=1e-12)
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(found["label"], model.predict(PROBE))
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(PROBE), rtol=0, atol=1e-12)
    else:
        np.testing.assert_allclose(found["prediction"][:, 0], model.predict(PROBE), rtol=1e-12)


@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_onnx_of_numbers_alone_takes_one_array(numeric, kind):
    fitted, X = numeric
    extremes = np.vstack([X, np.full((1, 4), np.inf), np.full((1, 4), 1e300), np.full((1, 4), np.nan)])
    found = run_onnx(fitted[kind], {"X": extremes})
    np.testing.assert_allclose(found["raw"], raw(fitted[kind], extremes), rtol=0, atol=1e-12)


def test_a_split_of_missing_values_from_all_others():
    """The threshold is inf, and only missing values go right."""
    X = np.linspace(-1, 1, 400)[:, None]
    X[::3] = np.nan
    # one tree on all rows: nothing is left for the values to explain
    model = UnbiasedGBMRegressor(n_estimators=1, num_leaves=2, split_rule="standard").fit(X, np.isnan(X[:, 0]) * 1.0)
    assert np.inf in model.ensemble_.threshold
    probe = np.array([[np.nan], [-1e308], [0.0], [np.inf]])
    expected = model.predict(probe)
    assert expected[0] > expected[1] == expected[2] == expected[3]
    np.testing.assert_allclose(run_onnx(model, {"X": probe})["prediction"][:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(treelite.gtil.predict(to_treelite(model), probe).ravel(), expected, rtol=1e-12)
    explained = to_shap(model)
    np.testing.assert_allclose(explained.shap_values(probe).sum(axis=1) + explained.expected_value, expected, rtol=1e-9)


ODD_NAMES = [
    "raw", "label", "probabilities", "prediction", "leaves", "base", "labels", "table", "column/table", "column/0",
    "first", "second", "one", "zero", "above", "is_second", "flat", "number", "low", "high", "clipped", "X", "",
    "inner/table", "_inner/raw", "raw_in",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_onnx_of_features_that_are_called_like_parts_of_the_graph(kind):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, len(ODD_NAMES))), columns=ODD_NAMES)
    X["one"] = pd.Categorical(rng.choice(["u", "v", "w"], 300))
    y = X["raw"] + 2 * (X["one"] == "u") - X["leaves"]
    if kind in ("regression", "rate"):
        model = UnbiasedGBMRegressor(n_estimators=5, loss="poisson" if kind == "rate" else "squared_error")
        model.fit(X, np.abs(y))
    else:
        model = UnbiasedGBMClassifier(n_estimators=5).fit(X, np.digitize(y, [0.0] if kind == "binary" else [-1.0, 1.0]))
    renamed = {"raw": "raw_in_in", "": "_in"} | {
        name: f"{name}_in" for name in ("label", "probabilities", "prediction")
    }
    feed = {renamed.get(name, name): X[name].to_numpy()[:, None] for name in X}
    feed["one"] = X["one"].to_numpy(dtype=object)[:, None]
    found = run_onnx(model, feed)
    np.testing.assert_allclose(found["raw"], raw(model, X), rtol=0, atol=1e-12)
    assert set(found) == ({"label", "probabilities", "raw"} if hasattr(model, "classes_") else {"prediction", "raw"})


def test_onnx_says_what_it_cannot_do():
    X = pd.DataFrame({"mixed": pd.Categorical([1, "a"] * 100, categories=[1, "a"]), "x": np.arange(200.0)})
    model = UnbiasedGBMRegressor(n_estimators=3).fit(X, np.arange(200.0))
    with pytest.raises(UnsupportedExportError, match="'mixed' has text and numbers"):
        to_onnx(model)
    large = pd.DataFrame({"id": 2**53 + np.arange(200) % 4})
    model = UnbiasedGBMRegressor(n_estimators=3, categorical_features=["id"]).fit(large, np.arange(200) % 4)
    with pytest.raises(UnsupportedExportError, match="'id' has categories that float64"):
        to_onnx(model)


@pytest.mark.parametrize("kind", KINDS)
def test_treelite(kinds, kind):
    model, _ = kinds[kind]
    numbers = model._model.schema.read(PROBE).block(0, len(PROBE))
    found = treelite.gtil.predict(to_treelite(model), np.ascontiguousarray(numbers)).reshape(len(PROBE), -1)
    expected = model.predict_proba(PROBE) if hasattr(model, "classes_") else model.predict(PROBE)[:, None]
    # treelite's softmax works in single precision
    np.testing.assert_allclose(
        found, expected[:, -found.shape[1] :], rtol=0, atol=1e-6 if kind == "multiclass" else 1e-12
    )
    margin = treelite.gtil.predict(to_treelite(model), np.ascontiguousarray(numbers), pred_margin=True)
    np.testing.assert_allclose(margin.reshape(len(PROBE), -1), raw(model, PROBE), rtol=0, atol=1e-12)


def test_treelite_reads_the_table_that_to_numbers_makes(kinds):
    model, _ = kinds["regression"]
    numbers = to_numbers(model, PROBE)
    assert numbers.shape == PROBE.shape
    assert numbers.flags.c_contiguous
    assert numbers.flags.writeable
    np.testing.assert_array_equal(numbers[:, 0], PROBE["größe"])
    np.testing.assert_array_equal(np.isnan(numbers[:, 1]), PROBE["色"].isna() | (PROBE["色"] == "new"))
    found = treelite.gtil.predict(to_treelite(model), numbers)
    np.testing.assert_allclose(found.ravel(), model.predict(PROBE), rtol=0, atol=1e-12)


def test_treelite_models_can_be_stored(kinds, tmp_path):
    model, _ = kinds["regression"]
    to_treelite(model).serialize(tmp_path / "m.tl")
    numbers = np.ascontiguousarray(model._model.schema.read(PROBE).block(0, len(PROBE)))
    again = treelite.gtil.predict(treelite.Model.deserialize(tmp_path / "m.tl"), numbers)
    np.testing.assert_allclose(again.ravel(), model.predict(PROBE), rtol=0, atol=1e-12)


# -- SHAP ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_shap_values_add_up(kinds, kind):
    model, _ = kinds[kind]
    explained = to_shap(model)
    values = explained.shap_values(PROBE)
    assert values.shape[:2] == PROBE.shape
    total = values.sum(axis=1).reshape(len(PROBE), -1) + np.reshape(explained.expected_value, (1, -1))
    np.testing.assert_allclose(total, raw(model, PROBE), rtol=0, atol=1e-9)


def test_shap_values_are_those_of_the_trees_themselves(kinds):
    """Against the definition, walked over the model's own nodes: categories lose nothing when written as thresholds."""
    model, _ = kinds["regression"]
    rows = PROBE.iloc[:12]
    levels = model._model.schema.read(rows).block(0, len(rows))
    sets = node_sets(model.ensemble_)
    found = to_shap(model).shap_values(rows)
    expected = np.array([_shapley(model.ensemble_, sets, row) for row in levels])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert np.abs(expected[:, [1, 3]]).max() > 0.01


def _shapley(trees, sets, row):
    """Shapley values by the sum over all sets of known features; unknown ones are averaged by training rows."""
    p = len(row)
    worth = {
        known: sum(_mean(trees, sets, row, set(known), t) for t in range(trees.n_trees))
        for size in range(p + 1)
        for known in combinations(range(p), size)
    }
    values = np.zeros(p)
    for j in range(p):
        for known in worth:
            if j not in known:
                weight = factorial(len(known)) * factorial(p - len(known) - 1) / factorial(p)
                values[j] += weight * (worth[tuple(sorted((*known, j)))] - worth[known])
    return values


def _mean(trees, sets, row, known, t):
    begin = int(trees.tree_start[t])

    def below(node):
        left = int(trees.left[node])
        if left < 0:
            return trees.value[node]
        children, j = (begin + left, begin + left + 1), int(trees.feature[node])
        if j not in known:
            cover = trees.cover[list(children)]
            return float(cover @ [below(child) for child in children]) / cover.sum()
        if node in sets:
            goes_left = sets[node][0 if np.isnan(row[j]) else int(row[j]) + 1]
        else:
            goes_left = trees.missing_left[node] if np.isnan(row[j]) else row[j] <= trees.threshold[node]
        return below(children[0 if goes_left else 1])

    return below(begin)


def test_shap_explanation_for_plots(kinds):
    model, _ = kinds["binary"]
    explanation = to_shap(model).explanation(PROBE)
    assert explanation.values.shape == PROBE.shape
    assert list(explanation.feature_names) == list(PROBE)


def test_shap_says_what_it_cannot_do(kinds, monkeypatch):
    monkeypatch.setattr("unbiasedgbm.export.shap._MAX_NODES", 20)
    with pytest.raises(UnsupportedExportError, match="more than 20 nodes"):
        to_shap(kinds["multiclass"][0])


# -- all nodes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frame_has_every_node(kinds, backend):
    model, _ = kinds["multiclass"]
    frame = to_frame(model, backend)
    columns = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert columns[:3] == ["tree", "output", "node"]
    assert len(frame) == model.ensemble_.n_nodes


def test_frame_is_enough_to_predict(kinds):
    model, _ = kinds["regression"]
    frame = to_frame(model)
    trees = [part.set_index("node") for _, part in frame.groupby("tree")]
    for _, row in PROBE.iloc[:15].iterrows():
        total = model.ensemble_.base[0]
        for nodes in trees:
            node = 0
            while nodes.left[node] >= 0:
                value = row[nodes.feature[node]]
                if pd.isna(value) or value == "new":
                    left = nodes.missing_left[node]
                elif nodes.levels[node] is not None and not pd.isna(nodes.levels[node]):
                    left = str(value) in nodes.levels[node].split(", ")
                else:
                    left = value <= nodes.threshold[node]
                node = nodes.left[node] if left else nodes.right[node]
            total += nodes.value[node]
        assert total == pytest.approx(float(model.predict(row.to_frame().T.astype(PROBE.dtypes))[0]), abs=1e-12)
