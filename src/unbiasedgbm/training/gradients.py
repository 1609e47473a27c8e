"""Gradients and hessians become integers, three fields to a 64-bit word.

    packed = (g << 34) + (h << count_bits) + count        g signed, h and count not

Sums of packed words are sums of the fields as long as no field overflows. The scales are powers of two chosen from the
*sums* of |g| and h over all rows, so no histogram, prefix or node can overflow, and a few heavy rows cost no precision.
The count is kept modulo ``2 ** count_bits``: `splitting.enough_rows` says why that is enough.

Where the sums leave many bits to a row (small tables) values are rounded to nearest, and a weight of two is exactly
the row twice. Where they leave few, rounding is stochastic: unbiased, from a hash of (seed, tree, row).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import hash64, inline_kernel, kernel

# Bits of the word above the hessian and count fields; the sum of |g| stays below 2 ** (63 - G_SHIFT).
G_SHIFT = 34
LOW_MASK = np.int64((1 << G_SHIFT) - 1)

# From this many rows on, rounding is stochastic.
STOCHASTIC_ROWS = 1 << 15

_N_WEIGHTS = 4096

# Rows that `pack` works on at a time.
PACK_ROWS = 512


def exponential_table() -> npt.NDArray[np.float64]:
    """Exp(1) weights by equal probability: entry k is the mean of the k-th of 4096 slices, rescaled to E[w²] = 2.

    Returns
    -------
    ndarray of shape (4096,), float64
    """
    edge = np.arange(_N_WEIGHTS + 1) / _N_WEIGHTS
    rest = 1.0 - edge
    # ∫ −log(1−u) du = (1−u) log(1−u) − (1−u)
    integral = np.where(rest > 0, rest * np.log(np.maximum(rest, 1e-300)), 0.0) - rest
    table = np.diff(integral) * _N_WEIGHTS
    # rescaling makes the first entry −1e-5, and a negative hessian would borrow from the gradient's field
    return np.maximum(1.0 + (table - table.mean()) / table.std(), 0.0)


@lru_cache(maxsize=32)
def search_weights(spread: float) -> npt.NDArray[np.float64]:
    """Weights of the split search, of mean one and standard deviation ``spread``, shape (4096,)."""
    return 1.0 + spread * (exponential_table() - 1.0)


# Rounding and weights take different bits of one hash.
_ROLE_BITS = np.uint64(40)
_WEIGHT_BITS = np.uint64(28)
_WEIGHT_MASK = np.uint64(_N_WEIGHTS - 1)
_HALF_MASK = np.uint64((1 << 14) - 1)
_HALF_BITS = np.uint64(14)
_HALF_UNIT = 1.0 / (1 << 14)
_ROLE_UNIT = 1.0 / (1 << 24)


class Packing(NamedTuple):
    """How one tree's gradients are packed: their largest size, scales, and the spread of their weights."""

    g_limit: float
    g_scale: float
    h_scale: float
    count_bits: int
    stochastic: bool
    spread: float

    def holds(self, sum_g: int, sum_h: int, n_rows: int) -> bool:
        """Whether no field overflows for these sums of the packed integers."""
        carry = n_rows >> self.count_bits
        return sum_g < 1 << (63 - G_SHIFT) and sum_h + carry + 1 < 1 << (G_SHIFT - self.count_bits)


def count_bits(min_samples_leaf: int, heaviest: float) -> int:
    """Bits of the count field: room for so many rows that their hessians say that they are enough.

    Parameters
    ----------
    min_samples_leaf : int
        Rows that a child must have. Where the hessian's field leaves no room for that, numbers beyond are judged by
        their hessians alone: see `splitting.enough_rows`.
    heaviest : float
        The largest weight of a row in the split search, whose mean is one.
    """
    most = max(2.0, 1.25 * heaviest) * min_samples_leaf
    return min(max(10, int(most).bit_length()), 16)


def coarse(x: float) -> float:
    """The largest number of three binary digits that is not above a positive one.

    Two trees in a row mostly have the same, which saves a cluster a question: see `RemoteRows.begin_tree`.
    """
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(mantissa * 8.0), exponent - 3) if math.isfinite(x) else x


