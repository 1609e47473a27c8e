"""The study of rows that belong together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiments.catalogue import TableSource
from experiments.methods import METHODS
from experiments.reports.pages import GROUPS_METHODS
from experiments.splits import grouped_parts
from experiments.store import Store
from experiments.studies import groups
from test_study_pipeline import call


@pytest.fixture
def grouped(monkeypatch, generated):
    """A generated table whose groups are named by a column."""
    table = TableSource(str(generated.folder), str(generated.catalogue)).load("categories")
    column = table.X.columns[0]
    monkeypatch.setitem(groups.GROUPS, "categories", (column,))
    monkeypatch.setitem(groups.MEANING, "categories", "a value")
    return table, groups.group_numbers("categories", table.X)


def test_every_table_has_a_meaning():
    assert groups.GROUPS.keys() == groups.MEANING.keys()


def test_groups_by_columns():
    X = pd.DataFrame({"a": [1, 1, 2, 1], "b": ["x", "y", "x", "x"], "age": [1, 2, 3, 4]})
    for columns in (("a", "b"), ("~age",)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(groups.GROUPS, "t", columns)
            assert groups.group_numbers("t", X).tolist() == [0, 1, 2, 0]


def test_no_group_is_on_both_sides(grouped):
    table, numbers = grouped
    seen = []
    for seed in range(3):
        parts = grouped_parts(table, numbers, seed)
        inside, outside = set(parts.train.groups.tolist()), set(parts.test.groups.tolist())
        assert not inside & outside
        assert len(outside) == round((numbers.max() + 1) / 3)
        assert len(parts.train.y) + len(parts.test.y) == len(table.y)
        seen.append(frozenset(outside))
    assert len(set(seen)) > 1
    few = grouped_parts(table, numbers, 0, max_rows=20)
    assert len(few.train.y) == len(few.train.groups) == 20


def test_one_method_is_told_the_groups():
    told = [name for name, method in METHODS.items() if method.takes_groups]
    assert told == ["unbiasedgbm_by_groups"]
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)))
    y = (X[0] + rng.normal(size=300) > 0).to_numpy().astype(int)
    same, by_groups = (
        METHODS[told[0]].fit("binary", X, y, {"n_estimators": 5}, seed=0, threads=1, groups=one).predict(X)
        for one in (None, np.arange(300) // 10)
    )
    plain = METHODS["unbiasedgbm"].fit("binary", X, y, {"n_estimators": 5}, seed=0, threads=1).predict(X)
    assert np.array_equal(same, plain)
    assert not np.array_equal(by_groups, plain)


def test_from_rows_to_a_page(grouped, generated, tmp_path):
    store = tmp_path / "groups.jsonl"
    call("groups", "--tables", "categories", "--splits", 2, "--store", store, *generated.arguments)
    assert len(Store(store).rows("groups")) == 2 * len(GROUPS_METHODS)
    call("report", "groups", "--store", store, "--catalogue", generated.catalogue, "--out", tmp_path)
    page = (tmp_path / "groups.md").read_text()
    for words in ("## AUC", "## log loss", "| categories | a value |", "UnbiasedGBM by groups", "2 splits"):
        assert words in page
