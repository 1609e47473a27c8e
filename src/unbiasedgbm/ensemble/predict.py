"""Prediction: values become positions among the thresholds that the trees use, and small integer nodes are walked.

A position says exactly which thresholds lie below a value, so walking positions and comparing values are the same
thing. Raw predictions are added tree by tree in the order of training: they equal those that training kept, to the bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import TableLike, writable
from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.kernels import inline_kernel, kernel
from unbiasedgbm.threads import Pool

# Rows that are taken through a tree together, so that its nodes stay in the nearest cache.
_BLOCK_ROWS = 256

# Fewer (row, tree) pairs than this are not worth a thread.
_SERIAL_WORK = 20_000


# Node word: feature in the low 16 bits, then the cut in 16, the shift in 1, and the left child, from the root, in 31.
_CUT_SHIFT, _SHIFT_SHIFT, _LEFT_SHIFT = np.uint64(16), np.uint64(32), np.uint64(33)
_LOW_16 = np.uint64(0xFFFF)

# Different thresholds of a feature.
MOST_CUTS = 65_000
_ONE = np.uint64(1)


class Walk(NamedTuple):
    """The ensemble as the kernels walk it."""

    cut_start: npt.NDArray[np.int64]
    """(p + 1,) where a feature's thresholds begin in ``cuts``."""
    cuts: npt.NDArray[np.float64]
    n_levels: npt.NDArray[np.int64]
    """(p,) −1 for features that are numeric or not used; else the largest bit of their sets."""
    tree_start: npt.NDArray[np.int64]
    output: npt.NDArray[np.int64]
    plain: npt.NDArray[np.uint8]
    """(n_trees,) whether a tree has only numeric nodes, on the first 65,536 features."""
    word: npt.NDArray[np.uint64]
    """(n_nodes,) the node in one word. A leaf is its own left child and sends nothing right."""
    feature: npt.NDArray[np.int32]
    """(n_nodes,) −1 for a leaf; −2 − feature for a categorical node."""
    set_start: npt.NDArray[np.int64]
    set_words: npt.NDArray[np.int32]
    sets: npt.NDArray[np.uint64]
    value: npt.NDArray[np.float64]


def prepare(trees: TreeEnsemble) -> Walk:
    """Lay an ensemble out for walking."""
    p = trees.n_features
    inner = trees.left >= 0
    categorical = trees.set_start >= 0
    numeric = inner & ~categorical
    cut_start = np.zeros(p + 1, dtype=np.int64)
    order = np.lexsort((trees.threshold[numeric], trees.feature[numeric]))
    node = np.flatnonzero(numeric)[order]
    feature, threshold = trees.feature[node], trees.threshold[node]
    new = np.ones(len(node), dtype=bool)
    new[1:] = (feature[1:] != feature[:-1]) | (threshold[1:] != threshold[:-1])
    np.add.at(cut_start, feature[new] + 1, 1)
    np.cumsum(cut_start, out=cut_start)
    if len(node) and int(np.diff(cut_start).max()) > MOST_CUTS:
        raise ValueError(f"trees: a feature has more than {MOST_CUTS:,} different thresholds.")
    # position 0 is for missing values: where they go right, 0 − 1 wraps to the largest position
    shift = (numeric & ~trees.missing_left).astype(np.uint64)
    cut = np.full(trees.n_nodes, 0xFFFF, dtype=np.uint64)
    cut[node] = (np.cumsum(new) - cut_start[feature]).astype(np.uint64) - shift[node]
    sizes = np.diff(trees.tree_start)
    own = np.arange(trees.n_nodes) - np.repeat(trees.tree_start[:-1], sizes)
    left = np.where(inner, trees.left, own).astype(np.uint64)
    column = np.where(numeric, trees.feature, 0).astype(np.uint64) & _LOW_16
    word = column | (cut << _CUT_SHIFT) | (shift << _SHIFT_SHIFT) | (left << _LEFT_SHIFT)
    odd = categorical | (trees.feature > 0xFFFF)
    n_levels = np.full(p, -1, dtype=np.int64)
    np.maximum.at(n_levels, trees.feature[categorical], 64 * trees.set_words[categorical].astype(np.int64) - 1)
    return Walk(
        cut_start=cut_start,
        cuts=np.ascontiguousarray(threshold[new]),
        n_levels=n_levels,
        tree_start=trees.tree_start.copy(),
        output=trees.output.copy(),
        plain=(np.add.reduceat(odd, trees.tree_start[:-1]) == 0 if trees.n_trees else np.empty(0)).astype(np.uint8),
        word=word,
        feature=np.where(categorical, -2 - trees.feature, trees.feature).astype(np.int32),
        set_start=trees.set_start.copy(),
        set_words=trees.set_words.copy(),
        sets=trees.sets.copy(),
        value=trees.value.copy(),
    )


def raw_predict(
    walk: Walk, base: npt.NDArray[np.float64], table: TableLike, first: int, last: int, pool: Pool
) -> npt.NDArray[np.float64]:
    """Raw predictions of the trees first..last−1 on top of ``base``, shape (n, n_outputs).

    Parameters
    ----------
    base : ndarray of shape (n_outputs,) or (n, n_outputs), float64
    """
    n, k = table.n_rows, base.shape[-1]
    raw = np.empty((n, k))
    raw[:] = base

    def work(begin: int, end: int) -> None:
        position = np.empty((min(_BLOCK_ROWS, end - begin), table.n_features), dtype=np.uint16)
        leaf = np.empty(len(position), dtype=np.int64)
        for start in range(begin, end, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, end)
            _find_positions(writable(table.block(start, stop)), walk.cut_start, walk.cuts, walk.n_levels, position)
            _add_trees(walk, first, last, position, leaf, raw[start:stop])

    serial = n * (last - first) < _SERIAL_WORK
    (Pool(1) if serial else pool).run(work, [(0, n)] if serial else pool.blocks(n, _BLOCK_ROWS))
    return raw