def choose_packing(sum_g: float, sum_h: float, n_rows: int, bits: int, spread: float, g_limit: float) -> Packing:
    """Largest powers of two that cannot overflow.

    Parameters
    ----------
    sum_g, sum_h : float
        Sums of |g| and of h over all rows, weights applied.
    n_rows : int
        Sum of the counts.
    bits : int
        See `count_bits`.
    spread : float
        See `search_weights`.
    g_limit : float
        What a row's |g| counts at most, before weights; infinity for all of it.
    """
    stochastic = n_rows >= STOCHASTIC_ROWS
    # Rounding adds at most half a unit a row, or, when stochastic, sqrt(n)/2 with a standard deviation to spare of 16.
    slack = 8.0 * math.sqrt(n_rows) + 64.0 if stochastic else 0.5 * n_rows + 1.0
    g_room = 2.0 ** (63 - G_SHIFT) - slack
    h_room = 2.0 ** (G_SHIFT - bits) - slack - n_rows / 2.0**bits - 1.0
    g_scale = _power_of_two(g_room / max(sum_g, 1e-300))
    h_scale = _power_of_two(h_room / max(sum_h, 1e-300))
    return Packing(g_limit, g_scale, h_scale, bits, stochastic, spread)


def _power_of_two(x: float) -> float:
    # its square is a number, too
    return math.ldexp(1.0, min(max(math.frexp(x)[1] - 1, -500), 500))


def drawn_bound(total: float, squares: float, top: float, spread: float) -> float:
    """A number that Σ wᵢxᵢ does not reach, for weights w of a spread and Σx = total, Σx² = squares, max x = top.

    Either the worst case, or twelve standard deviations and the far tail of single rows above the mean. `pack` returns
    the true sums, so a bound that was passed all the same is noticed.
    """
    return min(largest_weight(spread) * total, total + spread * (12.0 * math.sqrt(squares) + 120.0 * top))


@lru_cache(maxsize=32)
def largest_weight(spread: float) -> float:
    """The largest of `search_weights`."""
    return float(search_weights(spread)[-1])


@inline_kernel
def sum_g(packed):
    """Gradient field."""
    return np.float64(packed >> np.int64(G_SHIFT))


@inline_kernel
def sum_h(packed, bits):
    """Hessian field."""
    return np.float64((packed & LOW_MASK) >> bits)


@kernel
def sum_rows(g, h, weight, begin, end, unit_g, unit_h, unit_g2, unit_h2, unit_square, sums):
    """Fixed-point sums over a block of rows: of |g|, h, g² and h², weights applied, and of g² times the weight.

    Parameters
    ----------
    g, h, weight, begin, end
        As in `pack`.
    unit_g, unit_h, unit_g2, unit_h2, unit_square : float
        Powers of two that leave room for all rows.
    sums : ndarray of shape (5,), int64
        Filled.
    """
    weighted = weight.size > 0
    sum_g = np.int64(0)
    sum_h = np.int64(0)
    sum_g2 = np.int64(0)
    sum_h2 = np.int64(0)
    sum_square = np.int64(0)
    for i in range(np.uint64(begin), np.uint64(end)):
        x = np.float64(g[i])
        y = np.float64(h[i])
        square = x * x
        if weighted:
            square *= weight[i]
            x *= weight[i]
            y *= weight[i]
        sum_g += np.int64(abs(x) * unit_g)
        sum_h += np.int64(y * unit_h)
        sum_g2 += np.int64(x * x * unit_g2)
        sum_h2 += np.int64(y * y * unit_h2)
        sum_square += np.int64(square * unit_square)
    sums[0] = sum_g
    sums[1] = sum_h
    sums[2] = sum_g2
    sums[3] = sum_h2
    sums[4] = sum_square


@kernel
def draw_roles(key, share, sample_key, subsample, begin, end, offset, groups, roles, counts):
    """Draw the roles of a block of rows.

    Parameters
    ----------
    key : uint64
    share : ndarray of shape (3,), float64
        Upper ends of the roles S1, S2, S3 in [0, 1].
    sample_key : uint64
    subsample : float
        Share of the rows that are not left out of this tree.
    begin, end : int
    offset : uint64
        Added to a row's place here, it gives the row's number among all rows.
    groups : ndarray of shape (n,), uint32, or None
        Numbers of groups of rows that have the same role.
    roles : ndarray of shape (n,), uint8
        Filled: 0, 1, 2 for S1, S2, S3, and 3 for rows left out.
    counts : ndarray of shape (4,), int64
        Filled: rows in each role.
    """
    s1, s2 = share[0], share[1]
    sampled = subsample < 1.0
    n1 = np.int64(0)
    n2 = np.int64(0)
    n3 = np.int64(0)
    for i in range(np.uint64(begin), np.uint64(end)):
        number = i + offset
        if groups is not None:
            number = np.uint64(groups[i])
        u = np.float64(hash64(key, number) >> _ROLE_BITS) * _ROLE_UNIT
        out = np.int64(0)
        if sampled:
            out = np.int64(np.float64(hash64(sample_key, i + offset) >> _ROLE_BITS) * _ROLE_UNIT >= subsample)
        a, b = np.int64(u >= s1) | out, np.int64(u >= s2) | out
        roles[i] = a + b + out
        n1 += a
        n2 += b
        n3 += out
    counts[0] = end - begin - n1
    counts[1] = n1 - n2
    counts[2] = n2 - n3
    counts[3] = n3


