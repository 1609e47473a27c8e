"""Tree construction: the paper's Algorithm 2 as one compiled call.

What a node needs is a *task* of a few kinds: divide its rows, add up a histogram, subtract one, look through the
features. A task can be cut into chunks for a team of threads; in how many makes no difference to the result, because
sums over rows are sums of integers.

Where the rows are elsewhere, on a cluster, `grow` returns and *asks* for partitions and for the best splits of nodes
instead, and goes on when it is called again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import hash64, inline_kernel, kernel
from unbiasedgbm.training.few import feature_histogram, is_few, scan_rows
from unbiasedgbm.training.histogram import add, add_rows, clear, subtract
from unbiasedgbm.training.levels import left_levels
from unbiasedgbm.training.nodes import (
    CHUNKS,
    KEEP_SMALL,
    LARGE,
    N_FREE,
    N_LEAVES,
    N_NODES,
    PARENT,
    SMALL,
    STAGE,
    SUBTRACT,
    Nodes,
)
from unbiasedgbm.training.partition import place_rows, split_rows
from unbiasedgbm.training.splitting import EVIDENCE, allow, choose, scan_features
from unbiasedgbm.training.team import (
    FINISHED,
    LIMIT,
    N_CHUNKS,
    NODE,
    OTHER,
    STOP,
    TASK,
    count,
    look,
    next_chunk,
    post,
    show,
    wait,
)

# What `grow` returns.
DONE, ASK_PARTITION, ASK_SPLITS = range(3)

# Tasks that a team shares.
_SPLIT, _PLACE, _BUILD, _ADD_UP, _SUBTRACT, _SCAN, _SCAN_ROWS = range(7)

# Stages of a split. Each ends with at most one task, or with a question.
(
    _PICK,
    _MOVE,
    _CHILDREN,
    _FIRST,
    _FIRST_SUM,
    _SECOND,
    _SECOND_SUM,
    _SCAN_SMALL,
    _SETTLE_SMALL,
    _SCAN_LARGE,
    _SETTLE_LARGE,
) = range(11)

_NO_SPLIT = -np.inf

# Slots of a tree that is not unusually large, none of which is taken.
_FREE = np.arange(1023, -1, -1)


def make_leaf(k: int | slice, counts: list[int], depth: int, nodes: Nodes) -> None:
    """Make a leaf of node k, or of each of some, with so many rows of each role."""
    nodes.node[k] = (0, sum(counts), -1, depth, -1, -1, 0, 0, _NO_SPLIT, 0.0, -np.inf, np.inf, 0.0)
    nodes.count[k] = counts
    nodes.compatible[k] = 1


def start_tree(counts: list[int], nodes: Nodes, free: npt.NDArray[np.int64], state: npt.NDArray[np.int64]) -> None:
    """Make the root and a list of free histogram slots.

    Parameters
    ----------
    counts : list of 4 ints
        Rows of each role.
    free : ndarray of shape (n_slots,), int64
    state : ndarray of shape (STATE_SIZE,), int64
    """
    make_leaf(0, counts, 0, nodes)
    free[:] = _FREE[-len(free) :] if len(free) <= len(_FREE) else np.arange(len(free) - 1, -1, -1)
    state[:] = 0
    state[STAGE] = _FIRST
    state[N_NODES] = state[N_LEAVES] = 1
    state[N_FREE] = len(free)
    state[LARGE] = -1


@inline_kernel
def _take_slot(nodes, free, state):
    """A free slot; if there is none, that of the least promising leaf, whose children will be built without it."""
    node = nodes.node
    if state[N_FREE] == 0:
        worst = np.int64(-1)
        for k in range(state[N_NODES]):
            taken = node[k].slot >= 0 and node[k].left < 0 and k != state[SMALL] and k != state[LARGE]
            if taken and (worst < 0 or node[k].score < node[worst].score):
                worst = k
        free[0] = node[worst].slot
        node[worst].slot = -1
        state[N_FREE] = 1
    state[N_FREE] -= 1
    return free[state[N_FREE]]


@inline_kernel
def _free_slot(nodes, k, free, state):
    if nodes.node[k].slot >= 0:
        free[state[N_FREE]] = nodes.node[k].slot
        state[N_FREE] += 1
        nodes.node[k].slot = -1


@inline_kernel
def _part(begin, n, chunk, n_chunks):
    """Where a chunk of n things begins."""
    return begin + n * chunk // n_chunks


@inline_kernel
def _split(nodes, k, chunk, n_chunks, features, levels, table):
    """Divide a chunk of every role's rows into ``spare``."""
    node = nodes.node[k]
    feature = features[node.feature]
    begin = node.begin
    for role in range(4):
        n = nodes.count[k, role]
        table.cuts[chunk, role] = split_rows(
            table.bins,
            feature.column,
            feature.categorical,
            node.bin,
            node.missing_left,
            levels,
            k,
            table.rows,
            _part(begin, n, chunk, n_chunks),
            _part(begin, n, chunk + 1, n_chunks),
            table.spare,
        )
        begin += n


