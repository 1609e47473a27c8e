"""Nodes of few rows: looked through row by row, without a histogram.

Most nodes of a tree have fewer rows than a feature has bins, so that a histogram is mostly empty, and filling, clearing
and reading it is most of the work. Here every row of S1 is a cut, and what is left of it is found by comparing it with
all others: as many comparisons as the square of S1's rows, but eight at a time and without a branch. Sums are those of
a histogram, to the bit, and so are the splits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from unbiasedgbm.kernels import inline_kernel
from unbiasedgbm.training.splitting import (
    enough_rows,
    enter,
    fill_gains,
    goes_with_most,
    scan_features,
    side_is_large,
)

_LANES = 8
_BYTE = np.uint64(0xFF)
_NO_SPLIT = -np.inf
_NO_BIN = np.int64(1 << 32)


@intrinsic
def sums_up_to(typing_context: Any, keys: Any, values: Any, n: Any, sums: Any) -> Any:
    """Fill ``sums[i]`` with the sum of ``values[j]``, j < n, over ``keys[j]`` ≤ ``keys[i]``.

    Parameters
    ----------
    keys, values, sums : ndarrays, int64
        ``keys`` and ``sums`` are read and written up to the next multiple of eight.
    n : int64
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lane = ir.IntType(64)
        vector = ir.VectorType(lane, _LANES)
        arrays = [
            context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 1, 3)
        ]
        key, value, total = arrays
        n_rows = arguments[2]
        zero = ir.Constant(vector, [0] * _LANES)

        def spread(pointer: Any, index: Any) -> Any:
            one = builder.load(builder.gep(pointer, [index]))
            first = builder.insert_element(ir.Constant(vector, ir.Undefined), one, ir.Constant(ir.IntType(32), 0))
            mask = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
            return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)

        def lanes(pointer: Any, index: Any) -> Any:
            return builder.bitcast(builder.gep(pointer, [index]), vector.as_pointer())

        size = ir.Constant(lane, _LANES)
        blocks = builder.udiv(builder.add(n_rows, ir.Constant(lane, _LANES - 1)), size)
        sum_at = cgutils.alloca_once(builder, vector)
        with cgutils.for_range(builder, blocks) as outer:
            at = builder.mul(outer.index, size)
            cut = builder.load(lanes(key, at), align=8)
            builder.store(zero, sum_at)
            with cgutils.for_range(builder, n_rows) as inner:
                left = builder.icmp_signed("<=", spread(key, inner.index), cut)
                part = builder.select(left, spread(value, inner.index), zero)
                builder.store(builder.add(builder.load(sum_at), part), sum_at)
            builder.store(builder.load(sum_at), lanes(total, at), align=8)
        return context.get_dummy_value()

    return types.void(keys, values, n, sums), generate


@inline_kernel
def is_few(nodes, k, n_roles, limits):
    """Whether a node is looked through row by row."""
    n = np.int64(0)
    for role in range(n_roles):
        n += nodes.count[k, role]
    return nodes.count[k, 0] <= limits.few_search and n <= limits.few_rows


@inline_kernel
def feature_histogram(bins, column, n_bins, rows, begin, count, n_roles, size, scratch):
    """Histogram of one feature of a node in ``scratch.local``, role by role, ``size`` apart."""
    at = np.uint64(begin)
    i = np.uint64(0)
    for role in range(n_roles):
        base = np.uint64(role * size)
        for b in range(np.uint64(n_bins)):
            scratch.local[base + b] = 0
        for _ in range(np.uint64(count[role])):
            row = np.uint64(rows[at + i])
            if column >= 0:
                b = np.uint64(bins.narrow[row * np.uint64(bins.n_bytes) + np.uint64(column)])
            else:
                b = np.uint64(bins.wide[row * np.uint64(bins.wide_offset.size) + np.uint64(-1 - column)])
            scratch.local[base + b] += scratch.value[i]
            i += np.uint64(1)


@inline_kernel
def gather_values(packed, rows, begin, n, scratch):
    """Put the gradients of a node's rows side by side."""
    for i in range(np.uint64(n)):
        scratch.value[i] = packed[np.uint64(rows[np.uint64(begin) + i])]


@inline_kernel
def part_up_to(word, value, begin, end, shift, cut):
    """Sum over the rows begin..end−1 whose bin, a byte of their word, is ``cut`` or less."""
    total = np.int64(0)
    for i in range(begin, end):
        total += value[i] if (word[i] >> shift) & _BYTE <= cut else np.int64(0)
    return total


