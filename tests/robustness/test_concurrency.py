"""Two threads at once, forked children, joblib: the same answers, and no hang."""

import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from workbench import mixed_table

from unbiasedgbm import UnbiasedGBMClassifier
from unbiasedgbm.training import workspace


def fit(seed, n_jobs=2):
    X, y = mixed_table(500, seed)
    model = UnbiasedGBMClassifier(n_estimators=15, categorical_features=[4, 5], random_state=seed, n_jobs=n_jobs)
    return model.fit(X, np.digitize(y, [0, 2])).predict_proba(X)


@pytest.fixture
def pool_paths(monkeypatch):
    """Teams share the work of small tables, too."""
    for name in ("_SPLIT_ROWS", "_BUILD_ROWS", "_SCAN_BINS", "_TEAM_ROWS"):
        monkeypatch.setattr(workspace, name, 10)


def test_fits_at_once(pool_paths):
    expected = [fit(seed, 1) for seed in range(6)]
    with ThreadPoolExecutor(4) as executor:
        for got, wanted in zip(executor.map(fit, range(6)), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_predictions_at_once_with_one_model():
    X, y = mixed_table(3000, 0)
    model = UnbiasedGBMClassifier(n_estimators=20, n_jobs=2).fit(X, y > 1)
    expected = model.predict_proba(X)
    with ThreadPoolExecutor(4) as executor:
        for got in executor.map(lambda _: model.predict_proba(X), range(12)):
            np.testing.assert_array_equal(got, expected)


def _child(queue):
    queue.put(fit(1))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fit_in_a_forked_child_after_a_fit_in_the_parent(pool_paths):
    expected = fit(1)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    got = queue.get(timeout=60)
    child.join(timeout=60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(got, expected)
    # and the parent's threads still work
    np.testing.assert_array_equal(fit(1), expected)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib(backend):
    expected = [fit(seed, 1) for seed in range(3)]
    with joblib.parallel_config(backend=backend, n_jobs=2):
        got = joblib.Parallel()(joblib.delayed(fit)(seed) for seed in range(3))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)
