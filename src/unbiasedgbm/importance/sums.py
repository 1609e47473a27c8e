"""Kernels of the unbiased gain: sums over the rows of each node, scores of the splits, contributions of the rows.

Names follow the design: g and h are first and second derivatives, G and H their sums over training rows, a prime
marks held-out rows. ``node`` holds the leaf of each row. A row with h = 0 has weight zero and takes no part.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import kernel

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]

# Share of the terms of a score below which it is taken for rounding errors.
_ROUNDING = 1e-9

# Columns of the held-out sums.
N, G, H, GH, HH, GG = range(6)


@kernel
def sum_training_rows(
    node: IntArray, g: FloatArray, h: FloatArray, order: IntArray, parent: IntArray, total: FloatArray
) -> None:
    """Σg and Σh of the training rows in every node.

    Parameters
    ----------
    node : ndarray of shape (n_rows,), int32
    g, h : ndarray of shape (n_rows,), float64
    order, parent : ndarray of shape (n_nodes,), int32
        See `Tree`; unreached nodes are -1 at the end of ``order``.
    total : ndarray of shape (n_nodes, 2), float64, zeros; written
    """
    for i in range(len(node)):
        v = node[i]
        if h[i] != 0.0:
            total[v, 0] += g[i]
            total[v, 1] += h[i]
    for position in range(len(order) - 1, 0, -1):
        v = order[position]
        if v >= 0:
            total[parent[v], 0] += total[v, 0]
            total[parent[v], 1] += total[v, 1]


@kernel
def add_rows(node: IntArray, g: FloatArray, h: FloatArray, units: FloatArray, total: npt.NDArray[np.int64]) -> None:
    """Add rows to the sums of their leaves, in fixed point: row count, Σg, Σh, Σgh, Σh² and Σg².

    Integers, so that neither the order of the rows nor where they lie makes a difference.

    Parameters
    ----------
    node, g, h
        As in `sum_training_rows`.
    units : ndarray of shape (6,), float64
        Powers of two that leave room for all rows.
    total : ndarray of shape (n_nodes, 6), int64; added to
    """
    for i in range(len(node)):
        v = node[i]
        if h[i] != 0.0:
            total[v, N] += 1
            total[v, G] += np.int64(np.rint(g[i] * units[G]))
            total[v, H] += np.int64(np.rint(h[i] * units[H]))
            total[v, GH] += np.int64(np.rint(g[i] * h[i] * units[GH]))
            total[v, HH] += np.int64(np.rint(h[i] * h[i] * units[HH]))
            total[v, GG] += np.int64(np.rint(g[i] * g[i] * units[GG]))


@kernel
def lift_sums(order: IntArray, parent: IntArray, total: npt.NDArray[np.int64]) -> None:
    """Add the sums of leaves to the nodes above them; see `add_rows`."""
    for position in range(len(order) - 1, 0, -1):
        v = order[position]
        if v >= 0:
            for column in range(6):
                total[parent[v], column] += total[v, column]


@kernel
def expected_ratio(total: FloatArray, v: int, k: float) -> float:
    """r: the mean over all k-subsets of a node's held-out rows of Σg'/Σh', to second order; exact if h' is constant.

    Parameters
    ----------
    total : ndarray of shape (n_nodes, 6), float64
    v : int
        The node.
    k : float
        Rows drawn, at most the rows in the node.
    """
    n = total[v, N]
    ratio = total[v, G] / total[v, H]
    if k >= n:
        return ratio
    mean = total[v, H] / n
    s_hh = (total[v, HH] - total[v, H] * mean) / (n - 1.0)
    s_gh = (total[v, GH] - total[v, G] * mean) / (n - 1.0)
    return ratio + (1.0 / k - 1.0 / n) * (ratio * s_hh - s_gh) / (mean * mean)


@kernel
def score_splits(
    left: IntArray,
    right: IntArray,
    train: FloatArray,
    held: FloatArray,
    observed: FloatArray,
    scale: float,
    min_rows: float,
    score: FloatArray,
    per_g: FloatArray,
    per_h: FloatArray,
) -> None:
    """Unbiased gain of every split, and what a held-out row adds to it.

    The score is ``scale [G_L r_L + G_R r_R − G_I r_I]``. To first order it is a sum over the held-out rows: a row that
    falls in child c adds ``per_g[c] g − per_h[c] h`` to the split above c.

    Parameters
    ----------
    left, right : ndarray of shape (n_nodes,), int32
    train : ndarray of shape (n_nodes, 2), float64
        Σg and Σh.
    held : ndarray of shape (n_nodes, 6), float64
    observed : ndarray of shape (n_nodes,), float64
        Independent observations among the held-out rows, see `effective_number`.
    scale : float
        1/(2n), times the tree's share.
    min_rows : float
        Splits with fewer observations in one of the children, to the nearest whole number, get no score.
    score : ndarray of shape (n_nodes,), float64; written
        NaN at leaves and at splits without a score.
    per_g, per_h : ndarray of shape (n_nodes,), float64; written
        Zero below splits without a score, and at the root.
    """
    per_g[0] = 0.0
    per_h[0] = 0.0
    for v in range(len(left)):
        score[v] = math.nan
        if left[v] < 0:
            continue
        k = min(held[left[v], N], held[right[v], N])
        if min(observed[left[v]], observed[right[v]]) < min_rows - 0.5:
            per_g[left[v]] = 0.0
            per_h[left[v]] = 0.0
            per_g[right[v]] = 0.0
            per_h[right[v]] = 0.0
            continue
        total = -train[v, 0] * expected_ratio(held, v, k)
        size = abs(total)
        weight_v = scale * train[v, 0] * _small_sample(observed[v]) / held[v, H]
        ratio_v = held[v, G] / held[v, H]
        for c in (left[v], right[v]):
            term = train[c, 0] * expected_ratio(held, c, k)
            total += term
            size += abs(term)
            weight_c = scale * train[c, 0] * _small_sample(observed[c]) / held[c, H]
            per_g[c] = weight_c - weight_v
            per_h[c] = weight_c * held[c, G] / held[c, H] - weight_v * ratio_v
        spread = _pooled_spread(held, v, left[v], right[v], per_g, per_h)
        for c in (left[v], right[v]):
            per_g[c] *= spread
            per_h[c] *= spread
        # Where all rows of a node want the same step there are rounding errors alone, with standard errors as small.
        score[v] = scale * total if abs(total) > _ROUNDING * size else 0.0


@kernel
def count_groups(
    order: IntArray,
    groups: npt.NDArray[np.uint32],
    node: IntArray,
    h: FloatArray,
    parent: IntArray,
    last: npt.NDArray[np.int64],
    mass: FloatArray,
    count: FloatArray,
    square: FloatArray,
) -> None:
    """Number of groups that have rows in each node, and the sum of their squared masses.

    Parameters
    ----------
    order : ndarray of shape (n_rows,), int64
        The rows, group by group.
    groups : ndarray of shape (n_rows,), uint32
    node : ndarray of shape (n_rows,), int32
        Leaf of each row.
    h : ndarray of shape (n_rows,), float64
        Mass of each row; where it is zero they do not count.
    parent : ndarray of shape (n_nodes,), int32
    last : ndarray of shape (n_nodes,), int64
        Working memory: the last group seen in each node, −1 at the beginning.
    mass : ndarray of shape (n_nodes,), float64, zeros
        Working memory: of that group in each node.
    count, square : ndarray of shape (n_nodes,), float64; added to
    """
    for position in range(len(order)):
        i = order[position]
        if h[i] == 0.0:
            continue
        group = np.int64(groups[i])
        v = node[i]
        while v >= 0:
            if last[v] != group:
                last[v] = group
                count[v] += 1.0
                square[v] += mass[v] * mass[v]
                mass[v] = 0.0
            mass[v] += h[i]
            v = parent[v]
    for v in range(len(mass)):
        square[v] += mass[v] * mass[v]


@kernel
def _pooled_spread(held: FloatArray, v: int, left: int, right: int, per_g: FloatArray, per_h: FloatArray) -> float:
    """By what contributions must grow if rows of both children spread as much around their ratio as all together do.

    A child in which the rare rows happen to be missing has both a ratio far from its parent's and hardly any spread.
    What is useless would look certain.
    """
    own = 0.0
    pooled = 0.0
    within = 0.0
    for c in (left, right):
        ratio = held[c, G] / held[c, H]
        own += per_g[c] ** 2 * held[c, GG] - 2.0 * per_g[c] * per_h[c] * held[c, GH] + per_h[c] ** 2 * held[c, HH]
        within += held[c, GG] - 2.0 * ratio * held[c, GH] + ratio**2 * held[c, HH]
        pooled += per_g[c] ** 2 * held[c, N]
    pooled *= within / held[v, N]
    return math.sqrt(pooled / own) if pooled > own > 0.0 else 1.0


def effective_number(count: FloatArray, mass: FloatArray, square: FloatArray, parent: IntArray) -> FloatArray:
    """Observations of like mass that say as much as those of each node: (Σh)²/Σh², and no larger a share than above.

    What is useless deals a node's observations to its children as chance will have it. So a child with as many rows as
    ever says little if most of the mass, that of a rare class, say, happens to be in few rows beside it.

    Parameters
    ----------
    count, mass, square : ndarray of shape (n_nodes,), float64
        Number of observations, Σh and Σh².
    parent : ndarray of shape (n_nodes,), int32

    Returns
    -------
    ndarray of shape (n_nodes,), float64
        At most `count`, and as much where all are alike.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # rounding errors take nothing away
        share = np.minimum(np.where(square > 0.0, mass**2 / square * (1.0 + 1e-9), 0.0) / count, 1.0)
    share = np.nan_to_num(share)
    return np.ascontiguousarray(count * np.minimum(share, np.where(parent >= 0, share[parent], 1.0)))


