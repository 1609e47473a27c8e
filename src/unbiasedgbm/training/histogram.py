"""Histograms: one 64-bit integer add per row and feature.

The rows of a node are sorted by role, and a histogram is built role by role by a kernel that knows no roles. Sums of
packed integers (see `gradients`) are exact, so the order of the rows, the number of threads and the place where they
run leave every bit of a histogram the same.
"""

from __future__ import annotations

import numpy as np

from unbiasedgbm.binning import STRIDE
from unbiasedgbm.kernels import inline_kernel, kernel, prefetch

# Rows read ahead; 12 to 16 was best at nodes of all sizes.
_AHEAD = np.uint64(16)
_WORDS_PER_LINE = np.uint64(8)

_BYTE = np.uint64(0xFF)
_BITS = np.uint64(8)
_STRIDE = np.uint64(STRIDE)


@inline_kernel
def add_rows(bins, packed, rows, begin, end, hist, origin):
    """Add rows[begin:end] to the histogram that begins at ``hist[origin]``.

    Parameters
    ----------
    bins : Bins
        Narrow feature j has the bins hist[origin + STRIDE * j : origin + STRIDE * (j + 1)].
    packed : ndarray of shape (n,), int64
        Gradient, hessian and count of each row in one integer.
    rows : ndarray of shape (n,), uint32
    begin, end, origin : int
    hist : ndarray, int64
    """
    words, wide, wide_offset = bins.words, bins.wide, bins.wide_offset
    n_words = np.uint64((bins.n_narrow + 7) // 8)
    n_full = np.uint64(bins.n_narrow // 8)
    n_rest = np.uint64(bins.n_narrow % 8)
    n_wide = np.uint64(wide_offset.size)
    start = np.uint64(origin)
    last = np.uint64(end)
    for i in range(np.uint64(begin), last):
        row = np.uint64(rows[i])
        if i + _AHEAD < last:
            ahead = np.uint64(rows[i + _AHEAD])
            prefetch(packed, ahead)
            for k in range(np.uint64(0), n_words, _WORDS_PER_LINE):
                prefetch(words, ahead * n_words + k)
        value = packed[row]
        at = row * n_words
        base = start
        for k in range(n_full):
            word = words[at + k]
            # a constant number of turns: unrolled, with constant offsets
            for _ in range(np.uint64(8)):
                hist[base + (word & _BYTE)] += value
                base += _STRIDE
                word >>= _BITS
        if n_rest > np.uint64(0):
            word = words[at + n_full]
            for _ in range(n_rest):
                hist[base + (word & _BYTE)] += value
                base += _STRIDE
                word >>= _BITS
        for k in range(n_wide):
            hist[start + np.uint64(wide_offset[k]) + np.uint64(wide[row * n_wide + k])] += value


@inline_kernel
def clear(hist, origin, n_roles, size, features):
    """Set a node's histogram to zero: of every role and feature the bins that it has."""
    for role in range(n_roles):
        for f in range(features.size):
            at = np.uint64(origin + role * size + features[f].offset)
            for b in range(np.uint64(features[f].n_bins)):
                hist[at + b] = 0


@inline_kernel
def subtract(hist, target, source, n_roles, size, features, first, last):
    """Turn a parent's histogram at ``target`` into the sibling of the child at ``source``: features first..last−1."""
    for role in range(n_roles):
        for f in range(first, last):
            offset = role * size + features[f].offset
            at, other = np.uint64(target + offset), np.uint64(source + offset)
            for b in range(np.uint64(features[f].n_bins)):
                hist[at + b] -= hist[other + b]


@inline_kernel
def add(hist, target, parts, source, n_roles, size, features, first, last):
    """Add a part of a histogram to the rest of it: features first..last−1."""
    for role in range(n_roles):
        for f in range(first, last):
            offset = role * size + features[f].offset
            at, other = np.uint64(target + offset), np.uint64(source + offset)
            for b in range(np.uint64(features[f].n_bins)):
                hist[at + b] += parts[other + b]


@kernel
def add_rows_alone(bins, packed, rows, begin, end, hist, origin):
    """`add_rows`, to be called from Python; compiled only where a pool does the work."""
    return add_rows(bins, packed, rows, begin, end, hist, origin)