@kernel
def sort_rows(roles, begin, end, place, rows):
    """Put the numbers of a block of rows behind those of their roles.

    Parameters
    ----------
    place : ndarray of shape (4,), int64
        Where in ``rows`` this block's rows of each role begin; moved to where they end.
    rows : ndarray of shape (n,), uint32
        Filled, sorted by role and, within a role, by number.
    """
    for i in range(np.uint64(begin), np.uint64(end)):
        # no branches: roles are random
        role = np.uint64(roles[i])
        rows[np.uint64(place[role])] = i
        place[role] += 1


@kernel
def begin_rows(
    key,
    share,
    sample_key,
    subsample,
    n,
    offset,
    groups,
    roles,
    counts,
    place,
    rows,
    g,
    h,
    weight,
    unit_g,
    unit_h,
    unit_g2,
    unit_h2,
    unit_square,
    sums,
):
    """`draw_roles`, `sort_rows` and `sum_rows` in one call, where one thread has all n rows.

    Parameters are theirs, but for ``place``, which is working memory here.
    """
    draw_roles(key, share, sample_key, subsample, 0, n, offset, groups, roles, counts)
    at = np.int64(0)
    for role in range(4):
        place[role] = at
        at += counts[role]
    sort_rows(roles, 0, n, place, rows)
    sum_rows(g, h, weight, 0, n, unit_g, unit_h, unit_g2, unit_h2, unit_square, sums)


@kernel
def pack(
    g,
    h,
    weight,
    counts,
    table,
    key,
    begin,
    end,
    offset,
    g_limit,
    g_scale,
    h_scale,
    bits,
    stochastic,
    packed,
    sums,
    draws,
    factors,
):
    """Pack the gradients of a block of rows.

    Parameters
    ----------
    g, h : ndarrays of shape (n,), float32
    weight : ndarray of shape (n,) or (0,), float64
    counts : ndarray of shape (n,) or (0,), uint16
        Rows that each row stands for; empty where it is one.
    table : ndarray of shape (4096,), float64
        `search_weights`.
    key : uint64
        Of this tree's rounding and weights.
    begin, end : int
    offset : uint64
        Added to a row's place here, it gives the row's number among all rows.
    g_limit, g_scale, h_scale, bits, stochastic
        See `Packing`.
    packed : ndarray of shape (n,), int64
        Filled.
    sums : ndarray of shape (2,), int64
        Filled: Σ|g| and Σh of the packed integers.
    draws, factors : ndarrays of shape (PACK_ROWS,), uint64 and float64
        Working memory. Hashes, look-ups and arithmetic in loops of their own: two of the three become vector code,
        which is four times as fast as one loop.
    """
    sum_g = np.int64(0)
    sum_h = np.int64(0)
    weighted = weight.size > 0
    counted = counts.size > 0
    # one formula for both ways of rounding, without a branch: floor(x + 1/2) or floor(x + u)
    half = 0.0 if stochastic else 0.5
    unit = _HALF_UNIT if stochastic else 0.0
    start = np.uint64(begin)
    stop = np.uint64(end)
    while start < stop:
        size = min(np.uint64(PACK_ROWS), stop - start)
        for j in range(size):
            draws[j] = hash64(key, start + j + offset)
        for j in range(size):
            factors[j] = table[(draws[j] >> _WEIGHT_BITS) & _WEIGHT_MASK]
        if weighted:
            for j in range(size):
                factors[j] *= weight[start + j]
        for j in range(size):
            x = min(max(np.float64(g[start + j]), -g_limit), g_limit) * g_scale
            y = np.float64(h[start + j]) * h_scale
            if counted and not stochastic:
                # rounded before it is weighted: a weight of two is exactly the row twice
                x = np.floor(x + 0.5)
                y = np.floor(y + 0.5)
            x = np.floor(x * factors[j] + (half + unit * np.float64(np.int64(draws[j] & _HALF_MASK))))
            y = np.floor(y * factors[j] + (half + unit * np.float64(np.int64((draws[j] >> _HALF_BITS) & _HALF_MASK))))
            g_j = np.int64(x)
            h_j = np.int64(y)
            sum_g += abs(g_j)
            sum_h += h_j
            packed[start + j] = (g_j << np.int64(G_SHIFT)) + (h_j << bits) + np.int64(1)
        if counted:
            for j in range(size):
                packed[start + j] += np.int64(counts[start + j]) - np.int64(1)
        start += size
    sums[0] = sum_g
    sums[1] = sum_h
