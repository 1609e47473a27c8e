import numpy as np
import pytest

from unbiasedgbm.binning import STRIDE, Bins
from unbiasedgbm.training.histogram import add, clear, subtract
from unbiasedgbm.training.histogram import add_rows_alone as add_rows
from unbiasedgbm.training.splitting import FEATURE


def random_bins(rng, n, n_narrow, wide_sizes):
    n_bytes = 8 * ((n_narrow + 7) // 8)
    narrow = np.zeros((n, n_bytes), np.uint8)
    narrow[:, :n_narrow] = rng.integers(0, 256, (n, n_narrow))
    wide = np.column_stack([rng.integers(0, size, n) for size in wide_sizes] or [np.empty((n, 0))]).astype(np.uint16)
    offset = STRIDE * n_narrow + np.cumsum([0, *wide_sizes])[:-1]
    flat = np.ascontiguousarray(narrow.reshape(-1))
    return Bins(
        flat,
        flat.view(np.uint64),
        n_narrow,
        n_bytes,
        np.ascontiguousarray(wide.reshape(-1)),
        offset.astype(np.int64),
        np.empty(0, np.uint8),
    )


def histogram_twin(bins, n, packed, rows, size):
    hist = np.zeros(size, np.int64)
    narrow = bins.narrow.reshape(n, bins.n_bytes).astype(np.int64)
    wide = bins.wide.reshape(n, len(bins.wide_offset)).astype(np.int64)
    for row in rows:
        for j in range(bins.n_narrow):
            hist[STRIDE * j + narrow[row, j]] += packed[row]
        for j, offset in enumerate(bins.wide_offset):
            hist[offset + wide[row, j]] += packed[row]
    return hist


@pytest.mark.parametrize("n_narrow", [0, 1, 7, 8, 9, 19])
@pytest.mark.parametrize("wide_sizes", [(), (300,), (1000, 300)])
def test_equals_twin(n_narrow, wide_sizes):
    if n_narrow == 0 and not wide_sizes:
        wide_sizes = (257,)
    rng = np.random.default_rng(n_narrow)
    n = 150
    bins = random_bins(rng, n, n_narrow, wide_sizes)
    packed = rng.integers(-(2**50), 2**50, n)
    rows = rng.permutation(n).astype(np.uint32)
    size = STRIDE * n_narrow + sum(wide_sizes)
    begin, end, origin = 11, 140, 5
    hist = np.zeros(size + 10, np.int64)
    add_rows(bins, packed, rows, begin, end, hist, origin)
    expected = histogram_twin(bins, n, packed, rows[begin:end], size)
    np.testing.assert_array_equal(hist[origin : origin + size], expected)
    # nothing outside was touched
    assert not hist[:origin].any()
    assert not hist[origin + size :].any()


def test_any_cut_of_the_rows_gives_the_same_sums():
    rng = np.random.default_rng(0)
    n = 200
    bins = random_bins(rng, n, 5, (300,))
    packed, rows = rng.integers(-(2**55), 2**55, n), np.arange(n, dtype=np.uint32)
    size = 5 * STRIDE + 300
    whole, parts = np.zeros(size, np.int64), np.zeros(size, np.int64)
    add_rows(bins, packed, rows, 0, n, whole, 0)
    for begin, end in [(120, 200), (0, 1), (1, 120)]:
        add_rows(bins, packed, rows, begin, end, parts, 0)
    np.testing.assert_array_equal(whole, parts)


def test_empty_range():
    bins = random_bins(np.random.default_rng(0), 10, 3, ())
    hist = np.zeros(3 * STRIDE, np.int64)
    add_rows(bins, np.ones(10, np.int64), np.arange(10, dtype=np.uint32), 4, 4, hist, 0)
    assert not hist.any()


def test_clear_subtract_and_add():
    # compiled only inside other kernels; their Python source is the same code
    features = np.zeros(2, FEATURE)
    features["offset"], features["n_bins"] = [0, 4], [3, 2]
    features = features.view(np.recarray)
    used = np.array([0, 1, 2, 4, 5])  # places 3, 6 and 7 of a role belong to no bin
    used = np.concatenate([used, 8 + used])
    hist = np.arange(48, dtype=np.int64)
    subtract.py_func(hist, 32, 16, 2, 8, features, 0, 2)
    expected = np.arange(48)
    expected[32 + used] -= expected[16 + used]
    np.testing.assert_array_equal(hist, expected)
    add.py_func(hist, 32, np.arange(16), 0, 2, 8, features, 1, 2)
    expected[32 + np.array([4, 5, 12, 13])] += [4, 5, 12, 13]
    np.testing.assert_array_equal(hist, expected)
    clear.py_func(hist, 16, 2, 8, features)
    expected[16 + used] = 0
    np.testing.assert_array_equal(hist, expected)