@inline_kernel
def _place(nodes, k, chunk, n_chunks, table):
    """Copy a chunk of every role's divided rows to where the children begin: role by role, in the old order."""
    begin = nodes.node[k].begin
    left_at = begin
    right_at = begin
    for role in range(4):
        for c in range(n_chunks):
            right_at += table.cuts[c, role]
    for role in range(4):
        n = nodes.count[k, role]
        for c in range(n_chunks):
            first, last = _part(begin, n, c, n_chunks), _part(begin, n, c + 1, n_chunks)
            n_left = table.cuts[c, role]
            if c == chunk:
                place_rows(table.spare, first, last, n_left, table.rows, left_at, right_at)
            left_at += n_left
            right_at += last - first - n_left
        begin += n


@inline_kernel
def _count_sides(nodes, k, n_chunks, cuts):
    """Rows of each role that went left, and right."""
    for role in range(4):
        n_left = np.int64(0)
        for c in range(n_chunks):
            n_left += cuts[c, role]
        nodes.side_count[0, role] = n_left
        nodes.side_count[1, role] = nodes.count[k, role] - n_left


@inline_kernel
def _make_children(nodes, k, features, groups, state):
    """Enter two new leaves for a node that was partitioned; monotone constraints bound what may come below."""
    parent = nodes.node[k]
    left = state[N_NODES]
    state[N_NODES] += 2
    state[N_LEAVES] += 1
    parent.left = left
    n_left = np.int64(0)
    for role in range(4):
        n_left += nodes.side_count[0, role]
        nodes.count[left, role] = nodes.side_count[0, role]
        nodes.count[left + 1, role] = nodes.side_count[1, role]
    sign = features[parent.feature].monotone
    for side in range(2):
        child = nodes.node[left + side]
        child.begin = parent.begin + (n_left if side == 1 else 0)
        child.n_rows = n_left if side == 0 else parent.n_rows - n_left
        child.left = -1
        child.depth = parent.depth + 1
        child.slot = -1
        child.feature = -1
        child.bin = 0
        child.missing_left = 0
        child.score = _NO_SPLIT
        child.worth = 0.0
        child.low = parent.low
        child.high = parent.high
        if sign != 0:
            if (sign > 0) == (side == 0):
                child.high = min(child.high, parent.middle)
            else:
                child.low = max(child.low, parent.middle)
        if groups is not None:
            for g in range(groups.shape[0]):
                nodes.compatible[left + side, g] = nodes.compatible[k, g] & groups[g, parent.feature]


@inline_kernel
def _redraw_roles(nodes, k, share, key, rows, spare):
    """Draw the roles of a node's rows anew (Algorithm 1, line 1, to the letter)."""
    begin = nodes.node[k].begin
    end = begin + nodes.count[k, 0] + nodes.count[k, 1] + nodes.count[k, 2]
    at = begin
    lower = 0.0
    for role in range(3):
        first = at
        for i in range(begin, end):
            draw = hash64(key ^ np.uint64(k), np.uint64(rows[i])) >> np.uint64(40)
            u = np.float64(draw) * (1.0 / (1 << 24))
            if u >= lower and u < share[role]:
                spare[at] = rows[i]
                at += 1
        nodes.count[k, role] = at - first
        lower = share[role]
    for i in range(begin, end):
        rows[i] = spare[i]


