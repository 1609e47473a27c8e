"""The examples run as they stand, and show what they say."""

from __future__ import annotations

import runpy

import pytest

from docs.pages import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run an example in an empty folder; what it has defined."""
    monkeypatch.chdir(tmp_path)
    return lambda name: runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")


def test_all_are_tested_and_listed():
    page = (ROOT / "examples" / "README.md").read_text("utf-8")
    tests = "".join(name for name in globals() if name.startswith("test_"))
    for path in EXAMPLES:
        assert f"[{path.name}]({path.name})" in page
        assert path.stem in tests
        assert len(path.read_text("utf-8").splitlines()) <= 50, f"{path.name} is not short any more"


def test_explain_xgboost(run):
    found = run("explain_xgboost")
    assert found["honest"].p_value[-1] > 0.05
    assert list(found["gain"].ranking()).index(10) < list(found["honest"].ranking()).index(10)


@pytest.mark.filterwarnings("ignore:LightGBM binary classifier")
def test_explain_lightgbm(run):
    ranks = run("explain_lightgbm")["ranks"]
    assert ranks.loc["row_id", "gain_rank"] == 1
    assert list(ranks.sort_values("unbiased_gain_rank").index[:2]) == ["channel", "over_50"]


def test_explain_catboost(run):
    result = run("explain_catboost")["result"]
    assert result.p_value[0] < 1e-3
    assert result.p_value[2] > 0.05


def test_explain_sklearn(run):
    result = run("explain_sklearn")["result"]
    assert result.p_adjusted.min() < 1e-6
    assert result.p_adjusted[-1] > 0.05


def test_credit_scoring(run):
    found = run("credit_scoring")
    assert found["places"]["LightGBM"][0] <= 3
    assert found["places"]["UnbiasedGBM"][1] >= 4


def test_patients(run):
    errors = run("patients")["errors"]
    assert errors["UnbiasedGBM by groups"] < 0.95 * min(errors["UnbiasedGBM"], errors["LightGBM"])


def test_select_features(run):
    kept = run("select_features")["kept"]
    assert 3 <= len(kept) <= 20
    assert not any(name.startswith("noise") for name in kept)


def test_tune_with_pruning(run):
    found = run("tune_with_pruning")
    assert 0 < len(found["pruned"]) < 12


def test_polars_to_onnx(run):
    assert run("polars_to_onnx")["gap"] < 1e-9


def test_custom_loss(run):
    found = run("custom_loss")
    assert found["too_low"]["ours"] < found["too_low"]["plain"] - 0.05
    assert found["price"]["ours"] < found["price"]["plain"]
