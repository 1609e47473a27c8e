import numpy as np
import pytest

from unbiasedgbm.binning import Bins
from unbiasedgbm.training.leaves import add_values
from unbiasedgbm.training.partition import place_rows_alone as place_rows
from unbiasedgbm.training.partition import split_rows_alone as split_rows


def goes_left(b, categorical, threshold, missing_left, levels):
    """The one rule, in plain words."""
    if categorical:
        return bool(levels[b >> 6] >> np.uint64(b & 63) & np.uint64(1))
    return bool(missing_left) if b == 0 else b <= threshold


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("categorical", [0, 1])
@pytest.mark.parametrize("missing_left", [0, 1])
@pytest.mark.parametrize("threshold", [1, 100, 254])
def test_stable_and_equal_to_the_rule(by_column, wide, categorical, missing_left, threshold):
    rng = np.random.default_rng(threshold)
    n, top = 120, 700 if wide else 256
    column = rng.integers(0, top, n)
    column[rng.random(n) < 0.2] = 0
    narrow = np.zeros((n, 8), np.uint8)
    if wide:
        side = np.column_stack([np.full(n, 3), column]).astype(np.uint16).reshape(-1)
        at = -2
    else:
        narrow[:, 5] = column
        side = np.zeros(n * 2, np.uint16)
        at = 5
    flat = narrow.reshape(-1)
    columns = narrow.T.reshape(-1).copy() if by_column else np.empty(0, np.uint8)
    bins = Bins(flat, flat.view(np.uint64), 8, 8, np.ascontiguousarray(side), np.zeros(2, np.int64), columns)
    levels = rng.integers(0, 2**63, (3, 11)).astype(np.uint64)
    rows = rng.permutation(n).astype(np.uint32)
    spare = np.zeros(n, np.uint32)
    begin, end = 10, 110
    n_left = split_rows(bins, at, categorical, threshold, missing_left, levels, 1, rows, begin, end, spare)
    left = [r for r in rows[begin:end] if goes_left(int(column[r]), categorical, threshold, missing_left, levels[1])]
    right = [r for r in rows[begin:end] if r not in left]
    assert n_left == len(left)
    placed = rows.copy()
    place_rows(spare, begin, end, n_left, placed, begin, begin + n_left)
    # old order on both sides, and nothing outside the node moved
    np.testing.assert_array_equal(placed[begin:end], left + right)
    np.testing.assert_array_equal(placed[:begin], rows[:begin])
    np.testing.assert_array_equal(placed[end:], rows[end:])


def test_add_values():
    raw = np.zeros(12)
    rows = np.array([3, 1, 0, 2], np.uint32)
    add_values(raw, 1, 3, rows, np.array([0, 1]), np.array([1, 4]), np.array([5.0, 7.0]), 0, 2)
    np.testing.assert_array_equal(raw.reshape(4, 3), [[0, 7, 0], [0, 7, 0], [0, 7, 0], [0, 5, 0]])
