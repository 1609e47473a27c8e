"""Rows that belong together, on the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor

import unbiasedgbm.importance
import unbiasedgbm.report
from lifecycle.test_cli import FAST, invoke, rows_used  # noqa: F401 (a fixture)
from unbiasedgbm import load_model
from unbiasedgbm.files.model_file import load_notes


@pytest.fixture
def visits(tmp_path):
    rng = np.random.default_rng(0)
    patient = rng.permutation(np.repeat(np.arange(60), 10))
    dose = rng.normal(size=600)
    pressure = dose + rng.normal(size=60)[patient] + rng.normal(size=600)
    table = pd.DataFrame({"patient": [f"p{k}" for k in patient], "dose": dose, "y": pressure})
    table.to_csv(tmp_path / "visits.csv", index=False)
    return table


@pytest.mark.parametrize("command", ["importance", "report"])
def test_groups_of_the_training_are_those_of_the_importance(command, visits, tmp_path, rows_used, monkeypatch):  # noqa: F811
    data, model = tmp_path / "visits.csv", tmp_path / "m.json"
    invoke("train", data, "-t", "y", "--groups", "patient", "-o", model, *FAST)
    assert list(load_model(model).feature_names_in_) == ["dose"]
    assert load_notes(model)["train.groups"] == "patient"
    seen = []
    for owner, name in ((unbiasedgbm.importance, "unbiased_gain"), (unbiasedgbm.report, "write_report")):
        original = getattr(owner, name)

        def watched(*arguments, original=original, **named):
            seen.append(named["row_groups_val"])
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, watched)
    invoke(command, model, data, "-t", "y", "-o", tmp_path / ("r.html" if command == "report" else "i.csv"))
    trained, judged = (set(visits.loc[list(rows_used[which]), "patient"]) for which in ("trained", "judged"))
    assert not trained & judged
    assert len(judged) == 12
    assert len(trained) == 48
    assert set(seen[0]) == judged


def test_importance_of_another_library_by_groups(visits, tmp_path):
    model = LGBMRegressor(n_estimators=5, verbose=-1).fit(visits[["dose"]], visits["y"])
    model.booster_.save_model(tmp_path / "m.txt")
    invoke("importance", tmp_path / "m.txt", tmp_path / "visits.csv", "-t", "y", "-o", tmp_path / "rows.csv")
    groups = ["--groups", "patient", "-o", tmp_path / "groups.csv"]
    invoke("importance", tmp_path / "m.txt", tmp_path / "visits.csv", "-t", "y", *groups)
    held_out = ["--holdout-data", tmp_path / "visits.csv", "--groups", "patient", "-o", tmp_path / "held.csv"]
    invoke("importance", tmp_path / "m.txt", tmp_path / "visits.csv", "-t", "y", *held_out)
    for name in ("rows", "groups", "held"):
        assert pd.read_csv(tmp_path / f"{name}.csv")["feature"].tolist() == ["dose"]


def test_what_cannot_be(visits, tmp_path):
    data, model = tmp_path / "visits.csv", tmp_path / "m.json"
    visits.assign(patient=visits["patient"].where(visits.index > 2)).to_csv(tmp_path / "gaps.csv", index=False)
    visits.assign(patient="p0").to_csv(tmp_path / "one.csv", index=False)
    invoke("train", data, "-t", "y", "-o", model, *FAST)
    for arguments, message in (
        (["train", data, "-t", "y", "--groups", "Patient"], "has no column 'Patient'. Did you mean 'patient'?"),
        (["train", tmp_path / "gaps.csv", "-t", "y", "--groups", "patient"], "is missing in 3 rows"),
        (["train", tmp_path / "one.csv", "-t", "y", "--groups", "patient"], "1 groups are too few for --holdout 0.2"),
        (["importance", model, data, "-t", "y", "--groups", "patient"], "was trained without --groups; got --groups"),
    ):
        assert message in " ".join(invoke(*arguments, ok=False).split())
    assert "patient" in json.dumps(list(load_model(model).feature_names_in_))
