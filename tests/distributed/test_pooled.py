"""A large node on all threads of a station: the same rows and sums as in plain NumPy."""

import numpy as np
import pytest
from workbench import bins_of, booster

from unbiasedgbm.distributed import pooled


@pytest.fixture(params=[1, 3])
def boosted(request, monkeypatch):
    monkeypatch.setattr(pooled, "BLOCK_ROWS", 10)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[rng.random((400, 3)) < 0.1] = np.nan
    boosted = booster(X, rng.normal(size=400), n_jobs=request.param, split_rule="separate")
    boosted.rows.rows[:] = rng.permutation(400)
    boosted.rows.packed[:] = rng.integers(-1000, 1000, 400)
    return boosted


# rows of each role, from row 7 on
BEGIN, COUNT = 7, np.array([150, 130, 50, 40])


@pytest.mark.parametrize("missing_left", [0, 1])
def test_divide(boosted, missing_left):
    rows = boosted.rows.rows
    before, b = rows.copy(), bins_of(boosted, 1)
    threshold = int(np.median(b))
    rule = (boosted.rows.bins, 1, 0, threshold, missing_left, None, 0)
    left = pooled.divide(boosted.rows, BEGIN, COUNT, rule)
    sides = ([], [])
    at = BEGIN
    for role, n in enumerate(COUNT):
        inside = before[at : at + n]
        goes_left = np.where(b[inside] == 0, missing_left == 1, b[inside] <= threshold)
        assert left[role] == goes_left.sum()
        sides[0].append(inside[goes_left])
        sides[1].append(inside[~goes_left])
        at += n
    np.testing.assert_array_equal(rows[BEGIN:at], np.concatenate([*sides[0], *sides[1]]))
    np.testing.assert_array_equal(rows[:BEGIN], before[:BEGIN])
    np.testing.assert_array_equal(rows[at:], before[at:])


def test_histogram(boosted):
    rows, layout = boosted.rows, boosted.rows.layout
    size = layout.n_roles * layout.hist_size
    out = np.full(size, -1, np.int64)
    parts = np.full((rows.pool.n_threads - 1, size), -1, np.int64)
    pooled.histogram(rows, BEGIN, COUNT, parts, out)
    expected = np.zeros(size, np.int64)
    at = BEGIN
    for role in range(layout.n_roles):
        inside = rows.rows[at : at + COUNT[role]]
        for j, offset in enumerate(boosted.mapper.offset()):
            np.add.at(expected, role * layout.hist_size + offset + bins_of(boosted, j)[inside], rows.packed[inside])
        at += COUNT[role]
    np.testing.assert_array_equal(out, expected)