@kernel
def _small_sample(n: float) -> float:
    """Deviations from a mean of n rows are too small by √((n − 1)/n), for the mean follows the rows."""
    return math.sqrt(n / (n - 1.0))


@kernel
def gather_paths(
    left: IntArray,
    parent: IntArray,
    source: IntArray,
    per_g: FloatArray,
    per_h: FloatArray,
    source_start: IntArray,
    source_feature: IntArray,
    place: IntArray,
    leaf_start: IntArray,
    leaf_feature: IntArray,
    leaf_weight: FloatArray,
) -> None:
    """For each leaf, what a row in it adds to the features on its path: one entry a feature, however often it is split.

    Parameters
    ----------
    left, parent, source : ndarray of shape (n_nodes,), int32
    per_g, per_h : ndarray of shape (n_nodes,), float64
        From `score_splits`.
    source_start, source_feature : ndarray, int32
        Features of source s: ``source_feature[source_start[s]:source_start[s + 1]]``, with equal shares.
    place : ndarray of shape (n_features,), int32, all -1
        Work space; -1 again at the end.
    leaf_start : ndarray of shape (n_nodes + 1,), int32; written
        Entries of node v: ``leaf_start[v]`` to ``leaf_start[v + 1]``; none if v is not a leaf.
    leaf_feature : ndarray of shape (n_entries,), int32; written
    leaf_weight : ndarray of shape (n_entries, 2), float64; written
        Weights of g and of h.
    """
    end = 0
    for v in range(len(left)):
        leaf_start[v] = end
        if left[v] >= 0:
            continue
        u = v
        while parent[u] >= 0:
            top = parent[u]
            if per_g[u] != 0.0 or per_h[u] != 0.0:
                first = source_start[source[top]]
                last = source_start[source[top] + 1]
                for position in range(first, last):
                    j = source_feature[position]
                    if place[j] < 0:
                        place[j] = end
                        leaf_feature[end] = j
                        leaf_weight[end, 0] = 0.0
                        leaf_weight[end, 1] = 0.0
                        end += 1
                    leaf_weight[place[j], 0] += per_g[u] / (last - first)
                    leaf_weight[place[j], 1] -= per_h[u] / (last - first)
            u = top
        for entry in range(leaf_start[v], end):
            place[leaf_feature[entry]] = -1
    leaf_start[len(left)] = end


