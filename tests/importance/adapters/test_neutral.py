from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

from unbiasedgbm.ensemble.adapters import Tree, TreeModel, neutral, read_model, supported_libraries
from unbiasedgbm.ensemble.adapters.neutral import proof_rows
from unbiasedgbm.importance import unbiased_gain
from unbiasedgbm.losses import SquaredError

from ..helpers import mixed_table, numeric


def forest(n_trees: int, limits: tuple[int, ...] = ()) -> TreeModel:
    leaf = np.array([-1], dtype=np.int32)
    tree = Tree(leaf, leaf, leaf, np.zeros((1, 1)))
    return TreeModel(
        library="none",
        version="0",
        trees=(tree,) * n_trees,
        n_outputs=1,
        feature_names=("a",),
        loss=SquaredError(),
        bind=lambda X, n_jobs: pytest.fail("not asked for"),
        encode=np.asarray,
        limits=limits,
    )


@pytest.mark.parametrize(
    ("n_trees", "limits", "n_rows", "expected"),
    [
        (0, (0,), 10, []),
        (5, (), 10, [(0, 5)]),
        (5, (), 500, [(0, 2), (2, 4), (4, 5)]),
        (6, (0, 3, 6), 10, [(0, 6)]),
        (6, (0, 3, 6), 500, [(0, 3), (3, 6)]),
        (2, (), 10**9, [(0, 1), (1, 2)]),
    ],
)
def test_chunks_cover_all_trees_within_the_limit(
    monkeypatch: pytest.MonkeyPatch, n_trees: int, limits: Any, n_rows: int, expected: Any
) -> None:
    monkeypatch.setattr(neutral, "_CHUNK", 1000)
    assert list(forest(n_trees, limits).chunks(n_rows)) == expected


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    X, targets = mixed_table()
    table, y = numeric(X), targets["multiclass"]
    tables = (table[:400], y[:400], table[400:], y[400:])
    for model in (
        lightgbm.LGBMClassifier(n_estimators=6, num_leaves=6, n_jobs=1, verbose=-1),
        lightgbm.LGBMClassifier(
            n_estimators=6, num_leaves=6, boosting_type="rf", subsample=0.7, subsample_freq=1, n_jobs=1, verbose=-1
        ),
        xgboost.XGBClassifier(n_estimators=4, max_depth=3, num_parallel_tree=2, n_jobs=1),
    ):
        model.fit(*tables[:2])
        monkeypatch.setattr(neutral, "_CHUNK", 1 << 22)
        whole = unbiased_gain(model, *tables)
        monkeypatch.setattr(neutral, "_CHUNK", 1)
        parts = unbiased_gain(model, *tables)
        np.testing.assert_array_equal(whole.importance, parts.importance)
        np.testing.assert_array_equal(whole.se, parts.se)


def test_a_model_without_trees() -> None:
    X, targets = mixed_table()
    table, y = numeric(X), targets["regression"]
    model = xgboost.XGBRegressor(n_estimators=0, n_jobs=1).fit(table, y)
    assert read_model(model).trees == ()
    np.testing.assert_array_equal(unbiased_gain(model, table, y, table, y).importance, 0.0)


def test_a_reading_is_proved_on_all_or_many_rows() -> None:
    np.testing.assert_array_equal(proof_rows(3), [0, 1, 2])
    many = proof_rows(10**6)
    assert len(many) == 10_000
    assert (many[0], many[-1]) == (0, 10**6 - 1)


def test_libraries_are_named() -> None:
    assert {"xgboost", "lightgbm", "catboost", "unbiasedgbm"} < set(supported_libraries())