def leaves(walk: Walk, table: TableLike, n_trees: int, pool: Pool) -> npt.NDArray[np.int32]:
    """Leaf that each row reaches in each of the first trees, counted from the tree's root, shape (n, n_trees)."""
    n = table.n_rows
    found = np.empty((n, n_trees), dtype=np.int32)

    def work(begin: int, end: int) -> None:
        position = np.empty((min(_BLOCK_ROWS, end - begin), table.n_features), dtype=np.uint16)
        leaf = np.empty(len(position), dtype=np.int64)
        for start in range(begin, end, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, end)
            _find_positions(writable(table.block(start, stop)), walk.cut_start, walk.cuts, walk.n_levels, position)
            _fill_leaves(walk, position, leaf, found[start:stop])

    pool.run(work, pool.blocks(n, _BLOCK_ROWS))
    return found


@kernel
def _find_positions(block, cut_start, cuts, n_levels, position):
    """Position of every value of a block: 0 for missing, else 1 + thresholds below it; for categories 1 + level."""
    m, p = block.shape
    for j in range(p):
        begin = cut_start[j]
        end = cut_start[j + 1]
        top = n_levels[j]
        if top < 0 and end == begin:
            continue
        for i in range(m):
            x = block[i, j]
            at = np.int64(0)
            if x == x:
                if top >= 0:
                    at = np.int64(x) + 1
                    if at > top or at < 0:
                        at = np.int64(0)
                else:
                    # without a branch that depends on the data
                    low = begin
                    length = end - begin
                    while length > 1:
                        half = length >> 1
                        low += half * np.int64(cuts[low + half - 1] < x)
                        length -= half
                    low += np.int64(cuts[low] < x)
                    at = low - begin + 1
            position[i, j] = at


@inline_kernel
def _next(word, value):
    """Child that a row with position ``value`` goes to."""
    shift = (word >> _SHIFT_SHIFT) & _ONE
    right = ((value - shift) & _LOW_16) > ((word >> _CUT_SHIFT) & _LOW_16)
    return (word >> _LEFT_SHIFT) + np.uint64(right)


@inline_kernel
def _find_leaves(walk, t, position, m, leaf):
    """Leaf of each of m rows in tree t, counted from its root."""
    word = walk.word
    root = np.uint64(walk.tree_start[t])
    width = np.uint64(position.shape[1])
    flat = position.reshape(position.size)
    done = np.uint64(0)
    rows = np.uint64(m)
    if walk.plain[t] != 0:
        # four rows at a time hide the waiting for memory; a row that has reached its leaf stays there
        while done + np.uint64(4) <= rows:
            at0 = done * width
            at1 = at0 + width
            at2 = at1 + width
            at3 = at2 + width
            n0 = n1 = n2 = n3 = np.uint64(0)
            moved = True
            while moved:
                w0, w1, w2, w3 = word[root + n0], word[root + n1], word[root + n2], word[root + n3]
                k0 = _next(w0, np.uint64(flat[at0 + (w0 & _LOW_16)]))
                k1 = _next(w1, np.uint64(flat[at1 + (w1 & _LOW_16)]))
                k2 = _next(w2, np.uint64(flat[at2 + (w2 & _LOW_16)]))
                k3 = _next(w3, np.uint64(flat[at3 + (w3 & _LOW_16)]))
                moved = (k0 != n0) | (k1 != n1) | (k2 != n2) | (k3 != n3)
                n0, n1, n2, n3 = k0, k1, k2, k3
            leaf[done] = np.int64(n0)
            leaf[done + np.uint64(1)] = np.int64(n1)
            leaf[done + np.uint64(2)] = np.int64(n2)
            leaf[done + np.uint64(3)] = np.int64(n3)
            done += np.uint64(4)
    for i in range(done, rows):
        node = np.uint64(0)
        while walk.feature[root + node] != -1:
            f = walk.feature[root + node]
            w = word[root + node]
            if f >= 0:
                node = _next(w, np.uint64(flat[i * width + np.uint64(f)]))
            else:
                at = np.int64(flat[i * width + np.uint64(-2 - f)])
                right = True
                if (at >> 6) < walk.set_words[root + node]:
                    bits = walk.sets[walk.set_start[root + node] + (at >> 6)]
                    right = (bits >> np.uint64(at & 63)) & _ONE == np.uint64(0)
                node = (w >> _LEFT_SHIFT) + np.uint64(right)
        leaf[i] = np.int64(node)


@kernel
def _add_trees(walk, first, last, position, leaf, raw):
    """Add the trees first..last−1 to the raw predictions of a block of rows, in order."""
    for t in range(first, last):
        _find_leaves(walk, t, position, raw.shape[0], leaf)
        root = walk.tree_start[t]
        k = walk.output[t]
        for i in range(raw.shape[0]):
            raw[i, k] += walk.value[root + leaf[i]]


@kernel
def _fill_leaves(walk, position, leaf, found):
    """Leaf numbers of a block of rows in the first trees."""
    for t in range(found.shape[1]):
        _find_leaves(walk, t, position, found.shape[0], leaf)
        for i in range(found.shape[0]):
            found[i, t] = leaf[i]
