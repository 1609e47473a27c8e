"""The command line, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import unbiasedgbm.importance
import unbiasedgbm.report
from lifecycle.samples import mixed_table, target
from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor, load_model
from unbiasedgbm.cli import app
from unbiasedgbm.cli.tables import infer_task

FAST = ["--set", "n_estimators=15", "--set", "num_leaves=8", "-j", "1"]


def invoke(*arguments, ok=True):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert (result.exit_code == 0) is ok, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    table = mixed_table(600).drop(columns='say "x"\\n')
    table["code"] = table["code"].astype(int)
    y = target(mixed_table(600))
    table.assign(y=np.where(y > 0.8, "ja", "nein")).to_csv(folder / "classes.csv", index=False)
    table.assign(price=y).to_parquet(folder / "numbers.parquet")
    invoke("train", folder / "classes.csv", "-t", "y", "-o", folder / "classes.json", *FAST)
    invoke("train", folder / "numbers.parquet", "-t", "price", "-o", folder / "numbers.json.gz", *FAST)
    return folder


def test_train_says_what_it_does(folder):
    output = invoke("train", folder / "classes.csv", "--target", "y", "-o", folder / "again.json", *FAST)
    assert "Classification (the target is not a number and has 2 values)" in output
    assert "ROC AUC" in output
    assert "Held-out score (120 rows)" in output
    assert (folder / "again.json").read_bytes() == (folder / "classes.json").read_bytes()
    model = load_model(folder / "again.json")
    assert isinstance(model, UnbiasedGBMClassifier)
    assert (model.n_estimators, model.num_leaves) == (15, 8)
    output = invoke("train", folder / "numbers.parquet", "-t", "price", "-o", folder / "again.json", *FAST)
    assert "Regression" in output
    assert "R²" in output


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("categorical_features=zip", ["zip"]),
        ("categorical_features=zip,b", ["zip", "b"]),
        ("categorical_features=2", [2]),
        ("categorical_features=false,false,true", [False, False, True]),
        ("categorical_features=none", None),
        ("categorical_features=from_dtype", "from_dtype"),
        ("interaction_cst=[['a', 'b'], ['zip']]", [["a", "b"], ["zip"]]),
        ('interaction_cst=[["a"], [1, 2]]', [["a"], [1, 2]]),
        ("interaction_cst=a,b", [["a", "b"]]),
        ("interaction_cst=pairwise", "pairwise"),
        ("monotonic_cst=1,0,-1", [1, 0, -1]),
        ("monotonic_cst={'a': 1}", {"a": 1}),
        ("class_weight={0: 1, 1: 2.5}", {0: 1, 1: 2.5}),
        ("class_weight=balanced", "balanced"),
        ("role_ratio=1,2", [1, 2]),
        ("scoring=loss,accuracy", ["loss", "accuracy"]),
        ("min_split_gain=-inf", -np.inf),
    ],
)
def test_any_parameter_can_be_set(setting, value, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120), "zip": rng.integers(0, 5, 120)})
    table.assign(y=(table["a"] > 0).astype(int)).to_csv(tmp_path / "t.csv", index=False)
    invoke("train", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m.json", "--set", setting, *FAST)
    assert getattr(load_model(tmp_path / "m.json"), setting.partition("=")[0]) == value


def test_train_goes_on_from_a_checkpoint(folder):
    arguments = ["train", folder / "classes.csv", "-t", "y", "--checkpoint", folder / "c.json", "-j", "1"]
    invoke(*arguments, "-o", folder / "a.json", "--set", "n_estimators=50")
    assert load_model(folder / "c.json").n_iter_ == 50
    output = invoke(*arguments, "-o", folder / "b.json", "--set", "n_estimators=60")
    assert "60 iterations" in output
    output = invoke(*arguments, "-o", folder / "b.json", "--set", "learning_rate=0.5", ok=False)
    assert "learning_rate" in output


def test_predict(folder):
    invoke("predict", folder / "classes.json", folder / "classes.csv", "-o", folder / "p.csv", "--proba")
    found = pd.read_csv(folder / "p.csv")
    assert list(found) == ["prediction", "p(ja)", "p(nein)"]
    table = pd.read_csv(folder / "classes.csv")
    model = load_model(folder / "classes.json")
    np.testing.assert_array_equal(found["prediction"], model.predict(table.drop(columns="y")))
    printed = invoke("predict", folder / "numbers.json.gz", folder / "numbers.parquet")
    assert printed.startswith("prediction\n")
    assert len(printed.splitlines()) == 601


def test_importance_and_report(folder):
    output = invoke("importance", folder / "classes.json", folder / "classes.csv", "-t", "y", "-o", folder / "i.csv")
    assert "unbiasedgbm model, 480 training and 120 held-out rows" in output
    frame = pd.read_csv(folder / "i.csv")
    assert set(frame["feature"]) == {"größe", "色", "code"}
    assert {"importance", "se", "p_adjusted", "plain_gain"} <= set(frame)
    invoke("report", folder / "classes.json", folder / "classes.csv", "-t", "y", "-o", folder / "r.html")
    page = (folder / "r.html").read_text()
    content = json.loads(page.split('id="content">')[1].split("</script>")[0])
    assert content["title"] == "y from classes.csv"


@pytest.fixture
def rows_used(monkeypatch):
    """Numbers of the rows that were trained on, and of those that judged."""
    used = {}

    def spy(owner, name, what, place):
        original = getattr(owner, name)

        def watched(*arguments, **named):
            used[what] = set(arguments[place].index)
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, watched)

    spy(UnbiasedGBMRegressor, "fit", "trained", 1)
    spy(UnbiasedGBMClassifier, "fit", "trained", 1)
    spy(unbiasedgbm.importance, "unbiased_gain", "judged", 3)
    spy(unbiasedgbm.report, "write_report", "judged", 4)
    return used


@pytest.mark.parametrize("command", ["importance", "report"])
@pytest.mark.parametrize(
    "options", [["--task", "regression"], ["--task", "classification"], ["--seed", "5", "--holdout", "0.3"]]
)
def test_the_rows_that_judge_were_not_trained_on(command, options, rows_used, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    table = pd.DataFrame({"x": x, "t t": np.clip(np.round(2 * x + rng.normal(size=300)) + 4, 0, 7).astype(int)})
    data, model = tmp_path / "count.csv", tmp_path / "m.json"
    table.to_csv(data, index=False)
    output = invoke("train", data, "-t", "t t", "-o", model, *options, *FAST)
    assert f"Next: unbiasedgbm importance {model} {data} -t 't t'" in " ".join(output.split())
    output = invoke(command, model, data, "-t", "t t", "-o", tmp_path / ("r.html" if command == "report" else "i.csv"))
    assert "does not say which rows" not in output
    assert len(rows_used["judged"]) == (90 if "0.3" in options else 60)
    assert rows_used["trained"] | rows_used["judged"] == set(range(300))
    assert not rows_used["trained"] & rows_used["judged"]


def test_another_split_than_that_of_the_training_is_refused(folder, rows_used):
    table = pd.read_csv(folder / "classes.csv")
    table[:500].to_csv(folder / "part.csv", index=False)
    for options, message in (
        (["--seed", "1"], "was trained with --seed 0; got --seed 1"),
        (["--holdout", "0.3"], "was trained with --holdout 0.2; got --holdout 0.3"),
    ):
        output = invoke("importance", folder / "classes.json", folder / "classes.csv", "-t", "y", *options, ok=False)
        assert message in " ".join(output.split())
    output = invoke("importance", folder / "classes.json", folder / "part.csv", "-t", "y", ok=False)
    assert "--holdout-data" in output
    invoke("importance", folder / "classes.json", folder / "classes.csv", "-t", "y", "--seed", "0")
    table[500:].to_csv(folder / "rest.csv", index=False)
    files = [folder / "part.csv", "-t", "y", "--holdout-data", folder / "rest.csv"]
    invoke("importance", folder / "classes.json", *files)
    assert len(rows_used["judged"]) == 100


def test_a_model_that_does_not_say_its_split_is_judged_with_a_warning(folder, rows_used):
    load_model(folder / "classes.json").save_model(folder / "silent.json")
    output = invoke("importance", folder / "silent.json", folder / "classes.csv", "-t", "y", "--seed", "3")
    assert "does not say which rows it was trained on" in " ".join(output.split())
    assert len(rows_used["judged"]) == 120


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_importance_of_other_libraries_models(library, folder, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    y = (table["a"] + 0.5 * rng.normal(size=400) > 0).astype(int)
    table.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    if library == "xgboost":
        from xgboost import XGBClassifier

        model = XGBClassifier(n_estimators=10, n_jobs=1).fit(table, y)
        names = ["m.json", "m.ubj"]
    elif library == "lightgbm":
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1).fit(table, y).booster_
        names = ["m.txt"]
    else:
        from catboost import CatBoostClassifier

        model = CatBoostClassifier(iterations=10, verbose=0, allow_writing_files=False).fit(table, y)
        names = ["m.cbm"]
    for name in names:
        model.save_model(str(tmp_path / name))
        invoke("importance", tmp_path / name, tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "i.csv")
        frame = pd.read_csv(tmp_path / "i.csv")
        assert frame["feature"][0] == "a"
        assert frame["p_value"][0] < 0.01
        output = invoke("predict", tmp_path / name, tmp_path / "t.csv", ok=False)
        assert library in output


def _text_table(n, seed):
    """Classes and a category of text; the first of either is rare."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"mean size": rng.normal(size=n), "kind": rng.choice(["k0", "k1", "k2"], n, p=[0.1, 0.5, 0.4])}
    )
    raised = table["mean size"] + (table["kind"] == "k1") + 0.3 * rng.normal(size=n)
    return table.assign(y=np.array(["c0", "c1", "c2"])[np.digitize(raised, [-1.0, 0.5])])


