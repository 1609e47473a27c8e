"""The model does not depend on threads, blocks, thresholds of work, histogram memory or the process, to the bit."""

import hashlib
import os
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from workbench import ALL_RULES, booster, mixed_table, same_trees, trees_of

from unbiasedgbm import UnbiasedGBMClassifier, binning
from unbiasedgbm.ensemble import predict
from unbiasedgbm.losses import AbsoluteError, LogLoss, MulticlassLogLoss
from unbiasedgbm.training import booster as booster_module
from unbiasedgbm.training import shard, workspace
from unbiasedgbm.training.team import FINISHED, LIMIT, NEXT


@pytest.fixture
def small_blocks(monkeypatch):
    """Make a table of hundreds of rows go all the ways of one of millions; call with the size of a block."""

    def set_to(rows, hist_bytes=None):
        monkeypatch.setattr(shard, "BLOCK_ROWS", rows)
        monkeypatch.setattr(booster_module, "BLOCK_ROWS", rows)
        for name in ("_SPLIT_ROWS", "_BUILD_ROWS", "_SCAN_BINS", "_TEAM_ROWS"):
            monkeypatch.setattr(workspace, name, 10)
        monkeypatch.setattr(binning, "_BLOCK_ROWS", rows)
        monkeypatch.setattr(predict, "_BLOCK_ROWS", rows)
        monkeypatch.setattr(predict, "_SERIAL_WORK", 0)
        if hist_bytes is not None:
            monkeypatch.setattr(workspace, "HIST_BYTES", hist_bytes)

    return set_to


def grow(n_jobs, n_iterations=4, loss=None, n=600, **options):
    X, y = mixed_table(n, 3, n_levels=400)
    if loss is not None and loss.name.endswith("log_loss"):
        y = np.digitize(y, [0.5, 2.0][: loss.n_outputs - 1] or [1.0]).astype(float)
    options = {"num_leaves": 12, "min_split_gain": -3.0, "split_rule": "evidence", "min_samples_leaf": 3, **options}
    boosted = booster(X, y, categorical=[4, 5], loss=loss, n_jobs=n_jobs, **options)
    trees = [grown for _ in range(n_iterations) for grown in boosted.iterate()]
    memory = boosted._lanes[0].memory
    return trees_of(boosted, trees), boosted.progress.importance.copy(), boosted.rows.raw.copy(), memory


def assert_same(a, b):
    assert same_trees(a[0], b[0])
    np.testing.assert_array_equal(a[1], b[1])
    np.testing.assert_array_equal(a[2], b[2])
    assert (a[0].left >= 0).sum() > 10


@pytest.mark.parametrize("rule", ALL_RULES)
@pytest.mark.parametrize("n_jobs", [2, 3, 8])
def test_threads(small_blocks, rule, n_jobs):
    alone = grow(1, split_rule=rule)
    small_blocks(40)
    assert_same(grow(n_jobs, split_rule=rule), alone)


@pytest.mark.parametrize("rows", [1, 7, 64, 599, 10**9])
def test_block_sizes(small_blocks, rows):
    alone = grow(1)
    small_blocks(rows)
    assert_same(grow(3), alone)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": LogLoss()},
        {"loss": MulticlassLogLoss(3), "n_iterations": 2},
        {"loss": AbsoluteError()},
        {"subsample": 0.6},
        {"role_draw": "node"},
        {"colsample_bytree": 0.5, "colsample_bynode": 0.6},
        {"monotone": [1, -1, 0, 0, 0, 0]},
        {"groups": [[1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 1]]},
        {"weight": np.arange(600) % 4 + 1.0},
        {"weight": np.arange(600) % 4 + 0.5},
    ],
    ids=lambda options: "-".join(options),
)
def test_threads_with_options(small_blocks, options):
    alone = grow(1, **options)
    small_blocks(33)
    assert_same(grow(3, **options), alone)


def test_the_team_shares_the_work(small_blocks):
    """The tests above would say nothing if small tables were always left to one thread."""
    memory = grow(2)[3]
    assert memory.n_members == 1
    small_blocks(40)
    memory = grow(2)[3]
    assert memory.n_members == 2
    # chunks of tasks, of which partitions and histograms leave traces of the second
    assert memory.board[NEXT] == memory.board[FINISHED] == memory.board[LIMIT] > 20
    assert memory.cuts[1].any()
    assert memory.parts.any()


@pytest.mark.parametrize("rule", ["evidence", "separate", "standard"])
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("role_draw", ["tree", "node"])
def test_histogram_memory(small_blocks, rule, n_jobs, role_draw):
    options = {"num_leaves": 40, "split_rule": rule, "role_draw": role_draw}
    plenty = grow(1, **options)
    assert plenty[3].n_slots >= 38
    small_blocks(50, hist_bytes=1)
    scarce = grow(n_jobs, **options)
    # the least promising leaves lose their histograms, and their children are built without
    assert scarce[3].n_slots == 4
    assert_same(scarce, plenty)


_PROGRAM = """
import sys
sys.path[:0] = {path!r}
from test_threads_and_blocks import fingerprint
print(fingerprint({n_jobs}))
"""


def fingerprint(n_jobs):
    X, y = mixed_table(500, 3)
    model = UnbiasedGBMClassifier(n_estimators=10, categorical_features=[4, 5], n_jobs=n_jobs).fit(X, y > 1)
    digest = hashlib.sha256()
    for field in fields(model.ensemble_):
        digest.update(np.ascontiguousarray(getattr(model.ensemble_, field.name)).tobytes())
    digest.update(model.feature_importances_.tobytes())
    digest.update(model.predict_proba(X).tobytes())
    return digest.hexdigest()


def test_equal_in_another_process():
    program = _PROGRAM.format(path=[os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))], n_jobs=2)
    environment = {**os.environ, "PYTHONHASHSEED": "123"}
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True, timeout=120
    )
    assert answer.stdout.strip() == fingerprint(1)


def test_predictions_do_not_depend_on_threads_or_blocks(small_blocks):
    X, y = mixed_table(700, 3)
    model = UnbiasedGBMClassifier(n_estimators=10, categorical_features=[4, 5], n_jobs=1).fit(X, np.digitize(y, [0, 2]))
    expected, leaf = model.predict_proba(X), model.apply(X)
    one_by_one = np.vstack([model.predict_proba(X[i : i + 1]) for i in range(50)])
    np.testing.assert_array_equal(one_by_one, expected[:50])
    small_blocks(13)
    for n_jobs in (1, 2, 8):
        model.set_params(n_jobs=n_jobs)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
        np.testing.assert_array_equal(model.apply(X), leaf)
        np.testing.assert_array_equal(list(model.staged_predict_proba(X))[-1], expected)