@inline_kernel
def splittable(nodes, k, rule, limits):
    """Whether a node may have a split at all, seen from its depth and its rows."""
    if limits.max_depth > 0 and nodes.node[k].depth >= limits.max_depth:
        return False
    for role in range(rule.n_roles):  # noqa: SIM110 (a generator does not compile)
        if nodes.count[k, role] < limits.min_rows:
            return False
    return True


@inline_kernel
def _build(nodes, k, chunk, n_chunks, features, n_roles, n_bins, table):
    """Histogram of a chunk of a node's rows: of the first one in the node's slot, of the others beside it."""
    size = n_roles * n_bins
    target, origin = table.hist, nodes.node[k].slot * size
    if chunk > 0:
        target, origin = table.parts, (chunk - 1) * size
    clear(target, origin, n_roles, n_bins, features)
    begin = nodes.node[k].begin
    n = np.int64(0)
    for role in range(n_roles):
        n += nodes.count[k, role]
    first, last = _part(begin, n, chunk, n_chunks), _part(begin, n, chunk + 1, n_chunks)
    for role in range(n_roles):
        end = begin + nodes.count[k, role]
        # nothing where the chunk has no rows of the role
        add_rows(
            table.bins,
            table.packed,
            table.rows,
            max(begin, first),
            max(min(end, last), max(begin, first)),
            target,
            origin + role * n_bins,
        )
        begin = end


@inline_kernel
def settle(nodes, k, features, rule, evidence, out):
    """Enter the best of a node's candidates, and count the evidence that they gave."""
    node = nodes.node[k]
    n = nodes.count[k, 0] + nodes.count[k, 1] + nodes.count[k, 2]
    bucket = features.size
    while n > 1:
        n >>= 1
        bucket += 1
    for f in range(features.size):
        if out[f].select != _NO_SPLIT:
            evidence.found[f] += out[f].evidence
    best = choose(features, out)
    if best < 0:
        return
    chosen = out[best]
    evidence.found[bucket] += chosen.evidence
    node.feature = best
    node.bin = chosen.bin
    node.missing_left = chosen.missing_left
    node.score = chosen.accept + evidence.bonus[bucket]
    node.worth = chosen.evidence if rule.code == EVIDENCE else chosen.accept
    node.middle = chosen.middle


@inline_kernel
def _few_levels(nodes, k, features, rule, table, scratch, levels):
    """Fill the set of bins that go left at the categorical split of a node of few rows."""
    node = nodes.node[k]
    feature = features[node.feature]
    feature_histogram(table, feature.column, feature.n_bins, node.begin, nodes.count[k], 1, 0, scratch.local)
    left_levels(node, scratch.local, -feature.offset, features, rule, scratch, levels, k)