def train_on_text(library, table, path):
    X, y = table.drop(columns="y").astype({"kind": "category"}), table["y"]
    if library == "xgboost":
        from xgboost import XGBClassifier

        model = XGBClassifier(n_estimators=10, n_jobs=1, enable_categorical=True)
        model.fit(X, y.astype("category").cat.codes).save_model(path)
    elif library == "lightgbm":
        from lightgbm import LGBMClassifier

        LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1).fit(X, y).booster_.save_model(path)
    else:
        from catboost import CatBoostClassifier

        options = {"cat_features": ["kind"], "verbose": 0, "allow_writing_files": False, "thread_count": 1}
        CatBoostClassifier(iterations=10, **options).fit(X, y).save_model(str(path))


@pytest.mark.parametrize(("library", "suffix"), [("xgboost", "ubj"), ("lightgbm", "txt"), ("catboost", "cbm")])
def test_labels_and_levels_of_text_are_those_of_the_training_table(library, suffix, tmp_path):
    """A held-out file in which the first class and the first level do not occur."""
    table, held_out = _text_table(600, 0), _text_table(300, 1).query("y != 'c0' and kind != 'k0'")
    table.to_csv(tmp_path / "t.csv", index=False)
    held_out.to_csv(tmp_path / "v.csv", index=False)
    model = tmp_path / f"m.{suffix}"
    train_on_text(library, table, model)
    arguments = ["importance", model, tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "i.csv", "-j", "1"]
    invoke(*arguments, "--holdout-data", tmp_path / "v.csv")
    found = pd.read_csv(tmp_path / "i.csv")
    # the same rows, and one row each of what was missing that hardly counts
    whole = pd.concat([held_out, table.query("y == 'c0'").head(1), table.query("kind == 'k0'").head(1)])
    whole.to_csv(tmp_path / "w.csv", index=False)
    invoke(*arguments, "--holdout-data", tmp_path / "w.csv")
    expected = pd.read_csv(tmp_path / "i.csv")
    assert list(found["feature"]) == list(expected["feature"])
    np.testing.assert_allclose(found["importance"], expected["importance"], rtol=0.1)
    assert (found["importance"] > 0).all()
    held_out.assign(y="other").to_csv(tmp_path / "v.csv", index=False)
    output = invoke(*arguments, "--holdout-data", tmp_path / "v.csv", ok=False)
    assert "other" in output


