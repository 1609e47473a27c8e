"""Kernels of a cluster: splits of nodes in one call, roles drawn anew in a node, and the best splits of nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import hash64, inline_kernel, kernel
from unbiasedgbm.training.gradients import LOW_MASK
from unbiasedgbm.training.grower import settle, splittable
from unbiasedgbm.training.histogram import add_rows
from unbiasedgbm.training.levels import left_levels
from unbiasedgbm.training.nodes import Evidence
from unbiasedgbm.training.partition import place_rows, split_rows
from unbiasedgbm.training.splitting import allow, scan_features

IntArray = npt.NDArray[np.int64]


@inline_kernel
def _divide(bins, rows, spare, column, categorical, threshold, missing_left, levels, k, begin, count, sides):
    """Divide a node's rows, role by role; ``sides`` is filled with the rows of each role that went left, and right."""
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


@inline_kernel
def _gather_used(hist, n_roles, size, start, length, cells, to):
    """Copy the used cells of a histogram to ``cells[to:]``; returns where they end."""
    at = np.uint64(to)
    for role in range(n_roles):
        for run in range(length.size):
            origin = np.uint64(role * size + start[run])
            # unsigned, or numba looks whether they count from the end
            for c in range(np.uint64(length[run])):
                cells[at + c] = hist[origin + c]
            at += np.uint64(length[run])
    return np.int64(at)


@kernel
def answer_splits(
    chosen,
    bins,
    packed,
    rows,
    spare,
    splits,
    levels,
    build,
    begin,
    count,
    sides,
    n_roles,
    size,
    start,
    length,
    room,
    place,
    answer,
):
    """Divide the rows of some nodes, and add up the histograms of the children that are asked for.

    Parameters
    ----------
    chosen : ndarray of shape (n,), int64
        Which of the nodes.
    bins, packed, rows, spare
        See `training.shard.Shard`.
    splits, levels, build
        See `tree_rows.Splits`.
    begin : ndarray of shape (m,), int64
        Where in ``rows`` a node's rows begin.
    count : ndarray of shape (m, 4), int64
        Rows of each role.
    sides : ndarray of shape (m, 2, 4), int64
        Filled: rows of each role that went left, and right.
    n_roles, size : int
        Roles and bins of a histogram.
    start, length : ndarrays of shape (n_runs,), int64
        Runs of used cells; see `tree_rows.used_cells`.
    room : ndarray of shape (n_roles * size,), int64
        For a histogram.
    place : ndarray of shape (m,), int64
        Where in ``answer`` a node's first histogram begins.
    answer : ndarray of shape (n_histograms * n_used,), int64
        Filled: used cells, the left child's before those of the right one.
    """
    for i in range(chosen.size):
        k = chosen[i]
        column, categorical, threshold, missing_left = splits[k, 0], splits[k, 1], splits[k, 2], splits[k, 3]
        _divide(
            bins, rows, spare, column, categorical, threshold, missing_left, levels, k, begin[k], count[k], sides[k]
        )
        to = place[k]
        first = begin[k]
        for side in range(2):
            if (build[k] >> side) & 1 != 0:
                for c in range(room.size):
                    room[c] = 0
                at = first
                for role in range(n_roles):
                    add_rows(bins, packed, rows, at, at + sides[k, side, role], room, role * size)
                    at += sides[k, side, role]
                to = _gather_used(room, n_roles, size, start, length, answer, to)
            for role in range(4):
                first += sides[k, side, role]


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


class Arrivals(NamedTuple):
    """Histograms that have come, and what they become."""

    cells: IntArray
    """(n_arrived * n_used,) used cells, role by role; see `tree_rows.used_cells`."""
    number: IntArray
    """(m,) which of them is that of a node; -1 if none is."""
    sibling: IntArray
    """(m,) place of the other child of a parent whose histogram is in the node's place; -1 if the node's own one is."""
    start: IntArray
    """(n_runs,) first cell of each run of used cells, of one role."""
    length: IntArray


@inline_kernel
def _take_in(hist, origin, size, n_roles, n_bins, arrivals, i):
    """Have a node's histogram in its place: as it has come, or what the other child leaves of the parent's."""
    number = arrivals.number[i]
    if number >= 0:
        n_used = np.int64(0)
        for run in range(arrivals.length.size):
            n_used += arrivals.length[run]
        at = np.uint64(number * n_used * n_roles)
        for role in range(n_roles):
            for run in range(arrivals.length.size):
                to = np.uint64(origin + role * n_bins + arrivals.start[run])
                for c in range(np.uint64(arrivals.length[run])):
                    hist[to + c] = arrivals.cells[at + c]
                at += np.uint64(arrivals.length[run])
    elif arrivals.sibling[i] >= 0:
        to, other = np.uint64(origin), np.uint64(arrivals.sibling[i] * size)
        for c in range(np.uint64(size)):
            hist[to + c] -= hist[other + c]


@inline_kernel
def _smaller_side(hist, origin, n_bins, rule, feature, levels, node, k):
    """1 if the left child of a node's best split will have the smaller hessian, 2 if the right one will."""
    left = np.int64(0)
    total = np.int64(0)
    for role in range(rule.n_roles):
        at = origin + role * n_bins + feature.offset
        for b in range(feature.n_bins):
            hessian = (hist[at + b] & LOW_MASK) >> np.int64(rule.bits)
            total += hessian
            goes_left = node.missing_left != 0 if b == 0 else b <= node.bin
            if levels is not None and feature.categorical != 0:
                goes_left = (levels[k, b >> 6] >> np.uint64(b & 63)) & np.uint64(1) != 0
            if goes_left:
                left += hessian
    return 1 if 2 * left <= total else 2


@kernel
def find_splits(
    nodes,
    first,
    places,
    arrivals,
    smaller,
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

    A node's histogram is put in its place just before it is looked at, while it is near the processor.

    Parameters
    ----------
    places : ndarray of shape (n,), int64
        Where their histograms are, or will be.
    arrivals : Arrivals
    smaller : ndarray of shape (n,), int64
        Filled: the child that will have the smaller hessian, 1 for the left one, 2 for the right one.
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
        _take_in(hist, places[i] * size, size, rule.n_roles, limits.n_bins, arrivals, i)
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
        settle(nodes, k, features, rule, Evidence(bonus, found[i]), out)
        if node.feature >= 0:
            if levels is not None and features[node.feature].categorical != 0:
                left_levels(node, hist, places[i] * size, features, rule, scratch, levels, k)
            smaller[i] = _smaller_side(
                hist, places[i] * size, limits.n_bins, rule, features[node.feature], levels, node, k
            )
