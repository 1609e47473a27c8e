"""Prediction: values become positions among the thresholds that the trees use, and small integer nodes are walked.

A position says exactly which thresholds lie below a value, so walking positions and comparing values are the same thing.
Raw predictions are added tree by tree in the order of training: they equal those that training kept, to the bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import TableLike, writable
from unbiasedgbm.ensemble.trees import TreeEnsemble
from unbiasedgbm.kernels import kernel
from unbiasedgbm.threads import Pool

# Rows that are taken through a tree together, so that its nodes stay in the nearest cache.
_BLOCK_ROWS = 256

# Fewer (row, tree) pairs than this are not worth a thread.
_SERIAL_WORK = 20_000


class Walk(NamedTuple):
    """The ensemble as the kernel walks it."""

    cut_start: npt.NDArray[np.int64]
    """(p + 1,) where a feature's thresholds begin in ``cuts``."""
    cuts: npt.NDArray[np.float64]
    n_levels: npt.NDArray[np.int64]
    """(p,) −1 for features that are numeric or not used; else the largest bit of their sets."""
    tree_start: npt.NDArray[np.int64]
    output: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int32]
    """(n_nodes,) −1 for a leaf; −2 − feature for a categorical node."""
    cut: npt.NDArray[np.uint16]
    """(n_nodes,) largest position on the left, less ``shift``."""
    shift: npt.NDArray[np.uint16]
    """(n_nodes,) 1 where missing values (position 0) go right: 0 − 1 wraps to the largest position."""
    left: npt.NDArray[np.int64]
    """(n_nodes,) left child among all nodes."""
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
    cut = np.zeros(trees.n_nodes, dtype=np.uint16)
    order = np.lexsort((trees.threshold[numeric], trees.feature[numeric]))
    node = np.flatnonzero(numeric)[order]
    feature, threshold = trees.feature[node], trees.threshold[node]
    new = np.ones(len(node), dtype=bool)
    new[1:] = (feature[1:] != feature[:-1]) | (threshold[1:] != threshold[:-1])
    np.add.at(cut_start, feature[new] + 1, 1)
    np.cumsum(cut_start, out=cut_start)
    if len(node) and int(np.diff(cut_start).max()) > 65_000:
        raise ValueError("trees: a feature has more than 65,000 different thresholds.")
    shift = np.where(numeric & ~trees.missing_left, 1, 0).astype(np.uint16)
    position = np.cumsum(new) - 1 - cut_start[feature] + 1
    cut[node] = position - shift[node]
    n_levels = np.full(p, -1, dtype=np.int64)
    np.maximum.at(n_levels, trees.feature[categorical], 64 * trees.set_words[categorical].astype(np.int64) - 1)
    first = np.repeat(trees.tree_start[:-1], np.diff(trees.tree_start))
    return Walk(
        cut_start=cut_start,
        cuts=np.ascontiguousarray(threshold[new]),
        n_levels=n_levels,
        tree_start=np.ascontiguousarray(trees.tree_start),
        output=np.ascontiguousarray(trees.output),
        feature=np.where(categorical, -2 - trees.feature, trees.feature).astype(np.int32),
        cut=cut,
        shift=shift,
        left=np.where(inner, first + trees.left, -1),
        set_start=np.ascontiguousarray(trees.set_start),
        set_words=np.ascontiguousarray(trees.set_words),
        sets=np.ascontiguousarray(trees.sets),
        value=np.ascontiguousarray(trees.value),
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
        for start in range(begin, end, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, end)
            _walk_rows(writable(table.block(start, stop)), walk, first, last, position, raw[start:stop])

    serial = n * (last - first) < _SERIAL_WORK
    for_blocks = [(0, n)] if serial else pool.blocks(n, _BLOCK_ROWS)
    (Pool(1) if serial else pool).run(work, for_blocks)
    return raw


def leaves(walk: Walk, table: TableLike, n_trees: int, pool: Pool) -> npt.NDArray[np.int32]:
    """Leaf that each row reaches in each of the first trees, counted from the tree's root, shape (n, n_trees)."""
    n = table.n_rows
    found = np.empty((n, n_trees), dtype=np.int32)

    def work(begin: int, end: int) -> None:
        position = np.empty((min(_BLOCK_ROWS, end - begin), table.n_features), dtype=np.uint16)
        for start in range(begin, end, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, end)
            _find_leaves(writable(table.block(start, stop)), walk, position, found[start:stop])

    pool.run(work, pool.blocks(n, _BLOCK_ROWS))
    return found


@kernel
def _positions(block, walk, position):  # type: ignore
    """Position of every value of a block: 0 for missing, else 1 + thresholds below it; for categories 1 + level."""
    m, p = block.shape
    for j in range(p):
        begin = walk.cut_start[j]
        end = walk.cut_start[j + 1]
        top = walk.n_levels[j]
        if top < 0 and end == begin:
            continue
        for i in range(m):
            x = block[i, j]
            at = np.int64(0)
            if x == x:
                if top >= 0:
                    at = np.int64(x) + 1
                    if at > top or at < 0:
                        at = 0
                else:
                    low = begin
                    length = end - begin
                    while length > 0:
                        half = (length + 1) >> 1
                        if walk.cuts[low + half - 1] < x:
                            low += half
                            length -= half
                        else:
                            length = half - 1
                    at = low - begin + 1
            position[i, j] = at


@kernel
def _step(walk, node, position, i):  # type: ignore
    """Child of an inner node that row i goes to."""
    f = walk.feature[node]
    if f >= 0:
        right = np.uint16(position[i, f] - walk.shift[node]) > walk.cut[node]
    else:
        at = np.int64(position[i, -2 - f])
        right = True
        if (at >> 6) < walk.set_words[node]:
            word = walk.sets[walk.set_start[node] + (at >> 6)]
            right = (word >> np.uint64(at & 63)) & np.uint64(1) == np.uint64(0)
    return walk.left[node] + np.int64(right)


@kernel
def _walk_rows(block, walk, first, last, position, raw):  # type: ignore
    """Add the trees first..last−1 to the raw predictions of a block of rows."""
    m = block.shape[0]
    _positions(block, walk, position)
    for t in range(first, last):
        root = walk.tree_start[t]
        k = walk.output[t]
        for i in range(m):
            node = root
            while walk.left[node] >= 0:
                node = _step(walk, node, position, i)
            raw[i, k] += walk.value[node]


@kernel
def _find_leaves(block, walk, position, found):  # type: ignore
    """Leaf numbers of a block of rows."""
    m = block.shape[0]
    _positions(block, walk, position)
    for t in range(found.shape[1]):
        root = walk.tree_start[t]
        for i in range(m):
            node = root
            while walk.left[node] >= 0:
                node = _step(walk, node, position, i)
            found[i, t] = node - root
