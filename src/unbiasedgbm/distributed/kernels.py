"""Kernels of a cluster: one split of a node in one call, roles drawn anew in a node, and the best splits of nodes."""

from __future__ import annotations

import numpy as np

from unbiasedgbm.kernels import hash64, kernel
from unbiasedgbm.training.grower import settle, splittable
from unbiasedgbm.training.histogram import add_rows
from unbiasedgbm.training.nodes import Evidence
from unbiasedgbm.training.partition import place_rows, split_rows
from unbiasedgbm.training.splitting import allow, scan_features


@kernel
def answer_split(
    bins,
    packed,
    rows,
    spare,
    column,
    categorical,
    threshold,
    missing_left,
    levels,
    k,
    begin,
    count,
    sides,
    build,
    n_roles,
    size,
    hist,
):
    """Divide a node's rows, role by role, and add up the histograms of the children that are asked for.

    Parameters
    ----------
    bins, packed, rows, spare
        See `training.shard.Shard`.
    column, categorical, threshold, missing_left, levels, k
        The split; see `partition.split_rows`.
    begin : int
        Where in ``rows`` the node's rows begin.
    count : ndarray of shape (4,), int64
        Rows of each role.
    sides : ndarray of shape (2, 4), int64
        Filled: rows of each role that went left, and right.
    build : int
        1 for the left child's histogram, 2 for the right one's, 3 for both.
    n_roles, size : int
        Roles and bins of a histogram.
    hist : ndarray of shape (n_built * n_roles * size,), int64
        Added to: the left child's, then the right one's, those that are built.
    """
    first = begin
    n_left = np.int64(0)
    for role in range(4):
        last = first + count[role]
        sides[0, role] = split_rows(
            bins, column, categorical, threshold, missing_left, levels, k, rows, first, last, spare
        )
        sides[1, role] = count[role] - sides[0, role]
        n_left += sides[0, role]
        first = last
    first = begin
    left_at = begin
    right_at = begin + n_left
    for role in range(4):
        last = first + count[role]
        place_rows(spare, first, last, sides[0, role], rows, left_at, right_at)
        left_at += sides[0, role]
        right_at += sides[1, role]
        first = last
    first = begin
    origin = np.int64(0)
    for side in range(2):
        if (build >> side) & 1 != 0:
            at = first
            for role in range(n_roles):
                add_rows(bins, packed, rows, at, at + sides[side, role], hist, origin)
                at += sides[side, role]
                origin += size
        first = begin + n_left


@kernel
def redraw_roles(key, share, rows, numbers, begin, count, spare):
    """Draw the roles of a node's rows anew, as `grower._redraw_roles` does.

    Parameters
    ----------
    key : uint64
        Of this node.
    share : ndarray of shape (3,), float64
    numbers : ndarray of shape (n,), uint64
        Number of each row among all rows.
    count : ndarray of shape (4,), int64
        Rows of each role; filled with the new numbers.
    """
    end = begin + count[0] + count[1] + count[2]
    at = begin
    lower = 0.0
    for role in range(3):
        first = at
        for i in range(begin, end):
            draw = hash64(key, numbers[rows[i]]) >> np.uint64(40)
            u = np.float64(draw) * (1.0 / (1 << 24))
            if u >= lower and u < share[role]:
                spare[at] = rows[i]
                at += 1
        count[role] = at - first
        lower = share[role]
    for i in range(begin, end):
        rows[i] = spare[i]


@kernel
def find_splits(
    nodes,
    first,
    places,
    features,
    levels,
    groups,
    rule,
    limits,
    bonus,
    found,
    tree_allowed,
    allowed,
    hist,
    scratch,
    out,
):
    """Find the best splits of some nodes, from the first one on, as `grower.grow` does.

    Parameters
    ----------
    places : ndarray of shape (n,), int64
        Where their histograms are.
    bonus : ndarray of shape (p + N_BUCKETS,), float64
        See `Evidence`.
    found : ndarray of shape (n, p + N_BUCKETS), float64
        Added to: the evidence of each node.
    hist : ndarray of shape (n_places * n_roles * n_bins,), int64
    nodes, features, levels, groups, rule, limits, tree_allowed, allowed, scratch, out
        As in `grower.grow`.
    """
    size = rule.n_roles * limits.n_bins
    for i in range(places.size):
        k = first + i
        node = nodes.node[k]
        node.feature = -1
        if not splittable(nodes, k, rule, limits):
            continue
        if groups is not None:
            allow(tree_allowed, groups, nodes.compatible, features, rule, k, allowed)
        scan_features(
            0,
            np.int64(features.size),
            hist,
            places[i] * size,
            limits.n_bins,
            nodes.count[k, 0],
            features,
            levels,
            allowed,
            bonus,
            rule,
            node.low,
            node.high,
            scratch,
            out,
        )
        node.slot = places[i]
        settle(nodes, k, features, levels, rule, limits.n_bins, Evidence(bonus, found[i]), hist, scratch, out)
        node.slot = -1
