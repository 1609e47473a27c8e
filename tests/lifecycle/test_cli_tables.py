"""What the command line makes of files: types of columns, rows that are held out, and places for what it writes."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import unbiasedgbm.importance
import unbiasedgbm.report
from lifecycle.test_cli import FAST, invoke, train_on_text
from unbiasedgbm import UnbiasedGBMRegressor, load_model
from unbiasedgbm.cli.tables import CommandError, Labelled, hold_out, read_table

# Cells of the training, and those of another file, in which they look like another type.
CELLS = {
    "text": (["1", "2", "3", "4", "A"], ["1", "2", "3", "4"]),
    "leading zeros": (["01", "02", "1", "x"], ["01", "02", "1"]),
    "truth": (["True", "False", "maybe"], ["True", "False"]),
    "gaps": (["1", "2", "A", ""], ["1", "2", ""]),
    "numbers": (["1", "2", "3", "10"], ["1", "2", "3", "10", "A"]),
    "fractions": (["0.5", "1.5", "2"], ["0.5", "1.5", "2", "B"]),
    "booleans": (["True", "False"], ["True", "False", "C"]),
}


def coded_table(cells, seed, n=400):
    """A table as its file reads; every cell has a target of its own."""
    rng = np.random.default_rng(seed)
    code = rng.choice(cells, n)
    height = {cell: k**2 for k, cell in enumerate(sorted(cells))}
    y = np.array([height[cell] for cell in code]) + 0.1 * rng.normal(size=n)
    return pd.DataFrame({"code": code, "x": rng.normal(size=n), "y": y})


def as_levels(model, cells):
    """Cells as the model knows them; None for those that it does not know."""
    level = {str(level): level for level in model._model.schema.categories[0]}
    return [level.get(cell) for cell in cells]


@pytest.mark.parametrize("kind", list(CELLS))
@pytest.mark.parametrize("suffix", ["csv", "tsv.gz"])
def test_categories_are_of_the_type_of_the_training(kind, suffix, tmp_path):
    files, whole, part = [tmp_path / f"{name}.{suffix}" for name in ("old", "new")], *CELLS[kind]
    tables = [coded_table(whole, 0), coded_table(part, 1)]
    for table, file in zip(tables, files, strict=True):
        table.to_csv(file, index=False, sep="\t" if suffix.startswith("tsv") else ",")
    invoke("train", files[0], "-t", "y", "-o", tmp_path / "m.json", "--set", "categorical_features=code", *FAST)
    invoke("predict", tmp_path / "m.json", files[1], "-o", tmp_path / "p.csv")
    model = load_model(tmp_path / "m.json")
    X = tables[1][["code", "x"]].assign(code=as_levels(model, tables[1]["code"]))
    found = pd.read_csv(tmp_path / "p.csv")["prediction"]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-12)
    assert found.max() - found.min() > 0.5


@pytest.mark.parametrize("command", ["importance", "report"])
def test_held_out_categories_and_classes_are_of_the_type_of_the_training(command, tmp_path, monkeypatch):
    table, held_out = coded_table(["1", "2", "3", "A"], 0), coded_table(["1", "2", "3"], 1, 300)
    for one, name in ((table, "t.csv"), (held_out, "v.csv")):
        one["label"] = np.where(one["code"] == "A", "B", one["code"])
        one.drop(columns="y").to_csv(tmp_path / name, index=False)
    seen = {}
    for owner, name in ((unbiasedgbm.importance, "unbiased_gain"), (unbiasedgbm.report, "write_report")):
        original = getattr(owner, name)

        def watched(*arguments, original=original, **named):
            seen["X"], seen["y"] = arguments[-2:]
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, watched)
    model, data = tmp_path / "m.json", tmp_path / "t.csv"
    invoke("train", data, "-t", "label", "-o", model, *FAST)
    output = ["-o", tmp_path / ("r.html" if command == "report" else "i.csv")]
    invoke(command, model, data, "-t", "label", "--holdout-data", tmp_path / "v.csv", *output)
    assert set(seen["X"]["code"]) == set(seen["y"]) == {"1", "2", "3"}


def test_a_model_without_names_has_the_columns_in_order(tmp_path):
    table = coded_table(["1", "2", "A"], 0)
    model = UnbiasedGBMRegressor(n_estimators=5, n_jobs=1, categorical_features=[0])
    model.fit(table[["code", "x"]].to_numpy(dtype=object), table["y"]).save_model(tmp_path / "m.json")
    part = coded_table(["1", "2"], 1)
    part[["code", "x"]].to_csv(tmp_path / "new.csv", index=False)
    invoke("predict", tmp_path / "m.json", tmp_path / "new.csv", "-o", tmp_path / "p.csv")
    expected = model.predict(part[["code", "x"]].to_numpy(dtype=object))
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], expected, rtol=1e-12)
    # rows that are judged have the target, too, here as the first column
    part[["y", "code", "x"]].to_csv(tmp_path / "v.csv", index=False)
    arguments = ["importance", tmp_path / "m.json", tmp_path / "v.csv", "-t", "y", "-o", tmp_path / "i.csv"]
    invoke(*arguments, "--holdout-data", tmp_path / "v.csv")
    assert pd.read_csv(tmp_path / "i.csv")["importance"][0] > 0.01


@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize("trained_as", ["text", "category", "lower", "booleans", "integers", "number"])
def test_truth_values_of_a_catboost_model(trained_as, one_hot, tmp_path):
    from catboost import CatBoostRegressor

    rng = np.random.default_rng(0)
    flag = rng.integers(0, 2, 600).astype(bool)
    table = pd.DataFrame({"flag": flag, "x": rng.normal(size=600), "y": flag + 0.1 * rng.normal(size=600)})
    if trained_as == "integers":
        table["flag"] = table["flag"].astype(int)
    if trained_as in ("text", "category", "lower"):
        table["flag"] = table["flag"].astype(str).astype("category" if trained_as == "category" else object)
    if trained_as == "lower":
        table["flag"] = table["flag"].str.lower()
    table.to_csv(tmp_path / "t.csv", index=False)
    X = table.drop(columns="y")
    options = {} if trained_as == "number" else {"cat_features": ["flag"], "one_hot_max_size": 2 if one_hot else 1}
    model = CatBoostRegressor(iterations=10, verbose=0, allow_writing_files=False, thread_count=1, **options)
    model.fit(X, table["y"]).save_model(str(tmp_path / "m.cbm"))
    invoke("importance", tmp_path / "m.cbm", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "i.csv", "-j", "1")
    found = pd.read_csv(tmp_path / "i.csv")
    assert found["feature"][0] == "flag"
    assert found["importance"][0] > 0.01


@pytest.mark.parametrize(("library", "suffix"), [("xgboost", "ubj"), ("lightgbm", "txt"), ("catboost", "cbm")])
@pytest.mark.parametrize("kinds", [["1", "2", "A"], ["true", "false", "maybe"]])
def test_text_of_held_out_rows_is_that_of_the_training_table(library, suffix, kinds, tmp_path):
    """Of another library's model, with a held-out file in which text looks like numbers or truth values."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"mean size": rng.normal(size=600), "kind": rng.choice(kinds, 600)})
    table["y"] = (table["kind"] == kinds[0]) + 0.1 * rng.normal(size=600) > 0.5
    held_out = table.query("kind != @kinds[2]")
    for one, name in ((table, "t.csv"), (held_out, "v.csv")):
        one.astype({"y": int}).to_csv(tmp_path / name, index=False)
    train_on_text(library, table.astype({"y": int}), tmp_path / f"m.{suffix}")
    arguments = ["importance", tmp_path / f"m.{suffix}", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "i.csv"]
    invoke(*arguments, "--holdout-data", tmp_path / "v.csv", "-j", "1")
    found = pd.read_csv(tmp_path / "i.csv")
    assert found["feature"][0] == "kind"
    assert found["importance"][0] > 0.1


