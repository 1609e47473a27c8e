"""Who goes left: one rule for thresholds, missing values and categories, and the stable partition of a node's rows.

`bin_goes_left` is the only place where a bin is compared with a split. Training, prediction on bins and the tests' twin
all mean this function.
"""

from __future__ import annotations

import numpy as np

from unbiasedgbm.kernels import inline_kernel, kernel, prefetch

# Rows read ahead.
_AHEAD = 24

# Where the rows of a node are farther apart than this on average, a column's lines are no better than a row's.
_FAR_APART = 32


@inline_kernel
def bin_goes_left(b, categorical, threshold, missing_left, levels, k):
    """Whether bin ``b`` goes left.

    Parameters
    ----------
    b : int
        0 is for missing values.
    categorical, missing_left : int
        0 for no.
    threshold : int
        Last bin on the left.
    levels : ndarray of shape (m, words), uint64, or None
        Row k is the set of the bins on the left of a categorical split; None for a table without categories.
    """
    if levels is not None and categorical != 0:
        return (levels[k, b >> 6] >> np.uint64(b & 63)) & np.uint64(1) != np.uint64(0)
    if b == 0:
        return missing_left != 0
    return b <= threshold


@inline_kernel
def split_rows(bins, column, categorical, threshold, missing_left, levels, k, rows, begin, end, spare):
    """Divide rows[begin:end] into ``spare``: left ones from the front, right ones from the back; returns the left ones.

    Parameters
    ----------
    bins : Bins
    column : int
        Position among the narrow features, or −1 − position among the wide ones.
    categorical, threshold, missing_left : int
        The split; see `bin_goes_left`.
    levels : ndarray of shape (m, words), uint64, or None
        Row k is the split's set of bins.
    rows, spare : ndarrays of shape (n,), uint32
    """
    front = np.uint64(begin)
    back = np.uint64(end)
    one = np.uint64(1)
    narrow, wide = bins.narrow, bins.wide
    if levels is None or (column >= 0 and categorical == 0):
        # the hot path; a wrap of the unsigned byte sends missing values right where they belong there
        shift = np.uint8(0) if missing_left != 0 else np.uint8(1)
        limit = np.uint8(threshold - shift)
        source, width, at = narrow, np.uint64(bins.n_bytes), np.uint64(column)
        read_ahead = begin
        if bins.columns.size > 0:
            read_ahead = end - _AHEAD
            if (end - begin) * _FAR_APART > rows.size:
                source, width, at = bins.columns, one, np.uint64(column * rows.size)
        for i in range(np.uint64(begin), np.uint64(end)):
            if np.int64(i) < read_ahead:
                prefetch(source, np.uint64(rows[i + np.uint64(_AHEAD)]) * width + at)
            row = rows[i]
            b = np.uint8(source[np.uint64(row) * width + at] - shift)
            left = b <= limit
            # both ends are written; only one advances
            spare[front] = row
            spare[back - one] = row
            step = np.uint64(left)
            front += step
            back -= one - step
        return np.int64(front) - begin
    for i in range(np.uint64(begin), np.uint64(end)):
        row = rows[i]
        if column >= 0:
            b = np.int64(narrow[np.uint64(row) * np.uint64(bins.n_bytes) + np.uint64(column)])
        else:
            b = np.int64(wide[np.uint64(row) * np.uint64(bins.wide_offset.size) + np.uint64(-1 - column)])
        step = np.uint64(bin_goes_left(b, categorical, threshold, missing_left, levels, k))
        spare[front] = row
        spare[back - one] = row
        front += step
        back -= one - step
    return np.int64(front) - begin


@inline_kernel
def place_rows(spare, begin, end, n_left, rows, left_at, right_at):
    """Copy what `split_rows` divided to where the children begin, in the old order."""
    for i in range(np.uint64(n_left)):
        rows[np.uint64(left_at) + i] = spare[np.uint64(begin) + i]
    n_right = end - begin - n_left
    for i in range(np.uint64(n_right)):
        rows[np.uint64(right_at) + i] = spare[np.uint64(end - 1) - i]


@kernel
def add_tree(bins, features, node, levels, value, raw, at, step, begin, end):
    """Walk rows begin..end−1 of another binned table down a tree and add the leaves' values.

    Parameters
    ----------
    bins : Bins
    features : ndarray of shape (p,), FEATURE
    node : ndarray of shape (m,), NODE_TYPE
    levels : ndarray of shape (m, words), uint64, or None
    value : ndarray of shape (m,), float64
    raw : ndarray of shape (n * step,), float64
    at, step, begin, end : int
    """
    for row in range(begin, end):
        k = np.int64(0)
        while node[k].left >= 0:
            feature = features[node[k].feature]
            if levels is None or feature.column >= 0:
                b = np.int64(bins.narrow[row * bins.n_bytes + feature.column])
            else:
                b = np.int64(bins.wide[row * bins.wide_offset.size - 1 - feature.column])
            left = bin_goes_left(b, feature.categorical, node[k].bin, node[k].missing_left, levels, k)
            k = node[k].left + (0 if left else 1)
        raw[at + step * row] += value[k]


@kernel
def split_rows_alone(bins, column, categorical, threshold, missing_left, levels, k, rows, begin, end, spare):
    """`split_rows`, to be called from Python; compiled only where a pool does the work."""
    return split_rows(bins, column, categorical, threshold, missing_left, levels, k, rows, begin, end, spare)


@kernel
def place_rows_alone(spare, begin, end, n_left, rows, left_at, right_at):
    """`place_rows`, to be called from Python; compiled only where a pool does the work."""
    return place_rows(spare, begin, end, n_left, rows, left_at, right_at)
