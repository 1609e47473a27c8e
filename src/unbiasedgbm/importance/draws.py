"""The k-draw of the paper by simulation: a check on its closed form, not the way to compute it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unbiasedgbm.ensemble.adapters import Tree
from unbiasedgbm.importance.sums import FloatArray, IntArray
from unbiasedgbm.importance.units import Paths
from unbiasedgbm.kernels import hash64, kernel

# Streams of different nodes must not overlap: more draws than this from one node are never asked for.
_STREAM = 1 << 40


def draw_scores(
    tree: Tree,
    paths: Paths,
    rows: tuple[IntArray, FloatArray, FloatArray],
    pull: FloatArray,
    score: FloatArray,
    scale: float,
    draws: int,
    key: int,
) -> FloatArray:
    """Unbiased gain of each split with r averaged over random k-subsets.

    Parameters
    ----------
    tree : Tree
    paths : Paths
    rows : tuple of node (int32), g and h (float64), each of shape (n_val,)
        The held-out rows.
    pull : ndarray of shape (n_nodes,), float64
        G of the training rows.
    score : ndarray of shape (n_slots,), float64
        By the closed form; tells which splits are judged, and where there is nothing but rounding errors.
    scale : float
        1/(2n), times the tree's share.
    draws : int
    key : int
        Seed of this tree.

    Returns
    -------
    ndarray of shape (n_slots,), float64
    """
    node, g, h = rows
    drawn = np.where(score == 0.0, 0.0, np.nan)
    for slot in np.flatnonzero(~np.isnan(score) & (score != 0.0)):
        v = int(paths.slot_node[slot])
        members = {c: _rows_below(tree, int(c), node, h) for c in (v, tree.left[v], tree.right[v])}
        k = min(len(members[tree.left[v]]), len(members[tree.right[v]]))
        ratio = {
            c: mean_ratio(g, h, below, k, draws, np.uint64(key), np.uint64(3 * v + place) * np.uint64(_STREAM))
            for place, (c, below) in enumerate(members.items())
        }
        children = sum(pull[c] * ratio[c] for c in (tree.left[v], tree.right[v]))
        drawn[slot] = scale * paths.slot_share[slot] * (children - pull[v] * ratio[v])
    return drawn


def _rows_below(tree: Tree, top: int, node: IntArray, h: FloatArray) -> npt.NDArray[np.int64]:
    """Rows that pass through node ``top`` and have weight."""
    below = np.zeros(len(tree.left), dtype=bool)
    below[top] = True
    for v in tree.order[tree.order >= 0]:
        if tree.parent[v] >= 0:
            below[v] |= below[tree.parent[v]]
    return np.flatnonzero(below[node] & (h > 0.0))


@kernel
def mean_ratio(
    g: FloatArray,
    h: FloatArray,
    rows: npt.NDArray[np.int64],
    k: int,
    draws: int,
    key: np.uint64,
    stream: np.uint64,
) -> float:
    """Mean of Σg/Σh over random subsets of k rows; ``rows`` is shuffled on the way.

    Parameters
    ----------
    g, h : ndarray of shape (n_val,), float64
    rows : ndarray of shape (n_node,), int64
    k, draws : int
    key, stream : uint64
    """
    n = len(rows)
    total = 0.0
    counter = stream
    for _ in range(draws):
        sum_g = 0.0
        sum_h = 0.0
        for place in range(k):
            # The first k places of a Fisher–Yates shuffle are a random subset, whatever the order was before.
            unit = float(hash64(key, counter) >> np.uint64(11)) * math.ldexp(1.0, -53)
            counter += np.uint64(1)
            other = place + int(unit * (n - place))
            rows[place], rows[other] = rows[other], rows[place]
            sum_g += g[rows[place]]
            sum_h += h[rows[place]]
        total += sum_g / sum_h
    return total / draws
