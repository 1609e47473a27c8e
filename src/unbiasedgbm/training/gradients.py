"""Gradients and hessians become integers, three fields to a 64-bit word.

    packed = (g << 34) + (h << count_bits) + count        g signed, h and count not

Sums of packed words are sums of the fields as long as no field overflows. The scales are powers of two chosen from the
*sums* of |g| and h over all rows, so no histogram, prefix or node can overflow, and a few heavy rows cost no precision.
The count is kept modulo ``2 ** count_bits``: `splitting.enough_rows` says why that is enough.

Where the sums leave many bits to a row (small tables) values are rounded to nearest, and a weight of two is exactly the row
twice. Where they leave few, rounding is stochastic: unbiased, from a hash of (seed, tree, row).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import hash64, kernel

# Bits of the word above the hessian and count fields; the sum of |g| stays below 2 ** (63 - G_SHIFT).
G_SHIFT = 34

# From this many rows on, rounding is stochastic.
STOCHASTIC_ROWS = 1 << 15

_N_WEIGHTS = 4096

# Entries of `draw_and_sum`'s answer.
N_SUMS = 9


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


# Roles, rounding and weights take different bits of one hash.
_ROLE_BITS = np.uint64(40)
_WEIGHT_BITS = np.uint64(28)
_WEIGHT_MASK = np.uint64(_N_WEIGHTS - 1)
_HALF_MASK = np.uint64((1 << 14) - 1)
_HALF_BITS = np.uint64(14)
_HALF_UNIT = 1.0 / (1 << 14)


class Packing(NamedTuple):
    """Scales of one tree's packed gradients."""

    g_scale: float
    h_scale: float
    count_bits: int
    stochastic: bool


def count_bits(min_samples_leaf: int) -> int:
    """Bits of the count field: room for twice the number that a child must have."""
    return max(10, int(min_samples_leaf).bit_length() + 1)


def choose_packing(sum_g: float, sum_h: float, n_rows: int, bits: int) -> Packing:
    """Largest powers of two that cannot overflow.

    Parameters
    ----------
    sum_g, sum_h : float
        Sums of |g| and of h over all rows, weights applied.
    n_rows : int
        Sum of the counts.
    bits : int
        See `count_bits`.
    """
    stochastic = n_rows >= STOCHASTIC_ROWS
    # Rounding adds at most half a unit a row, or, when stochastic, sqrt(n)/2 with a standard deviation to spare of 16.
    slack = 8.0 * math.sqrt(n_rows) + 64.0 if stochastic else 0.5 * n_rows + 1.0
    g_room = 2.0 ** (63 - G_SHIFT) - slack
    h_room = 2.0 ** (G_SHIFT - bits) - slack - n_rows / 2.0**bits - 1.0
    return Packing(
        _power_of_two(g_room / max(sum_g, 1e-300)), _power_of_two(h_room / max(sum_h, 1e-300)), bits, stochastic
    )


def _power_of_two(x: float) -> float:
    return math.ldexp(1.0, min(max(math.frexp(x)[1] - 1, -900), 900))


@kernel
def draw_and_sum(
    g, h, at, step, weight, counts, table, key, draw_key, share, begin, end, unit_g, unit_h, unit_s, roles, sums
):  # type: ignore
    """Draw the role of each row of a block and add up, in fixed point, what the packing must have room for.

    Parameters
    ----------
    g, h : ndarrays of shape (n * step,), float32
        Gradients of all outputs; those of this tree are ``g[at + step * i]``.
    weight : ndarray of shape (n,) or (0,), float64
    counts : ndarray of shape (n,) or (0,), uint16
        Rows that each row stands for; empty where it is one.
    table : ndarray of shape (4096,) or (0,), float64
        Weights of the split search, or none.
    key, draw_key : uint64
        Keys of this tree's bits, and of the bits that draw roles.
    share : ndarray of shape (4,), float64
        Upper ends of the roles in [0, 1]: S1, S2, S3; beyond, the row is left out of this tree.
    begin, end : int
    unit_g, unit_h, unit_s : float
        Powers of two, for g, h and g².
    roles : ndarray of shape (n,), uint8
        Filled: 0, 1, 2 for S1, S2, S3, and 3 for rows left out.
    sums : ndarray of shape (N_SUMS,), int64
        Filled: rows in each role; then, in fixed point, Σ|g| and Σh of the split search, Σcount, Σg² and Σh of the rows.
    """
    for j in range(N_SUMS):
        sums[j] = 0
    for i in range(begin, end):
        u = np.float64(hash64(draw_key, np.uint64(i)) >> _ROLE_BITS) * (1.0 / (1 << 24))
        role = 3
        if u < share[2]:
            role = 2
        if u < share[1]:
            role = 1
        if u < share[0]:
            role = 0
        roles[i] = role
        sums[role] += 1
        if role < 3:
            k = at + step * i
            w = 1.0
            if weight.size > 0:
                w = weight[i]
            x = g[k] * w
            sums[7] += np.int64(x * x * unit_s)
            sums[8] += np.int64(h[k] * w * unit_h)
            if table.size > 0:
                w *= table[(hash64(key, np.uint64(i)) >> _WEIGHT_BITS) & _WEIGHT_MASK]
            sums[4] += np.int64(abs(g[k]) * w * unit_g)
            sums[5] += np.int64(h[k] * w * unit_h)
            if counts.size > 0:
                sums[6] += counts[i]
            else:
                sums[6] += 1