def test_a_column_of_a_large_file_has_one_type(tmp_path):
    """Long enough to be read in pieces, of which the first ones hold numbers only."""
    (tmp_path / "t.csv").write_text("code,x\n" + "1,123456\n" * 700_000 + "A,0\n")
    assert {type(cell) for cell in read_table(tmp_path / "t.csv")["code"]} == {str}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_boolean_target_with_gaps(suffix, tmp_path):
    x = np.random.default_rng(0).normal(size=200)
    answer = pd.Series(x > 0, dtype=object).where(np.arange(200) > 4, None)
    table = pd.DataFrame({"x": x, "answer": answer})
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet", index=False)
    data, model = tmp_path / f"t.{suffix}", tmp_path / "m.json"
    output = invoke("train", data, "-t", "answer", "-o", model, *FAST)
    assert "5 rows without a target are left out" in output
    assert load_model(model).classes_.tolist() == [False, True]
    invoke("importance", model, data, "-t", "answer", "-o", tmp_path / "i.csv")
    assert pd.read_csv(tmp_path / "i.csv")["importance"][0] > 0.01


# -- rows that are held out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_the_only_row_of_a_class_is_trained_on(seed, tmp_path):
    rng = np.random.default_rng(0)
    rows = Labelled(pd.DataFrame({"x": rng.normal(size=60)}), pd.Series([*["a", "b"] * 29, "once", "other"]))
    training, held_out = hold_out(rows, 0.3, seed, "classification")
    assert {"once", "other"} <= set(training.y)
    assert sorted([*training.X.index, *held_out.X.index]) == list(range(60))
    assert all(training.y.index == training.X.index)
    rows.X.assign(y=rows.y).to_csv(tmp_path / "t.csv", index=False)
    options = ["--seed", seed, "--holdout", 0.3, "-o", tmp_path / "m.json"]
    invoke("train", tmp_path / "t.csv", "-t", "y", *options, *FAST)
    assert load_model(tmp_path / "m.json").classes_.tolist() == ["a", "b", "once", "other"]
    invoke("importance", tmp_path / "m.json", tmp_path / "t.csv", "-t", "y")


