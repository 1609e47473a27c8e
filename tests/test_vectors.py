"""Vectors of eight against NumPy."""

import numba
import numpy as np
import pytest

from unbiasedgbm.training.gradients import G_SHIFT
from unbiasedgbm.training.levels import order_levels
from unbiasedgbm.training.splitting import Rule, new_scratch
from unbiasedgbm.vectors import ranks, sum_up_to, sums_up_to

SIZES = (1, 2, 7, 8, 9, 16, 31, 48)


@numba.njit
def call_sums_up_to(keys, values, n, sums):
    sums_up_to(keys, values, n, sums)


@numba.njit
def call_sum_up_to(words, values, begin, end, shift, cut):
    return sum_up_to(words, values, np.uint64(begin), np.uint64(end), np.uint64(shift), np.uint64(cut))


@numba.njit
def call_ranks(keys, n, rank):
    ranks(keys, n, rank)


@numba.njit
def call_order_levels(hist, n, rule, scratch):
    return order_levels(hist, np.uint64(3), n, rule, scratch)


@pytest.mark.parametrize("n", SIZES)
def test_sums_up_to(n):
    rng = np.random.default_rng(n)
    keys, values = rng.integers(1, 20, 56), rng.integers(-(1 << 60), 1 << 60, 56)
    sums = np.zeros(56, np.int64)
    call_sums_up_to(keys, values, n, sums)
    np.testing.assert_array_equal(sums[:n], [values[:n][keys[:n] <= key].sum() for key in keys[:n]])
    # nothing beyond the next multiple of eight
    assert not sums[-(-n // 8) * 8 :].any()


@pytest.mark.parametrize("feature", range(8))
def test_sum_up_to(feature):
    rng = np.random.default_rng(feature)
    bins, values = rng.integers(0, 256, (40, 8), dtype=np.uint8), rng.integers(-(1 << 60), 1 << 60, 40)
    words = np.ascontiguousarray(bins).view("<u8")[:, 0].astype(np.uint64)
    for begin, end in ((0, 40), (8, 16), (16, 16)):
        for cut in (0, 1, 100, 254, 255):
            left = bins[begin:end, feature] <= cut
            assert call_sum_up_to(words, values, begin, end, 8 * feature, cut) == values[begin:end][left].sum()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("most", [1, 3, 1 << 62])
def test_ranks(n, most):
    keys = np.random.default_rng(n).integers(-most, most, 56)
    rank = np.zeros(56, np.int64)
    call_ranks(keys, n, rank)
    np.testing.assert_array_equal(np.argsort(rank[:n]), np.argsort(keys[:n], kind="stable"))


@pytest.mark.parametrize("n", [1, 2, 9, 63, 64, 65, 66, 200, 3000])
@pytest.mark.parametrize("most", [0, 2, 1 << 25])
def test_order_of_levels(n, most):
    """Levels of few and of many rows, with and without ties, of both signs; every third was not seen."""
    rng = np.random.default_rng(n)
    g, h = rng.integers(-most, most + 1, n), rng.integers(1, 3, n)
    seen = rng.random(n) < 2 / 3
    hist = np.where(seen, (g << G_SHIFT) + (h << 10) + 1, 0)
    rule = Rule(0, 1, 10, 1.0, 5.0, 1, 1, 0, 1.0, 0.0, 1.0, np.uint64(0))
    scratch = new_scratch(n)
    m = call_order_levels(np.concatenate([np.zeros(3, np.int64), hist]), n, rule, scratch)
    level = np.flatnonzero(seen)
    assert m == len(level)
    expected = level[np.lexsort((level, (g / (h + 5.0))[level]))]
    np.testing.assert_array_equal(scratch.order[:m], expected)
