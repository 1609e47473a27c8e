"""Numbers and figures in README and docs are those of the committed results."""

from __future__ import annotations

import json

import pytest
from tools import results, tables
from tools.figures import FIGURES
from tools.pages import ROOT, filled, pages, parts


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_page_is_up_to_date(page):
    text = page.read_text("utf-8")
    assert filled(text) == text, "run `make figures`"


def test_values_within_a_sentence_do_not_begin_a_line():
    # a comment at the beginning of a line ends the paragraph before it
    for page in pages():
        for line in page.read_text("utf-8").splitlines():
            assert not (line.startswith("<!-- generated") and "<!-- end -->" in line), f"{page.name}: {line}"


def test_every_table_is_used():
    used = {name for page in pages() for name in parts(page.read_text("utf-8"))}
    assert used == set(tables.TABLES)


@pytest.mark.parametrize("path", FIGURES)
def test_figure_is_up_to_date(path):
    assert (ROOT / path).read_text("utf-8") == FIGURES[path](), "run `make figures`"


def test_tables_follow_the_results(monkeypatch, tmp_path):
    found = json.loads((results.BENCHMARKS / "fit.json").read_text())
    found["rows"][0]["ratio"] = {"LightGBM": 0.123, "CatBoost": 0.456}
    monkeypatch.setattr(results, "BENCHMARKS", tmp_path)
    (tmp_path / "fit.json").write_text(json.dumps(found))
    results.benchmark.cache_clear()
    try:
        table = tables.fit_times()
    finally:
        results.benchmark.cache_clear()
    assert "0.12" in table
    assert "| CatBoost |" in table
    assert "0.46" in table


def test_an_unknown_name_is_noticed():
    with pytest.raises(KeyError, match="nonsense"):
        filled("<!-- generated: nonsense --><!-- end -->")


def test_parameters_are_all_there():
    from unbiasedgbm.parameters import CLASSIFIER_PARAMETERS, REGRESSOR_PARAMETERS

    page = (ROOT / "docs" / "reference" / "parameters.md").read_text("utf-8")
    listed = [parameter.name for parameter in {*CLASSIFIER_PARAMETERS, *REGRESSOR_PARAMETERS}]
    for name in listed:
        # once, or once for each kind where the defaults differ
        assert page.count(f"| `{name}` |") == listed.count(name)