@kernel
def pack(
    g,
    h,
    at,
    step,
    weight,
    counts,
    table,
    key,
    begin,
    end,
    g_scale,
    h_scale,
    bits,
    stochastic,
    roles,
    place,
    packed,
    rows,
):  # type: ignore
    """Pack the rows of a block and put each row's number behind those of its role.

    Parameters
    ----------
    g, h, at, step, weight, counts, table, key, begin, end, roles
        As in `draw_and_sum`.
    g_scale, h_scale, bits, stochastic
        See `Packing`.
    place : ndarray of shape (4,), int64
        Where in ``rows`` this block's rows of each role begin; advanced.
    packed : ndarray of shape (n,), int64
        Filled.
    rows : ndarray of shape (n,), uint32
        Filled, sorted by role and, within a role, by number.
    """
    for i in range(begin, end):
        role = roles[i]
        rows[place[role]] = i
        place[role] += 1
        if role == 3:
            packed[i] = 0
            continue
        k = at + step * i
        w = 1.0
        bias_g = 0.5
        bias_h = 0.5
        x = np.float64(g[k]) * g_scale
        y = np.float64(h[k]) * h_scale
        if stochastic or table.size > 0:
            bits_i = hash64(key, np.uint64(i))
            if table.size > 0:
                w = table[(bits_i >> _WEIGHT_BITS) & _WEIGHT_MASK]
            if stochastic:
                bias_g = np.float64(bits_i & _HALF_MASK) * _HALF_UNIT
                bias_h = np.float64((bits_i >> _HALF_BITS) & _HALF_MASK) * _HALF_UNIT
        if not stochastic and (counts.size > 0 or weight.size == 0):
            # a row of weight two is then the row twice; large weights that count nothing would only lose digits
            x = math.floor(x + 0.5)
            y = math.floor(y + 0.5)
        if weight.size > 0:
            w *= weight[i]
        gi = np.int64(math.floor(x * w + bias_g))
        hi = np.int64(math.floor(y * w + bias_h))
        count = np.int64(1)
        if counts.size > 0:
            count = np.int64(counts[i])
        packed[i] = (gi << G_SHIFT) + (hi << bits) + count


@kernel
def sum_chunks(g, h, at, step, weight, rows, begins, ends, first, last, g_unit, h_unit, sums):  # type: ignore
    """Fixed-point sums of weighted g and h over chunks of rows, for leaf values.

    Parameters
    ----------
    begins, ends : ndarrays of shape (n_chunks,), int64
        Each chunk is rows[begin:end].
    first, last : int
        Chunks to do.
    g_unit, h_unit : float
        Powers of two that leave room for all rows.
    sums : ndarray of shape (n_chunks, 2), int64
        Filled.
    """
    for c in range(first, last):
        total_g = np.int64(0)
        total_h = np.int64(0)
        for i in range(np.uint64(begins[c]), np.uint64(ends[c])):
            row = np.int64(rows[i])
            k = at + step * row
            x = math.floor(np.float64(g[k]) * g_unit + 0.5)
            y = math.floor(np.float64(h[k]) * h_unit + 0.5)
            if weight.size > 0:
                x = math.floor(x * weight[row] + 0.5)
                y = math.floor(y * weight[row] + 0.5)
            total_g += np.int64(x)
            total_h += np.int64(y)
        sums[c, 0] = total_g
        sums[c, 1] = total_h