def test_lightgbm_writes_underscores_for_spaces(tmp_path):
    table = _text_table(300, 0).rename(columns={"kind": "kind of thing"})
    table["mean_size_"] = 0.0
    table.to_csv(tmp_path / "t.csv", index=False)
    train_on_text("lightgbm", table.rename(columns={"kind of thing": "kind"}), tmp_path / "m.txt")
    text = (tmp_path / "m.txt").read_text()
    assert "mean_size kind mean_size_" in text
    output = invoke("importance", tmp_path / "m.txt", tmp_path / "t.csv", "-t", "y", ok=False)
    assert "lacks 1 columns of the model: kind" in " ".join(output.split())
    table.rename(columns={"kind of thing": "kind"}).to_csv(tmp_path / "t.csv", index=False)
    invoke("importance", tmp_path / "m.txt", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "i.csv", "-j", "1")
    assert set(pd.read_csv(tmp_path / "i.csv")["feature"]) == {"mean_size", "kind", "mean_size_"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "none.csv", "-t", "y"], "There is no file none.csv"),
        (["train", "{f}/classes.csv", "-t", "Y"], "Did you mean 'y'"),
        (["train", "{f}/classes.csv", "-t", "y", "--set", "leaves=3"], "--set wants name=value"),
        (["train", "{f}/classes.csv", "-t", "y", "--set", "num_leaves=1"], "num_leaves must be"),
        (
            ["train", "{f}/classes.csv", "-t", "y", "--set", "interaction_cst=[[a]]"],
            "interaction_cst: [[a]] is no list",
        ),
        (["train", "{f}/classes.csv", "-t", "y", "--holdout", "1.5"], "--holdout must lie between"),
        (["train", "{f}/classes.csv", "-t", "y", "--task", "ranking"], "--task must be"),
        (["train", "{f}/classes.csv", "-t", "y", "-o", "{f}/no/where.json"], "no/where.json: there is no folder"),
        (["train", "{f}/classes.json", "-t", "y"], "the name must end with"),
        (["predict", "{f}/classes.csv", "{f}/classes.csv"], "known are"),
        (["predict", "{f}/numbers.json.gz", "{f}/numbers.parquet", "--proba"], "needs a classifier"),
        (["importance", "{f}/broken.json", "{f}/classes.csv", "-t", "y"], "checksum"),
    ],
)
def test_errors_help_and_exit_with_1(arguments, message, folder):
    data = (folder / "classes.json").read_bytes()
    (folder / "broken.json").write_bytes(data.replace(b'"seed":0', b'"seed":1'))
    result = CliRunner().invoke(app, [argument.format(f=folder) for argument in arguments])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_wrong_usage_exits_with_2():
    assert CliRunner().invoke(app, ["train"]).exit_code == 2
    assert CliRunner().invoke(app, ["fly"]).exit_code == 2