@pytest.mark.parametrize("seed", range(8))
def test_groups_of_a_class_that_no_other_has_are_trained_on(seed):
    groups = pd.Series(np.arange(60) // 4)
    y = pd.Series(["a", "b"] * 30).where((groups != 5) | (np.arange(60) % 4 != 0), "once")
    rows = Labelled(pd.DataFrame({"x": np.arange(60.0)}), y, groups)
    training, held_out = hold_out(rows, 0.4, seed, "classification")
    assert "once" in set(training.y)
    assert not set(training.groups) & set(held_out.groups)
    assert len(training.y) + len(held_out.y) == 60


def test_no_row_to_hold_out():
    rows = Labelled(pd.DataFrame({"x": np.arange(9.0)}), pd.Series(list("abcdefghi")))
    with pytest.raises(CommandError, match=r"--holdout 0.2: there is no row to hold out"):
        hold_out(rows, 0.2, 0, "classification")


# -- places for what is written --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["train", "predict", "importance", "report", "demo", "checkpoint"])
@pytest.mark.parametrize("place", ["missing", "folder"])
def test_a_place_where_nothing_can_be_written_is_named_before_any_work(command, place, tmp_path, monkeypatch):
    table = coded_table(["a", "b"], 0)
    table.to_csv(tmp_path / "t.csv", index=False)
    UnbiasedGBMRegressor(n_estimators=2, n_jobs=1).fit(table[["code", "x"]], table["y"]).save_model(tmp_path / "m.json")

    def work(*arguments, **named):
        raise AssertionError("too early")

    for module, name in (("cli.app", "read_table"), ("cli.app", "read_any_model"), ("demo", "run")):
        monkeypatch.setattr(import_module(f"unbiasedgbm.{module}"), name, work)
    path = tmp_path / "no" / "where.csv" if place == "missing" else tmp_path
    model, data = tmp_path / "m.json", tmp_path / "t.csv"
    arguments = {
        "train": ["train", data, "-t", "y", "-o", path],
        "checkpoint": ["train", data, "-t", "y", "--checkpoint", path],
        "predict": ["predict", model, data, "-o", path],
        "importance": ["importance", model, data, "-t", "y", "-o", path],
        "report": ["report", model, data, "-t", "y", "-o", path],
        "demo": ["demo", "-o", path],
    }[command]
    output = " ".join(invoke(*arguments, ok=False).split())
    option = "--checkpoint" if command == "checkpoint" else "--output"
    expected = f"{path}: there is no folder {path.parent}" if place == "missing" else f"{path} is a folder"
    assert f"{option} {expected}" in output
