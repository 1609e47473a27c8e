"""The whole study on two small tables: from nothing to rows, from rows to pages and figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiments.cli import app
from experiments.reports.curves import best_so_far, normalised_curves
from experiments.reports.markdown import markdown_table
from experiments.reports.rows import complete, scores
from experiments.reports.untuned import summary
from experiments.store import Store
from typer.testing import CliRunner

RIVALS = "lightgbm,xgboost,catboost"


def call(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def study(generated, tmp_path_factory):
    """Every command of the study once; returns the folder with the stores."""
    folder = tmp_path_factory.mktemp("study")
    tune = ["--methods", "lightgbm,xgboost,merged", "--iterations", "2", "--store", folder / "tuned.jsonl"]
    call("tune", *tune, *generated.arguments)
    output = call(
        "untuned", "--methods", RIVALS, "--splits", 2, "--store", folder / "untuned.jsonl", *generated.arguments
    )
    assert "## Binary tables" in output
    output = call("times", "--methods", RIVALS, "--store", folder / "times.jsonl", *generated.arguments)
    assert "## Time, 2 tables" in output
    assert "one after the other" in output
    call("select-features", "--seeds", 1, "--store", folder / "selection.jsonl", *generated.arguments)
    call("toy", "--repetitions", 40, "--store", folder / "toy.jsonl")
    call("pack", folder / "toy.jsonl")
    return folder


def test_the_reports_come_from_the_store_alone(study, generated, tmp_path):
    stores = [part for path in sorted(study.glob("*.jsonl")) for part in ("--store", path)]
    call("report", "all", *stores, "--catalogue", generated.catalogue, "--out", tmp_path / "one")
    call("report", "all", *stores, "--catalogue", generated.catalogue, "--out", tmp_path / "two")
    pages = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert pages.keys() >= {"untuned.md", "untuned-search.md", "untuned-check.md", "selection.md", "toy.md", "toy.svg"}
    assert pages.keys() >= {"tuned.md", "tuned-paper-curves.svg", "tuned-paper-dots.svg", "tuned-paper-ranks.svg"}
    assert "untuned-ranks.svg" in pages
    assert pages == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}


def test_the_untuned_page_compares_every_method_on_every_table(study, generated, tmp_path):
    call("report", "untuned", "--store", study / "untuned.jsonl", "--catalogue", generated.catalogue, "--out", tmp_path)
    page = (tmp_path / "untuned.md").read_text()
    for words in ("AUC, 2 tables", "Log loss, 2 tables", "Calibration error", "Wilcoxon p", "fit time / LightGBM"):
        assert words in page
    assert "AUC, 1 table\n" in (tmp_path / "untuned-check.md").read_text()
    assert "2 splits. Rows may have been measured on different days." in page


def test_times_come_from_the_run_that_was_for_them(study, generated, tmp_path):
    stores = ["--store", study / "untuned.jsonl", "--store", study / "times.jsonl"]
    call("report", "untuned", *stores, "--catalogue", generated.catalogue, "--out", tmp_path)
    rows = Store(study / "untuned.jsonl").rows()
    assert "1 split. All methods of a table were measured one after the other." in (tmp_path / "untuned.md").read_text()
    assert "## Time, 1 table\n" in (tmp_path / "untuned-check.md").read_text()
    # of all their columns only the times
    clock = [
        {
            **row,
            "test_auc": 0.0,
            "fit_cpu_seconds": 2.0,
            "predict_cpu_seconds": 3.0 if row["method"] == "catboost" else 1.0,
        }
        for row in rows
    ]
    page = summary(rows, timed=clock)
    assert "| CatBoost | 1.00 | 3.00 |" in page
    timeless = summary(rows).split("## Time")[0]
    assert page.split("## Time")[0] == timeless


def test_the_tuned_page_has_the_papers_sections(study, generated, tmp_path):
    call("report", "tuned", "--store", study / "tuned.jsonl", "--catalogue", generated.catalogue, "--out", tmp_path)
    page = (tmp_path / "tuned.md").read_text()
    for words in ("2 tables, 1 seeds, 3 methods, 2 to 2 tuning iterations", "12 models", "Log loss and time"):
        assert words in page
    # The paper's ranks are of four methods; beside three they would mislead.
    assert "Beside the paper" not in page


def test_a_store_can_be_packed_and_read_beside_another(study, generated, tmp_path):
    packed = tmp_path / "rivals.jsonl.gz"
    call("pack", study / "untuned.jsonl", packed)
    mine = tmp_path / "mine.jsonl"
    methods = ["--methods", f"{RIVALS},hist_gradient_boosting", "--splits", 2]
    output = call("untuned", *methods, "--store", mine, "--with", packed, *generated.arguments)
    assert {row["method"] for row in Store(mine).rows()} == {"hist_gradient_boosting"}
    assert "| CatBoost |" in output


def test_a_raw_target_is_another_task(generated, tmp_path):
    store = tmp_path / "raw.jsonl"
    output = call(
        "untuned", "--raw", "--methods", "lightgbm,catboost", "--splits", 1, "--store", store, *generated.arguments
    )
    assert [row["table"] for row in Store(store).rows()] == ["categories@raw"] * 2
    assert "RMSE / CatBoost" in output


def test_the_half_restricts_the_tables(generated, tmp_path):
    store = tmp_path / "half.jsonl"
    options = ["--half", "check", "--methods", "lightgbm", "--splits", 1, "--store", store]
    call("untuned", *options, *generated.arguments)
    assert {row["table"] for row in Store(store).rows()} == {"categories"}
    call("untuned", "--half", "third", *generated.arguments, code=2)


def test_a_failing_method_is_reported_by_the_command(generated, tmp_path):
    store = tmp_path / "failing.jsonl"
    wrong = 'wrong={"no_such_parameter": 1}'
    options = ["--methods", "lightgbm", "--ours", wrong, "--splits", 1, "--store", store]
    output = call("untuned", *options, *generated.arguments, code=1)
    assert "## Failures" in output
    assert sum("error" in row for row in Store(store).rows()) == 2
    assert sum("error" not in row for row in Store(store).rows()) == 2


def test_a_variant_must_be_json(generated):
    call("untuned", "--ours", "wide={num_leaves: 3}", *generated.arguments, code=2)


def test_the_catalogue_command_compares_checksums(generated, tmp_path):
    assert "same" in call("catalogue", "--check", *generated.arguments)
    changed = tmp_path / "catalogue.toml"
    changed.write_text(generated.catalogue.read_text().replace('checksum = "', 'checksum = "0'))
    call("catalogue", "--check", "--data", generated.folder, "--catalogue", changed, code=1)


def tuned_frame() -> pd.DataFrame:
    lines = []
    for table, base in (("t", 0.5), ("u", 0.8)):
        for method, tests in (("a", [0.1, 0.0, 0.05]), ("b", [0.02, 0.1, 0.03])):
            for number, test in enumerate(tests):
                valid = [0.3, 0.2, 0.4][number]
                lines.append((table, 0, method, number, "binary", valid, base + test))
    return pd.DataFrame(lines, columns=["table", "seed", "method", "number", "task", "valid_auc", "test_auc"])


def test_the_best_model_so_far_is_the_best_on_the_validation_rows():
    frame = tuned_frame().rename(columns={"valid_auc": "valid", "test_auc": "test"})
    curves = best_so_far(frame)
    # The second model is worse on the validation rows than the first; the third is better than both.
    assert curves.loc["t", 0, "a"].to_list() == pytest.approx([0.6, 0.6, 0.55])
    assert curves.loc["u", 0, "b"].to_list() == pytest.approx([0.82, 0.82, 0.83])


def test_curves_are_normalised_by_all_models_of_the_table():
    curves = normalised_curves(tuned_frame(), ["a", "b"])
    assert curves.loc["t", 0, "a"].to_list() == pytest.approx([1.0, 1.0, 0.5])
    assert curves.loc["u", 0, "b"].to_list() == pytest.approx([0.2, 0.2, 0.3])
    shorter = tuned_frame().query("not (table == 'u' and method == 'b')")
    assert normalised_curves(shorter, ["a", "b"]).index.get_level_values("table").unique().to_list() == ["t"]


def test_a_table_with_a_missing_split_is_incomplete():
    frame = pd.DataFrame(
        {"table": list("ttuuu"), "seed": [0, 0, 0, 0, 1], "method": list("ababa"), "x": [1.0, 2.0, 3.0, 4.0, 5.0]}
    )
    table = scores(frame, "x")
    assert np.isnan(table.loc["t"]).all()
    assert complete(table).empty
    one_split = scores(frame[frame["seed"] == 0], "x")
    assert one_split.loc["u"].to_dict() == {"a": 3.0, "b": 4.0}


def test_the_best_method_of_a_table_is_bold():
    row = {
        "study": "untuned",
        "table": "t",
        "seed": 0,
        "number": 0,
        "options": {"max_rows": None},
        "task": "regression",
    }
    rows = [{**row, "method": name, "test_rmse": rmse, "versions": {}} for name, rmse in (("a", 2.0), ("b", 1.5))]
    page = summary(rows)
    assert "| t | RMSE | 2 | **1.5** |" in page
    assert "all rows" in page


def test_one_label_has_one_meaning(study):
    rows = Store(study / "untuned.jsonl").rows()
    mixed = [*rows, {**rows[0], "options": {**rows[0]["options"], "max_rows": 7}}]
    with pytest.raises(ValueError, match="different options"):
        summary(mixed)
    assert summary([]) == "No measurements."


def test_markdown_tables():
    frame = pd.DataFrame({"p": [0.0001, 0.25], "n": [1.0, np.nan]}, index=["a", "b"])
    assert markdown_table(frame, {"p": "p"}, "m").splitlines()[2:] == ["| a | < .001 | 1 |", "| b | 0.250 | – |"]
