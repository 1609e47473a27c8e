"""Nodes of few rows: looked through row by row, without a histogram.

Most nodes of a tree have fewer rows than a feature has bins, so that a histogram is mostly empty, and filling, clearing
and reading it is most of the work. Here every row of S1 is a cut, and what is left of it is found by comparing it with
all others: as many comparisons as the square of S1's rows, but eight at a time and without a branch. Sums are those of
a histogram, to the bit, and so are the splits.
"""

from __future__ import annotations

import numpy as np

from unbiasedgbm.kernels import inline_kernel
from unbiasedgbm.training.splitting import (
    enough_rows,
    enter,
    fill_gains,
    goes_with_most,
    side_is_large,
)
from unbiasedgbm.vectors import LANES, sum_up_to, sums_up_to

_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_BYTE = np.uint64(0xFF)
_NO_SPLIT = -np.inf
_LAST_BIN = np.int64(255)


@inline_kernel
def _padded(n):
    """The next multiple of the length of a vector."""
    return (np.uint64(n) + np.uint64(LANES - 1)) & ~np.uint64(LANES - 1)


@inline_kernel
def is_few(nodes, k, n_roles, limits):
    """Whether a node is looked through row by row."""
    n = np.int64(0)
    for role in range(n_roles):
        n += nodes.count[k, role]
    return nodes.count[k, 0] <= limits.few_search and n <= limits.few_rows


@inline_kernel
def feature_histogram(table, column, n_bins, begin, count, n_roles, size, local):
    """Histogram of one feature of a node in ``local``, role by role, ``size`` apart."""
    bins = table.bins
    at = np.uint64(begin)
    for role in range(n_roles):
        base = np.uint64(role * size)
        for b in range(np.uint64(n_bins)):
            local[base + b] = 0
        for i in range(at, at + np.uint64(count[role])):
            row = np.uint64(table.rows[i])
            if column >= 0:
                b = np.uint64(bins.narrow[row * np.uint64(bins.n_bytes) + np.uint64(column)])
            else:
                b = np.uint64(bins.wide[row * np.uint64(bins.wide_offset.size) + np.uint64(-1 - column)])
            local[base + b] += table.packed[row]
        at += np.uint64(count[role])


@inline_kernel
def _gather(table, first_row, count, n_roles, gathered, scratch):
    """Put gradients of a node's rows side by side, role by role, or their word of eight bins."""
    n_words = np.uint64((table.bins.n_narrow + 7) // 8)
    first = np.uint64(first_row)
    at = np.uint64(0)
    for role in range(n_roles):
        n = np.uint64(count[role])
        for i in range(n):
            row = np.uint64(table.rows[first + i])
            if gathered < 0:
                scratch.value[at + i] = table.packed[row]
            else:
                scratch.word[at + i] = table.bins.words[row * n_words + np.uint64(gathered)]
        end = at + _padded(n)
        for i in range(at + n, end):
            # counts for nothing, and is in the last bin
            scratch.value[i] = 0
            scratch.word[i] = _ALL_ONES
        first += n
        at = end


@inline_kernel
def scan_rows(begin, end, table, first_row, count, features, allowed, bonus, rule, low, high, scratch, out):
    """Find and judge the best split of the features begin..end−1 in a node of few rows, as `scan_features` does.

    Categories, and features that are missing in rows of S1, need a histogram all the same, and are left to others: NaN
    is their score.

    Parameters
    ----------
    begin, end : int
    table : Table
    first_row : int
        Where in ``table.rows`` the node's rows begin, role by role.
    count : ndarray of shape (4,), int64
        Rows of each role.
    features, allowed, bonus, rule, low, high, scratch, out
        As in `scan_features`.
    """
    word, value, key = scratch.word, scratch.value, scratch.row_bin
    zero = np.uint64(0)
    n1 = count[0]
    n2 = count[1] if rule.n_roles > 1 else np.int64(0)
    n3 = count[2] if rule.n_roles > 2 else np.int64(0)
    end1 = _padded(n1)
    end2 = end1 + _padded(n2)
    end3 = end2 + _padded(n3)
    _gather(table, first_row, count, rule.n_roles, -1, scratch)
    total1 = sum_up_to(word, value, zero, end1, zero, _BYTE)
    total2 = sum_up_to(word, value, end1, end2, zero, _BYTE)
    total3 = sum_up_to(word, value, end2, end3, zero, _BYTE)
    gathered = np.int64(-1)
    for f in range(begin, end):
        out[f].select = _NO_SPLIT
        if allowed[f] == 0:
            continue
        feature = features[f]
        column = feature.column
        plain = column >= 0 and feature.categorical == 0
        shift = np.uint64((column & 7) * 8)
        if plain:
            if column >> 3 != gathered:
                gathered = column >> 3
                _gather(table, first_row, count, rule.n_roles, gathered, scratch)
            least = _LAST_BIN
            for i in range(end1):
                key[i] = np.int64((word[i] >> shift) & _BYTE)
                least = min(least, key[i])
            plain = least > 0
        if not plain:
            out[f].select = np.nan
            continue
        sums_up_to(key, value, n1, scratch.prefix)
        fill_gains(scratch, zero, end1, total1, np.int64(0), feature.monotone, low, high, rule)
        for i in range(end1):
            left = scratch.prefix[i]
            large = enough_rows(left, rule) & enough_rows(total1 - left, rule)
            scratch.gain[i] = scratch.gain[i] if large else _NO_SPLIT
        lowest = np.int64(1)
        highest = _LAST_BIN
        while True:
            # the largest gain, and the smallest of its bins
            top = np.int64(-1)
            for i in range(end1):
                inside = (key[i] >= lowest) & (key[i] <= highest)
                top = max(top, scratch.gain_bits[i] if inside else np.int64(-1))
            if top < 0:
                break
            best = highest
            for i in range(end1):
                inside = (key[i] >= lowest) & (scratch.gain_bits[i] == top)
                best = min(best, key[i] if inside else highest)
            # the other roles' rows are counted at the best cut alone; where they are too few, so they are beyond it
            cut = np.uint64(best)
            left1 = sum_up_to(word, value, zero, end1, shift, cut)
            left2 = sum_up_to(word, value, end1, end2, shift, cut)
            left3 = sum_up_to(word, value, end2, end3, shift, cut)
            if not side_is_large(left1, left2, left3, rule):
                lowest = best + 1
                continue
            if not side_is_large(total1 - left1, total2 - left2, total3 - left3, rule):
                highest = best - 1
                continue
            missing_left = goes_with_most(left1, total1, rule)
            out[f].bin = best
            out[f].missing_left = missing_left
            if not missing_left:
                left2 -= sum_up_to(word, value, end1, end2, shift, zero)
                left3 -= sum_up_to(word, value, end2, end3, shift, zero)
                # what S1 has not seen may leave a side without enough rows
                if not side_is_large(left1, left2, left3, rule):
                    break
            enter(f, left1, left2, left3, total1, total2, total3, bonus, feature.monotone, rule, low, high, out)
            break