@pytest.mark.parametrize("command", ["importance", "report"])
def test_a_file_of_rows_held_out_that_lacks_a_column(folder, tmp_path, command):
    table = pd.read_csv(folder / "classes.csv")
    table.drop(columns=table.columns[0]).to_csv(tmp_path / "less.csv", index=False)
    arguments = (command, folder / "classes.json", folder / "classes.csv", "-t", "y", "-o", tmp_path / "out")
    output = invoke(*arguments, "--holdout-data", tmp_path / "less.csv", ok=False)
    assert "less.csv lacks 1 columns of the model" in " ".join(output.split())


@pytest.mark.parametrize("command", ["train", "predict", "importance", "report", "warmup", "demo"])
def test_help(command):
    output = invoke(command, "--help")
    assert "Usage" in output
    if command in ("train", "predict", "importance", "report"):
        assert "Example" in output


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a"], "classification"),
        ([True, False, True], "classification"),
        ([0, 1, 1], "classification"),
        ([0.0, 1.0, 2.0], "classification"),
        ([0.5, 1.5, 2.5], "regression"),
        (list(range(50)), "regression"),
        ([0.1, 0.2, 0.1], "classification"),
    ],
)
def test_task(values, task):
    assert infer_task(pd.Series(values))[0] == task


def test_the_module_runs_and_says_its_version():
    done = subprocess.run(
        [sys.executable, "-m", "unbiasedgbm", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("unbiasedgbm 0.")


def test_without_typer_it_says_what_it_needs():
    code = "import sys; sys.modules['typer'] = None; import runpy; runpy.run_module('unbiasedgbm', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'unbiasedgbm[cli]'" in done.stderr
