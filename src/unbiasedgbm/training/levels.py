"""Levels of a category in order: by G/(H + cat_smooth) on S1 alone, so that others judge the split honestly."""

from __future__ import annotations

import numpy as np

from unbiasedgbm.kernels import inline_kernel
from unbiasedgbm.training.gradients import sum_g, sum_h
from unbiasedgbm.vectors import ranks

# Levels up to which each is compared with all others; more are sorted byte by byte.
_FEW_LEVELS = 64

_BYTES = 8
_BYTE = np.uint64(0xFF)
_SIGN = np.int64(-0x8000000000000000)
_ALL_BUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)

DIGITS = _BYTES * 256
"""Counters that a sort needs."""


@inline_kernel
def order_levels(hist, at, n, rule, scratch):
    """List the levels that S1 has seen in ``scratch.order``, by G/(H + cat_smooth), then by level; returns how many.

    Parameters
    ----------
    hist : ndarray, int64
    at : uint64
        Where S1's bins of the category begin.
    n : int
    rule : Rule
    scratch : Scratch
        Its ``prefix`` and ``gain`` are written, too.
    """
    order, key, number = scratch.order, scratch.key, scratch.gain
    m = np.uint64(0)
    for b in range(np.uint64(n)):
        # written in any case, kept only where the level was seen: no branch
        order[m] = np.int64(b)
        m += np.uint64(hist[at + b] != 0)
    for k in range(m):
        word = hist[at + np.uint64(order[k])]
        number[k] = sum_g(word) / (sum_h(word, rule.bits) + rule.cat_smooth)
    for k in range(m):
        # as integers, floating point numbers have an order of their own: negative ones the other way round
        bits = scratch.gain_bits[k]
        key[k] = bits ^ ((bits >> np.int64(63)) & _ALL_BUT_SIGN)
    if m <= np.uint64(_FEW_LEVELS):
        _sort_few(key, order, np.int64(m), scratch.prefix, scratch.gain_bits)
    else:
        _sort_many(key, order, m, scratch.gain_bits, scratch.prefix, scratch.digits)
    return np.int64(m)


@inline_kernel
def _sort_few(key, order, m, rank, spare):
    ranks(key, m, rank)
    for k in range(np.uint64(m)):
        spare[k] = order[k]
    for k in range(np.uint64(m)):
        order[np.uint64(rank[k])] = spare[k]


@inline_kernel
def _sort_many(key, order, m, spare_key, spare_order, digits):
    """Sort by one byte after the other, the least first: no comparisons, and equal keys keep their order."""
    for d in range(np.uint64(DIGITS)):
        digits[d] = 0
    for k in range(m):
        word = np.uint64(key[k] ^ _SIGN)
        for d in range(np.uint64(_BYTES)):
            digits[d * np.uint64(256) + ((word >> (d * np.uint64(8))) & _BYTE)] += 1
    keys, spare_keys, levels, spare_levels = key, spare_key, order, spare_order
    for d in range(np.uint64(_BYTES)):
        base = d * np.uint64(256)
        total = np.int64(0)
        alike = False
        for b in range(np.uint64(256)):
            here = digits[base + b]
            alike = alike or here == np.int64(m)
            digits[base + b] = total
            total += here
        if alike:
            continue
        for k in range(m):
            word = keys[k]
            digit = base + ((np.uint64(word ^ _SIGN) >> (d * np.uint64(8))) & _BYTE)
            place = np.uint64(digits[digit])
            digits[digit] += 1
            spare_keys[place] = word
            spare_levels[place] = levels[k]
        keys, spare_keys, levels, spare_levels = spare_keys, keys, spare_levels, levels
    for k in range(m):
        order[k] = levels[k]


@inline_kernel
def left_levels(node, hist, origin, features, rule, scratch, levels, k):
    """Fill the set of bins that go left at the categorical split of node k.

    Parameters
    ----------
    node : NODE_TYPE
    hist : ndarray, int64
    origin : int
        Where the node's histogram begins.
    levels : ndarray of shape (m, words), uint64
        Bin b is bit b % 64 of word b // 64.
    """
    n = features[node.feature].n_bins
    at = np.uint64(origin + features[node.feature].offset)
    m = order_levels(hist, at, n, rule, scratch)
    for w in range(levels.shape[1]):
        levels[k, w] = 0
    if node.missing_left != 0:
        for b in range(n):
            levels[k, b >> 6] |= np.uint64(hist[at + np.uint64(b)] == 0) << np.uint64(b & 63)
    for i in range(min(node.bin, m)):
        b = scratch.order[i]
        levels[k, b >> 6] |= np.uint64(1) << np.uint64(b & 63)