@inline_kernel
def _n_chunks(amount, smallest, limits):
    """Chunks to cut a task into."""
    return max(min(amount // smallest, limits.n_threads), 1)


@kernel
def grow(
    member,
    board,
    state,
    nodes,
    features,
    levels,
    groups,
    rule,
    limits,
    share,
    evidence,
    table,
    free,
    tree_allowed,
    allowed,
    scratch,
    out,
):
    """Grow a tree, or, as a member of the team other than the first, help until it is grown.

    What a fit has no use for is None: to numba that is a type of its own, for which the branches that need it are not
    compiled.

    Parameters
    ----------
    member : int
        Of the team; member 0 grows the tree.
    board : ndarray of shape (BOARD_SIZE,), int64
        Of the team; all zero at the beginning.
    state : ndarray of shape (STATE_SIZE,), int64
        As left by `start_tree` or an earlier call.
    nodes, rule, limits, evidence, table, scratch
        See their classes. Every member has a scratch of its own.
    features : ndarray of shape (p,), FEATURE
    levels : ndarray of shape (m, words), uint64, or None
        Bins on the left of each categorical split; None for a table without categories.
    groups : ndarray of shape (n_groups, p), uint8, or None
        Members of the interaction groups; None where nodes may use all of their tree's features.
    share : ndarray of shape (3,), float64, or None
        Upper ends of the roles, where every node draws its own.
    free : ndarray of shape (n_slots,), int64
    tree_allowed, allowed : ndarrays of shape (p,), uint8
    out : ndarray of shape (p,), CANDIDATE

    Returns
    -------
    int
        DONE or a question: to divide the node ``state[PARENT]``, or to find the best splits of the nodes
        ``state[SMALL]`` and ``state[LARGE]``, in this order, those that are not negative.
    """
    node = nodes.node
    bin_chunks = _n_chunks(rule.n_roles * limits.n_bins, limits.scan_bins, limits)
    size = rule.n_roles * limits.n_bins
    p = np.int64(features.size)
    sharing = member > 0
    looks = 0
    while True:
        task = np.int64(-1)
        k = np.int64(-1)
        other = np.int64(0)
        chunk = np.int64(0)
        n_chunks = bin_chunks
        stage = np.int64(-1) if sharing else state[STAGE]
        if sharing:
            chunk = next_chunk(board)
            if chunk >= 0:
                looks = 0
                task, k, other, n_chunks = board[TASK], board[NODE], board[OTHER], board[N_CHUNKS]
            elif member > 0 and look(board, STOP) != 0:
                return DONE
            elif member == 0 and look(board, FINISHED) == look(board, LIMIT):
                sharing = False
            else:
                looks = wait(looks)
        elif stage == _PICK:
            # Algorithm 2: pick the leaf with the largest score
            for j in range(max(state[N_NODES] - 2, 0), state[N_NODES]):
                ready = node[j].feature >= 0 and node[j].score > limits.min_split_gain
                nodes.promise[j] = node[j].score if ready else _NO_SPLIT
            if state[N_LEAVES] < limits.num_leaves:
                most = _NO_SPLIT
                for j in range(state[N_NODES]):
                    if nodes.promise[j] > most:
                        most = nodes.promise[j]
                        k = j
            if limits.root_on_trial and state[N_LEAVES] == 1 and node[0].feature >= 0:
                k = np.int64(0)
            if k < 0:
                show(board, STOP, 1)
                return DONE
            state[PARENT] = k
            nodes.promise[k] = _NO_SPLIT
            if limits.rows_elsewhere:
                state[STAGE] = _CHILDREN
                return ASK_PARTITION
            state[STAGE] = _MOVE
            state[CHUNKS] = _n_chunks(node[k].n_rows, limits.split_rows, limits)
            n_chunks = state[CHUNKS]
            task = _SPLIT
        elif stage == _MOVE:
            k = state[PARENT]
            state[STAGE] = _CHILDREN
            n_chunks = state[CHUNKS]
            _count_sides(nodes, k, n_chunks, table.cuts)
            task = _PLACE
        elif stage == _CHILDREN:
            parent = state[PARENT]
            _make_children(nodes, parent, features, groups, state)
            small = node[parent].left
            large = small + 1
            if share is not None and not limits.rows_elsewhere:
                for child in range(small, small + 2):
                    _redraw_roles(nodes, child, share, limits.draw_key, table.rows, table.spare)
            if node[large].n_rows < node[small].n_rows:
                small, large = large, small
            more = state[N_LEAVES] < limits.num_leaves
            want_small = more and splittable(nodes, small, rule, limits)
            want_large = more and splittable(nodes, large, rule, limits)
            state[SUBTRACT] = 0
            state[KEEP_SMALL] = want_small
            if (
                want_large
                and not is_few(nodes, large, rule.n_roles, limits)
                and node[parent].slot >= 0
                and share is None
            ):
                # the larger child will be the parent less the smaller one, which must be built in any case
                state[SUBTRACT] = 1
                node[large].slot = node[parent].slot
                node[parent].slot = -1
            _free_slot(nodes, parent, free, state)
            state[SMALL] = small if want_small or state[SUBTRACT] == 1 else -1
            state[LARGE] = large if want_large else -1
            state[STAGE] = _FIRST if want_small or want_large else _PICK
        elif stage in (_FIRST, _SECOND):
            k = state[SMALL] if stage == _FIRST else state[LARGE]
            state[STAGE] = stage + 1
            state[CHUNKS] = 1
            if limits.rows_elsewhere:
                state[STAGE] = _PICK
                return ASK_SPLITS
            if stage == _SECOND and state[SUBTRACT] == 1:
                other = state[SMALL]
                task = _SUBTRACT
            elif k >= 0 and (state[SUBTRACT] == 1 or not is_few(nodes, k, rule.n_roles, limits)):
                node[k].slot = _take_slot(nodes, free, state)
                state[CHUNKS] = _n_chunks(node[k].n_rows, limits.build_rows, limits)
                n_chunks = state[CHUNKS]
                task = _BUILD
        elif stage in (_FIRST_SUM, _SECOND_SUM):
            k = state[SMALL] if stage == _FIRST_SUM else state[LARGE]
            state[STAGE] = stage + 1
            if state[CHUNKS] > 1:
                other = state[CHUNKS] - 1
                task = _ADD_UP
            elif stage == _SECOND_SUM and state[SUBTRACT] == 1 and state[KEEP_SMALL] == 0:
                _free_slot(nodes, state[SMALL], free, state)
                state[SMALL] = -1
        elif stage in (_SCAN_SMALL, _SCAN_LARGE):
            k = state[SMALL] if stage == _SCAN_SMALL else state[LARGE]
            state[STAGE] = stage + 1
            if k >= 0:
                if groups is not None:
                    allow(tree_allowed, groups, nodes.compatible, features, rule, k, allowed)
                task = _SCAN
                if is_few(nodes, k, rule.n_roles, limits):
                    task = _SCAN_ROWS
                    n_chunks = _n_chunks(p, limits.few_features, limits)
        else:
            k = state[SMALL] if stage == _SETTLE_SMALL else state[LARGE]
            state[STAGE] = _SCAN_LARGE if stage == _SETTLE_SMALL else _PICK
            if k >= 0:
                few = is_few(nodes, k, rule.n_roles, limits)
                settle(nodes, k, features, rule, evidence, out)
                if levels is not None and node[k].feature >= 0 and features[node[k].feature].categorical != 0:
                    if few:
                        _few_levels(nodes, k, features, rule, table, scratch, levels)
                    else:
                        left_levels(node[k], table.hist, node[k].slot * size, features, rule, scratch, levels, k)
                if few or node[k].feature < 0 or node[k].score <= limits.min_split_gain:
                    _free_slot(nodes, k, free, state)
        if task < 0:
            continue
        if n_chunks > 1 and not sharing:
            post(board, task, k, other, n_chunks)
            sharing = True
        first, last = _part(0, p, chunk, n_chunks), _part(0, p, chunk + 1, n_chunks)
        if task == _SPLIT:
            _split(nodes, k, chunk, n_chunks, features, levels, table)
        elif task == _PLACE:
            _place(nodes, k, chunk, n_chunks, table)
        elif task == _BUILD:
            _build(nodes, k, chunk, n_chunks, features, rule.n_roles, limits.n_bins, table)
        elif task == _ADD_UP:
            at = node[k].slot * size
            for c in range(other):
                add(table.hist, at, table.parts, c * size, rule.n_roles, limits.n_bins, features, first, last)
        elif task == _SUBTRACT:
            at, small = node[k].slot * size, node[other].slot * size
            subtract(table.hist, at, small, rule.n_roles, limits.n_bins, features, first, last)
        elif last > first:
            few = task == _SCAN_ROWS
            if few:
                scan_rows(
                    first,
                    last,
                    table,
                    node[k].begin,
                    nodes.count[k],
                    features,
                    allowed,
                    evidence.bonus,
                    rule,
                    node[k].low,
                    node[k].high,
                    scratch,
                    out,
                )
            # all features in the node's histogram, or one after the other those that need one of their own
            hist, origin, width = table.hist, node[k].slot * size, limits.n_bins
            end = last
            for f in range(first, last if few else first + 1):
                if few:
                    if not np.isnan(out[f].select):
                        continue
                    hist, origin, width, end = scratch.local, -features[f].offset, scratch.local.size // 3, f + 1
                    column, n_bins = features[f].column, features[f].n_bins
                    feature_histogram(
                        table, column, n_bins, node[k].begin, nodes.count[k], rule.n_roles, width, scratch.local
                    )
                scan_features(
                    f,
                    end,
                    hist,
                    origin,
                    width,
                    nodes.count[k, 0],
                    features,
                    levels,
                    allowed,
                    evidence.bonus,
                    rule,
                    node[k].low,
                    node[k].high,
                    scratch,
                    out,
                )
        if sharing:
            count(board, FINISHED)
