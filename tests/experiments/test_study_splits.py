"""Splits and metrics."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiments import metrics
from experiments.catalogue import Table
from experiments.splits import thirds, tuning_parts, untuned_parts
from sklearn.metrics import log_loss as sklearn_log_loss


def a_table(y: np.ndarray, task: str) -> Table:
    return Table("t", task, pd.DataFrame({"row": np.arange(len(y))}), y)


def test_thirds_hold_every_row_once_and_are_even():
    y = np.repeat([0, 1, 2], [50, 31, 19])
    parts = thirds(y, 3, stratify=True)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(100))
    assert {len(part) for part in parts} <= {33, 34}
    for label, count in enumerate([50, 31, 19]):
        assert {int(np.sum(y[part] == label)) for part in parts} <= {count // 3, count // 3 + 1}


def test_the_seed_alone_decides_the_split():
    y = np.arange(60) % 2
    same, again, other = (thirds(y, seed, stratify=True) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(same, again, strict=True))
    assert any((a != b).any() for a, b in zip(same, other, strict=True))


def test_tuned_and_untuned_splits_share_their_test_rows():
    table = a_table(np.arange(91) % 2, "binary")
    tuned, untuned = tuning_parts(table, 5), untuned_parts(table, 5)
    pd.testing.assert_frame_equal(tuned.test.X, untuned.test.X)
    assert len(untuned.train.y) == len(tuned.train.y) + len(tuned.valid.y)
    assert untuned.valid is None


def test_the_cap_holds_for_every_part():
    table = a_table(np.random.default_rng(0).normal(size=300), "regression")
    parts = tuning_parts(table, 0, max_rows=40)
    assert [len(part.y) for part in (parts.train, parts.valid, parts.test)] == [40, 40, 40]
    rows = np.concatenate([part.X["row"] for part in (parts.train, parts.valid, parts.test)])
    assert len(np.unique(rows)) == 120


def test_rare_classes_leave_a_multiclass_task_and_the_others_are_renumbered():
    y = np.repeat([0, 1, 2, 3], [30, 2, 30, 30])
    parts = untuned_parts(a_table(y, "multiclass"), 0)
    for part in (parts.train, parts.test):
        assert set(part.y) == {0, 1, 2}
        np.testing.assert_array_equal(y[part.X["row"]], np.array([0, 2, 3])[part.y])


def test_metrics_by_hand():
    y, p = np.array([0, 0, 1, 1]), np.array([0.1, 0.6, 0.4, 0.8])
    binary = metrics.measure("binary", y, p)
    assert binary["auc"] == 0.75
    assert binary["log_loss"] == pytest.approx(-np.mean(np.log([0.9, 0.4, 0.4, 0.8])))
    values = metrics.measure("regression", np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    assert values == {"rmse": pytest.approx(np.sqrt(2)), "mae": 1.0}


def test_calibration_error_by_hand():
    # Two bins of two: |0.1 + 0.2 − 1| and |0.8 + 0.9 − 1|, over four rows.
    y, p = np.array([1, 0, 1, 0]), np.array([0.1, 0.2, 0.8, 0.9])
    assert metrics.calibration_error(y, p, bins=2) == pytest.approx((0.7 + 0.7) / 4)
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    assert metrics.calibration_error((rng.random(p.size) < p).astype(int), p) < 0.01


def test_multiclass_metrics_and_certain_mistakes():
    rng = np.random.default_rng(0)
    y, p = rng.integers(3, size=50), rng.dirichlet(np.ones(3), size=50)
    values = metrics.measure("multiclass", y, p)
    assert values["log_loss"] == pytest.approx(sklearn_log_loss(y, p))
    assert values["accuracy"] == np.mean(p.argmax(axis=1) == y)
    certain = metrics.log_loss(np.array([1]), np.array([[1.0, 0.0]]))
    assert certain == pytest.approx(-np.log(metrics.PROBABILITY_FLOOR))
    with pytest.raises(ValueError, match="finite"):
        metrics.measure("regression", np.zeros(1), np.array([np.nan]))
