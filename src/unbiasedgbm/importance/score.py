"""What the splits of one tree are worth: formulas on the sums of `sums`, node by node.

A split sends a row left or right, and so gives it the mean value ``w`` of the leaves on that side. Its score is the
first-order loss that this takes away from rows that did not choose it,

    score = 1/n · W_L W_R / W · (w_L − w_R) (r_R − r_L)

W is the weight of the training rows in a node, n that of all of them, and r the mean gradient of the held-out rows of a
child, taken at their prediction without what the split's feature added to it in earlier trees. If that feature is
independent of the target and of the other features, both r have the same mean, and the score has mean zero.

The paper's score takes the sums G of training gradients in place of the steps, and Σg/Σh for r, at the full prediction:

    score = 1/(2n) [ G_L r_L + G_R r_R − G r ]

In both, r is the mean over all subsets of k held-out rows, k the smaller number in a child: a ratio of sums has a bias
that depends on their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unbiasedgbm.importance.sums import GG, GM, MASS, SQUARE, FloatArray, G, IntArray, N
from unbiasedgbm.importance.units import Paths
from unbiasedgbm.kernels import inline_kernel, kernel

# Share of the terms of a score below which it is taken for rounding errors.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class TreeScores:
    """Scores of the splits of a tree, and what a held-out row adds to them.

    Attributes
    ----------
    score : ndarray of shape (n_slots,), float64
        NaN where too few held-out rows can judge.
    per_g, per_mass : ndarray of shape (2 n_slots,), float64
        A row in a child adds ``per_g · g − per_mass · mass`` to the score of the slot above it.
    """

    score: FloatArray
    per_g: FloatArray
    per_mass: FloatArray


@kernel
def mean_values(
    left: IntArray, right: IntArray, order: IntArray, value: FloatArray, weight: FloatArray, mean: FloatArray
) -> None:
    """Mean value of the leaves below each node, by the weight of the training rows in them.

    Parameters
    ----------
    left, right, order : ndarray of shape (n_nodes,), int32
    value, weight : ndarray of shape (n_nodes,), float64
        Leaf values; weight of the training rows in each node.
    mean : ndarray of shape (n_nodes,), float64; written
    """
    for position in range(len(order) - 1, -1, -1):
        v = order[position]
        if v < 0:
            continue
        if left[v] < 0:
            mean[v] = value[v]
            continue
        a = weight[left[v]]
        b = weight[right[v]]
        if a + b > 0.0:
            mean[v] = (a * mean[left[v]] + b * mean[right[v]]) / (a + b)
        else:
            mean[v] = 0.5 * (mean[left[v]] + mean[right[v]])


@inline_kernel
def expected_ratio(n: float, mass: float, square: float, g: float, gm: float, k: float) -> float:
    """r: mean over all k-subsets of n rows of Σg/Σmass, to second order; exact if all masses are equal.

    Parameters
    ----------
    n, mass, square, g, gm : float
        Number of rows, Σmass, Σmass², Σg and Σg·mass.
    k : float
        Rows drawn, at most n.
    """
    ratio = g / mass
    if k >= n:
        return ratio
    mean = mass / n
    s_mm = (square - mass * mean) / (n - 1.0)
    s_gm = (gm - g * mean) / (n - 1.0)
    return ratio + (1.0 / k - 1.0 / n) * (ratio * s_mm - s_gm) / (mean * mean)


@kernel
def fill_scores(
    slot_node: IntArray,
    slot_share: FloatArray,
    left: IntArray,
    right: IntArray,
    pull: FloatArray,
    held: FloatArray,
    steps: FloatArray,
    observed: FloatArray,
    scale: float,
    min_rows: float,
    centred: bool,
    score: FloatArray,
    per_g: FloatArray,
    per_mass: FloatArray,
) -> None:
    """Score every slot: ``scale [P_L r_L + P_R r_R − P r]``, with P the pull of the training rows.

    Parameters
    ----------
    slot_node, slot_share
        From `Paths`.
    left, right : ndarray of shape (n_nodes,), int32
    pull : ndarray of shape (n_nodes,), float64
        For our score −W (w − the parent's w); for the paper's score G.
    held : ndarray of shape (n_nodes, 3), float64
        Sums by node over the held-out rows.
    steps : ndarray of shape (2 n_slots, 3), float64
        Sums by step over the held-out rows.
    observed : ndarray of shape (n_nodes,), float64
        Independent observations among the held-out rows; see `effective_number`.
    scale : float
    min_rows : float
        Splits with fewer observations in a child, to the nearest whole number, get no score.
    centred : bool
        Whether ``pull`` sums to zero over the children, so that the parent has none.
    score, per_g, per_mass
        Written; see `TreeScores`.
    """
    for slot in range(len(slot_node)):
        v = slot_node[slot]
        score[slot] = math.nan
        for row in range(2 * slot, 2 * slot + 2):
            per_g[row] = 0.0
            per_mass[row] = 0.0
        if min(observed[left[v]], observed[right[v]]) < min_rows - 0.5:
            continue
        share = scale * slot_share[slot]
        k = min(held[left[v], N], held[right[v], N])
        total = 0.0
        size = 0.0
        weight_v = 0.0
        ratio_v = 0.0
        if not centred:
            g = steps[2 * slot, G] + steps[2 * slot + 1, G]
            gm = steps[2 * slot, GM] + steps[2 * slot + 1, GM]
            total = -pull[v] * expected_ratio(held[v, N], held[v, MASS], held[v, SQUARE], g, gm, k)
            size = abs(total)
            weight_v = share * pull[v] * _small_sample(observed[v]) / held[v, MASS]
            ratio_v = g / held[v, MASS]
        for side in range(2):
            c = left[v] if side == 0 else right[v]
            row = 2 * slot + side
            g = steps[row, G]
            term = pull[c] * expected_ratio(held[c, N], held[c, MASS], held[c, SQUARE], g, steps[row, GM], k)
            total += term
            size += abs(term)
            weight_c = share * pull[c] * _small_sample(observed[c]) / held[c, MASS]
            per_g[row] = weight_c - weight_v
            per_mass[row] = weight_c * g / held[c, MASS] - weight_v * ratio_v
        spread = _pooled_spread(held, steps, 2 * slot, left[v], right[v], per_g, per_mass)
        for row in range(2 * slot, 2 * slot + 2):
            per_g[row] *= spread
            per_mass[row] *= spread
        # Where all rows of a node want the same step there are rounding errors alone, with standard errors as small.
        score[slot] = share * total if abs(total) > _ROUNDING * size else 0.0


@inline_kernel
def _pooled_spread(
    held: FloatArray,
    steps: FloatArray,
    row: int,
    left: int,
    right: int,
    per_g: FloatArray,
    per_mass: FloatArray,
) -> float:
    """By how much contributions must grow so that rows of both children spread as much as all of them together.

    A child that happens to lack the rare rows has both an extreme ratio and hardly any spread around it. A useless
    split would look certain.
    """
    own = 0.0
    pooled = 0.0
    within = 0.0
    n = 0.0
    for side in range(2):
        c = left if side == 0 else right
        a = per_g[row + side]
        b = per_mass[row + side]
        g = steps[row + side, G]
        gm = steps[row + side, GM]
        gg = steps[row + side, GG]
        ratio = g / held[c, MASS]
        own += a * a * gg - 2.0 * a * b * gm + b * b * held[c, SQUARE]
        within += gg - 2.0 * ratio * gm + ratio * ratio * held[c, SQUARE]
        pooled += a * a * held[c, N]
        n += held[c, N]
    pooled *= within / n
    return math.sqrt(pooled / own) if pooled > own > 0.0 else 1.0


@inline_kernel
def _small_sample(n: float) -> float:
    """Deviations from a mean of n rows are too small by √((n − 1)/n), because the mean follows the rows."""
    return math.sqrt(n / (n - 1.0))


def effective_number(
    count: FloatArray, mass: FloatArray, square: FloatArray, order: IntArray, parent: IntArray
) -> FloatArray:
    """Observations of equal mass that say as much as those of each node: (Σmass)²/Σmass².

    No node has a larger share of its observations than the nodes above it.

    A useless split deals a node's observations to its children at random. So a child with many rows still says little
    if most of the mass, that of a rare class, say, happens to lie in a few rows of its sibling.

    Parameters
    ----------
    count, mass, square : ndarray of shape (n_nodes,), float64
        Number of observations, Σmass and Σmass².
    order, parent : ndarray of shape (n_nodes,), int32

    Returns
    -------
    ndarray of shape (n_nodes,), float64
        At most ``count``, and equal to it where all masses are equal.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # rounding errors take nothing away
        share = np.minimum(np.where(square > 0.0, mass**2 / square * (1.0 + 1e-9), 0.0) / count, 1.0)
    share = np.nan_to_num(share)
    cap_shares(order, parent, share)
    return np.ascontiguousarray(count * share)


@kernel
def cap_shares(order: IntArray, parent: IntArray, share: FloatArray) -> None:
    """From the root down, make no child's share larger than its parent's; ``share`` of shape (n_nodes,) is changed."""
    for position in range(1, len(order)):
        v = order[position]
        if v >= 0:
            share[v] = min(share[v], share[parent[v]])


def entry_weights(paths: Paths, scores: TreeScores) -> FloatArray:
    """What a row adds to the units on its path: the sum over the steps of each entry, shape (n_entries, 2)."""
    weights = np.zeros((len(paths.entry_unit), 2))
    fill_entry_weights(
        paths.entry_start, paths.step_start, paths.step_entry, paths.step_row, scores.per_g, scores.per_mass, weights
    )
    return weights


@kernel
def fill_entry_weights(
    entry_start: IntArray,
    step_start: IntArray,
    step_entry: IntArray,
    step_row: IntArray,
    per_g: FloatArray,
    per_mass: FloatArray,
    weights: FloatArray,
) -> None:
    """Fill the array of `entry_weights`, which begins with zeros."""
    for v in range(len(entry_start) - 1):
        for step in range(step_start[v], step_start[v + 1]):
            entry = entry_start[v] + step_entry[step]
            weights[entry, 0] += per_g[step_row[step]]
            weights[entry, 1] -= per_mass[step_row[step]]