@kernel
def add_contributions(
    node: IntArray,
    g: FloatArray,
    h: FloatArray,
    leaf_start: IntArray,
    leaf_feature: IntArray,
    leaf_weight: FloatArray,
    psi: FloatArray,
) -> None:
    """Add what each held-out row contributes through one tree to the features on its path.

    Parameters
    ----------
    node, g, h
        As in `sum_training_rows`.
    leaf_start, leaf_feature, leaf_weight
        From `gather_paths`.
    psi : ndarray of shape (n_rows, n_features), float64; added to
    """
    for i in range(len(node)):
        if h[i] == 0.0:
            continue
        for entry in range(leaf_start[node[i]], leaf_start[node[i] + 1]):
            psi[i, leaf_feature[entry]] += leaf_weight[entry, 0] * g[i] + leaf_weight[entry, 1] * h[i]


@kernel
def credit_splits(
    score: FloatArray,
    order: IntArray,
    depth: IntArray,
    source: IntArray,
    source_start: IntArray,
    source_feature: IntArray,
    of_tree: FloatArray,
    of_class: FloatArray,
    of_depth: FloatArray,
    n_splits: npt.NDArray[np.int64],
) -> int:
    """Credit the scores of a tree's splits to their features.

    Parameters
    ----------
    score : ndarray of shape (n_nodes,), float64
        From `score_splits`.
    order, depth, source : ndarray of shape (n_nodes,), int32
    source_start, source_feature : ndarray, int32
        As in `gather_paths`.
    of_tree, of_class : ndarray of shape (n_features,), float64; added to
    of_depth : ndarray of shape (max_depth, n_features), float64; added to
    n_splits : ndarray of shape (n_features,), int64; added to

    Returns
    -------
    int
        Number of splits that have a score.
    """
    judged = 0
    for position in range(len(order)):
        v = order[position]
        if v < 0 or math.isnan(score[v]):
            continue
        judged += 1
        first = source_start[source[v]]
        last = source_start[source[v] + 1]
        for place in range(first, last):
            j = source_feature[place]
            part = score[v] / (last - first)
            of_tree[j] += part
            of_class[j] += part
            of_depth[depth[v], j] += part
            n_splits[j] += 1
    return judged