@inline_kernel
def scan_rows(begin, end, table, first_row, count, features, levels, allowed, bonus, rule, low, high, scratch, out):
    """Find and judge the best split of the features begin..end−1 in a node of few rows, as `scan_features` does.

    Categories, and features that are missing in rows of S1, get a histogram of their own all the same.

    Parameters
    ----------
    begin, end : int
    table : Table
    first_row : int
        Where in ``table.rows`` the node's rows begin, role by role.
    count : ndarray of shape (4,), int64
        Rows of each role.
    features, levels, allowed, bonus, rule, low, high, scratch, out
        As in `scan_features`.
    """
    bins, rows = table.bins, table.rows
    word, value, key = scratch.word, scratch.value, scratch.row_bin
    n_words = np.uint64((bins.n_narrow + 7) // 8)
    size = np.int64(scratch.local.size // 3)
    end1 = np.uint64(count[0])
    end2 = end1 + np.uint64(count[1] if rule.n_roles > 1 else 0)
    end3 = end2 + np.uint64(count[2] if rule.n_roles > 2 else 0)
    gather_values(table.packed, rows, first_row, end3, scratch)
    total1 = np.int64(0)
    total2 = np.int64(0)
    total3 = np.int64(0)
    for i in range(end1):
        total1 += value[i]
    for i in range(end1, end2):
        total2 += value[i]
    for i in range(end2, end3):
        total3 += value[i]
    padded = (end1 + np.uint64(7)) & ~np.uint64(7)
    gathered = np.int64(-1)
    for f in range(begin, end):
        out[f].select = _NO_SPLIT
        if allowed[f] == 0:
            continue
        column = features[f].column
        missing1 = np.uint64(0)
        shift = np.uint64(0)
        if column >= 0 and features[f].categorical == 0:
            if column >> 3 != gathered:
                gathered = column >> 3
                for i in range(end3):
                    word[i] = table.bins.words[np.uint64(rows[np.uint64(first_row) + i]) * n_words + np.uint64(gathered)]
            shift = np.uint64((column & 7) * 8)
            least = _NO_BIN
            for i in range(end1):
                b = np.int64((word[i] >> shift) & _BYTE)
                key[i] = b
                least = min(least, b)
            missing1 = np.uint64(least == 0)
        if column < 0 or features[f].categorical != 0 or missing1 != 0:
            feature_histogram(bins, column, features[f].n_bins, rows, first_row, count, rule.n_roles, size, scratch)
            scan_features(
                f,
                f + 1,
                scratch.local,
                -features[f].offset,
                size,
                count[0],
                features,
                levels,
                allowed,
                bonus,
                rule,
                low,
                high,
                scratch,
                out,
            )
            continue
        for i in range(end1, padded):
            key[i] = _NO_BIN
        sums_up_to(key, value, np.int64(end1), scratch.prefix)
        fill_gains(scratch, np.uint64(0), padded, total1, np.int64(0), features[f].monotone, low, high, rule)
        for i in range(padded):
            left = scratch.prefix[i]
            large = enough_rows(left, rule) & enough_rows(total1 - left, rule)
            scratch.gain[i] = scratch.gain[i] if large else _NO_SPLIT
        lowest = np.int64(0)
        highest = _NO_BIN
        while True:
            # the largest gain, and the smallest of its bins
            top = np.int64(-1)
            for i in range(padded):
                inside = (key[i] >= lowest) & (key[i] <= highest)
                top = max(top, scratch.gain_bits[i] if inside else np.int64(-1))
            if top < 0:
                break
            best = highest
            for i in range(padded):
                inside = (key[i] >= lowest) & (key[i] <= highest)
                best = min(best, key[i] if inside & (scratch.gain_bits[i] == top) else highest)
            cut = np.uint64(best)
            left1 = part_up_to(word, value, np.uint64(0), end1, shift, cut)
            left2 = part_up_to(word, value, end1, end2, shift, cut)
            left3 = part_up_to(word, value, end2, end3, shift, cut)
            if not side_is_large(left1, left2, left3, rule):
                lowest = best + 1
                continue
            if not side_is_large(total1 - left1, total2 - left2, total3 - left3, rule):
                highest = best - 1
                continue
            missing_left = goes_with_most(left1, total1, rule)
            if not missing_left:
                left2 -= part_up_to(word, value, end1, end2, shift, np.uint64(0))
                left3 -= part_up_to(word, value, end2, end3, shift, np.uint64(0))
            out[f].bin = best
            out[f].missing_left = missing_left
            enter(f, left1, left2, left3, total1, total2, total3, bonus, rule, low, high, out)
            break
