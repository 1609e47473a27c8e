"""Columns become bins: at most 255 for numbers, one a level for categories, and bin 0 for missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import hash64, hash_rows, kernel
from unbiasedgbm.threads import Pool

# Bins of a narrow feature: what a byte can tell apart.
MOST_NARROW = 256

# From one narrow feature to the next in a histogram. A constant, because the histogram kernel took 1.3 times as long
# with a variable; and no power of two, or the same bins of all features would share a few places in the cache.
STRIDE = MOST_NARROW + 8

# Quantiles are taken from about so many rows, chosen by a hash of their number.
SAMPLE_ROWS = 200_000

# Up to so many values edges are found by one thread.
_POOL_CELLS = 1 << 16

# Rows whose bins make up a feature's content hash.
_HASHED_ROWS = 1 << 16

_BLOCK_ROWS = 1024

# Binned tables of more bytes are kept by columns, too: they do not fit the nearer caches.
COLUMNS_BYTES = 1 << 22

# Bins for the values of a numeric feature, at most; by default, where they are many; and by default again, rows that
# each value must have on average to get a bin of its own.
MOST_BINS = 255
_BINS = 128
_VALUE_ROWS = 16

FloatArray = npt.NDArray[np.float64]


class TableLike(Protocol):
    """What binning needs of a table; see `frames.Table`."""

    n_rows: int
    n_features: int

    def block(self, start: int, stop: int) -> FloatArray:
        """Rows start..stop−1 as a C-contiguous array, NaN where missing."""

    def column(self, j: int, rows: npt.NDArray[np.intp] | None = None) -> FloatArray:
        """One column, or those rows of it."""


class Bins(NamedTuple):
    """The binned table, row by row."""

    narrow: npt.NDArray[np.uint8]
    """(n * n_bytes,) features of at most 256 bins; n_bytes is a multiple of 8."""
    words: npt.NDArray[np.uint64]
    """The same memory, eight bins to a word."""
    n_narrow: int
    n_bytes: int
    wide: npt.NDArray[np.uint16]
    """(n * n_wide,) features of more bins."""
    wide_offset: npt.NDArray[np.int64]
    """(n_wide,) where in a histogram the bins of each wide feature begin."""
    columns: npt.NDArray[np.uint8]
    """(n_narrow * n,) the narrow features column by column, or empty; see `with_columns`."""


def writable(block: FloatArray) -> FloatArray:
    """The block, or a copy if it is read-only: to a kernel that is another type, compiled again."""
    return block if block.flags.writeable else block.copy()


def value_edges(values: FloatArray, weights: FloatArray | None, max_bins: int | None) -> FloatArray:
    """Upper edges of all but the last bin of a numeric column.

    A value that is heavier than a fair bin gets a bin of its own; the others share the rest evenly. Two rows of a
    value and one row of weight two are the same.

    Parameters
    ----------
    values : ndarray of shape (m,), float64
        NaN is left out.
    weights : ndarray of shape (m,), float64, or None
    max_bins : int or None
        None leaves it to `_usual_bins`.

    Returns
    -------
    ndarray of at most max_bins − 1 values, float64, increasing
        x falls in the first bin whose edge is ≥ x.
    """
    present = ~np.isnan(values)
    if not present.all():
        values = values[present]
        weights = None if weights is None else weights[present]
    if len(values) == 0:
        return np.empty(0)
    if weights is None:
        ranked = np.sort(values)
    else:
        order = np.argsort(values, kind="stable")
        ranked = values[order]
    # sorted and compared with the neighbour: a tenth of the time of np.unique; −0.0 and 0.0 are one value
    first = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    distinct = ranked if len(first) == len(ranked) else ranked[first]
    distinct += 0.0
    if weights is None:
        mass = np.diff(first, append=len(ranked)).astype(np.float64)
    else:
        mass = np.add.reduceat(weights[order], first)
    if max_bins is None:
        max_bins = _usual_bins(len(distinct), _n_rows(len(values), weights))
    if len(distinct) > max_bins:
        last = _last_of_bins(mass, max_bins)
        below, above = distinct[last], distinct[last + 1]
    else:
        below, above = distinct[:-1], distinct[1:]
    with np.errstate(over="ignore", invalid="ignore"):
        middle = below + 0.5 * (above - below)
    # a ≤ edge < b also where b − a overflows or rounds
    return np.where(np.isfinite(middle) & (middle < above) & (middle >= below), middle, below)


def _usual_bins(n_values: int, n_rows: float) -> int:
    """Bins of a column by default: as many as it has values, if that is possible and all have some rows.

    Numbers with few values are often names, those of hours, districts or products, and neighbours mean nothing.
    """
    return MOST_BINS if n_values <= MOST_BINS and n_rows >= _VALUE_ROWS * n_values else _BINS


def _n_rows(n_rows: int, weights: FloatArray | None) -> float:
    """Rows with their repetitions, if weights can be repetitions."""
    return float(n_rows) if weights is None or (weights != np.floor(weights)).any() else float(weights.sum())


def _last_of_bins(mass: FloatArray, max_bins: int) -> npt.NDArray[np.intp]:
    """Index of the last distinct value of each bin but the last."""
    heavy = np.zeros(len(mass), dtype=bool)
    while True:
        n_heavy = int(heavy.sum())
        target = (mass[~heavy] if n_heavy else mass).sum() / max(max_bins - n_heavy, 1)
        more = ~heavy & (mass > target)
        if not more.any() or n_heavy + int(more.sum()) >= max_bins:
            break
        heavy |= more
    while True:
        light = np.where(heavy, 0.0, mass) if n_heavy else mass
        # position of a light value's middle among the light ones; heavy values stand between
        share = np.cumsum(light)
        share -= 0.5 * light
        share /= target
        np.floor(share, out=share)
        ends = share[1:] != share[:-1]
        if heavy.any():
            passed = 2 * np.cumsum(heavy) - heavy
            ends |= passed[1:] != passed[:-1]
        last = np.flatnonzero(ends)
        if len(last) <= max_bins - 1:
            return last
        # light values between heavy ones need bins, too: with larger bins fewer values are heavy, in the end none
        target *= 1.0 + max(0.5 * (len(last) + 1 - max_bins) / max_bins, 0.01)
        heavy &= mass > target


@dataclass(frozen=True)
class BinMapper:
    """How values of each feature become bins.

    Attributes
    ----------
    edges : tuple of ndarrays, float64
        Of numeric features; empty for categorical ones.
    n_bins : ndarray of shape (p,), int64
        With bin 0.
    categorical : ndarray of shape (p,), bool
    """

    edges: tuple[FloatArray, ...]
    n_bins: npt.NDArray[np.int64]
    categorical: npt.NDArray[np.bool_]

    @cached_property
    def flat_edges(self) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """Where each feature's edges begin in one array of all edges, and that array."""
        sizes = np.array([len(edges) for edges in self.edges], dtype=np.int64)
        return np.cumsum(sizes) - sizes, np.concatenate([*self.edges, np.empty(0)])

    @property
    def narrow(self) -> npt.NDArray[np.bool_]:
        """Features whose bins fit a byte."""
        return self.n_bins <= MOST_NARROW

    @property
    def hist_size(self) -> int:
        """Bins of a histogram of all features."""
        narrow = self.narrow
        return STRIDE * int(narrow.sum()) + int(self.n_bins[~narrow].sum())

    def column(self) -> npt.NDArray[np.int64]:
        """Position of each feature among the narrow ones, or −1 − position among the wide ones."""
        narrow = self.narrow
        return np.where(narrow, np.cumsum(narrow) - 1, 0 - np.cumsum(~narrow))

    def offset(self) -> npt.NDArray[np.int64]:
        """Where each feature's bins begin in a histogram: the narrow ones first, `STRIDE` apart, then the wide ones."""
        narrow = self.narrow
        wide_sizes = np.where(narrow, 0, self.n_bins)
        wide_start = STRIDE * int(narrow.sum()) + np.cumsum(wide_sizes) - wide_sizes
        return np.where(narrow, STRIDE * (np.cumsum(narrow) - 1), wide_start)

    def edge_hash(self) -> npt.NDArray[np.uint64]:
        """A number for each feature's edges, shape (p,): it tells x from exp(x), whose bins are the same."""
        digests = [blake2b(edges.tobytes(), digest_size=8).digest() for edges in self.edges]
        return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)

    def transform(self, table: TableLike, pool: Pool) -> Bins:
        """Bin a table."""
        n, p = table.n_rows, table.n_features
        column = self.column()
        n_narrow = int(self.narrow.sum())
        n_wide = p - n_narrow
        n_bytes = 8 * ((n_narrow + 7) // 8)
        narrow = np.zeros(n * n_bytes, dtype=np.uint8)
        wide = np.zeros(n * n_wide, dtype=np.uint16)
        longest = max((len(e) for e in self.edges), default=0)
        n_steps = max(1, int(longest).bit_length())
        padded = np.full((p, 1 << n_steps), np.inf)
        for j, edges in enumerate(self.edges):
            padded[j, : len(edges)] = edges
        limit = np.where(self.categorical, self.n_bins, 0)

        def work(begin: int, end: int) -> None:
            for start in range(begin, end, _BLOCK_ROWS):
                stop = min(start + _BLOCK_ROWS, end)
                block = writable(table.block(start, stop))
                _bin_rows(block, start, padded, limit, column, narrow, n_bytes, wide, n_wide)

        pool.run(work, pool.blocks(n, _BLOCK_ROWS))
        offset = self.offset()
        return Bins(
            narrow, narrow.view(np.uint64), n_narrow, n_bytes, wide, offset[~self.narrow].copy(), np.empty(0, np.uint8)
        )


def with_columns(bins: Bins, n: int, pool: Pool) -> Bins:
    """The bins of n rows, in large tables with a copy by columns.

    Dividing a node's rows reads one feature. Of a row-wise table that is a line of the cache for every row; of a
    column, one for many rows.
    """
    if bins.narrow.size < COLUMNS_BYTES:
        return bins
    columns = np.empty(bins.n_narrow * n, np.uint8)
    pool.run(_copy_columns, [(bins.narrow, bins.n_bytes, n, *block, columns) for block in pool.blocks(n, _BLOCK_ROWS)])
    return bins._replace(columns=columns)


def join_bins(parts: Sequence[Bins]) -> Bins:
    """The rows of several tables that the same mapper binned, one after another."""
    narrow = np.concatenate([part.narrow for part in parts])
    wide = np.concatenate([part.wide for part in parts])
    return parts[0]._replace(narrow=narrow, words=narrow.view(np.uint64), wide=wide)


def learn_bins(
    table: TableLike,
    categorical: npt.NDArray[np.bool_],
    n_levels: npt.NDArray[np.int64],
    sample_weight: FloatArray | None,
    max_bins: int | None,
    pool: Pool,
) -> BinMapper:
    """Find the bins of every feature.

    Parameters
    ----------
    table : TableLike
    categorical : ndarray of shape (p,), bool
    n_levels : ndarray of shape (p,), int64
        Levels of categorical features.
    sample_weight : ndarray of shape (n,), float64, or None
    max_bins : int or None
        Bins for the values of a numeric feature, at most 255; see `value_edges`.
    pool : Pool
    """
    rows = sample_rows(table.n_rows)
    weights = None
    if sample_weight is not None:
        weights = sample_weight if rows is None else sample_weight[rows]

    def one(j: int) -> FloatArray:
        if categorical[j]:
            return np.empty(0)
        return value_edges(table.column(j, rows), weights, max_bins)

    n_cells = table.n_features * (table.n_rows if rows is None else len(rows))
    threads = pool if n_cells > _POOL_CELLS else Pool(1)
    edges = tuple(threads.run(one, [(j,) for j in range(table.n_features)]))
    return make_mapper(edges, categorical, n_levels)


def make_mapper(
    edges: tuple[FloatArray, ...], categorical: npt.NDArray[np.bool_], n_levels: npt.NDArray[np.int64]
) -> BinMapper:
    """Mapper from the edges of numeric features and the numbers of levels of categorical ones."""
    n_bins = np.array([len(e) + 2 for e in edges], dtype=np.int64)
    n_bins[categorical] = n_levels[categorical] + 1
    return BinMapper(edges, n_bins, categorical)


def sample_rows(
    n_rows: int, first: int = 0, last: int | None = None, wanted: int | None = None
) -> npt.NDArray[np.intp] | None:
    """Rows that quantiles are taken from, or None for all: a hash of the row number decides.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    first, last : int
        Rows to look at, all by default; the result counts from ``first``.
    wanted : int
        About so many of all; None for `SAMPLE_ROWS`.
    """
    wanted = SAMPLE_ROWS if wanted is None else wanted
    if n_rows <= wanted:
        return None
    keys = np.empty((n_rows if last is None else last) - first, dtype=np.uint64)
    hash_rows(np.uint64(0x5A), np.uint64(first), keys)
    return np.flatnonzero((keys >> np.uint64(1)) < np.uint64(wanted / n_rows * 2.0**63))


@kernel
def _bin_rows(block, start, edges, levels, column, narrow, n_bytes, wide, n_wide):
    """Bin a block of rows.

    Parameters
    ----------
    block : ndarray of shape (m, p), float64
    start : int
        Number of the block's first row.
    edges : ndarray of shape (p, 2**k), float64
        Padded with infinity.
    levels : ndarray of shape (p,), int64
        Bins of categorical features, 0 for numeric ones.
    column : ndarray of shape (p,), int64
    narrow, wide : ndarrays
        Filled.
    """
    m, p = block.shape
    n_bits = np.uint64(0)
    while (np.int64(1) << n_bits) < edges.shape[1]:
        n_bits += np.uint64(1)
    zero = np.uint64(0)
    one = np.uint64(1)
    for j in range(p):
        is_narrow = column[j] >= 0
        place = column[j] if is_narrow else -1 - column[j]
        for i in range(m):
            x = block[i, j]
            b = zero
            if levels[j] > 0:
                if x == x:
                    b = np.uint64(x) + one
            else:
                # no branch depends on the data: a wrong guess costs more than the eight steps
                bit = n_bits
                while bit > zero:
                    bit -= one
                    b += np.uint64(edges[j, b + (one << bit) - one] < x) << bit
                b = (b + one) * np.uint64(x == x)
            if is_narrow:
                narrow[(start + i) * n_bytes + place] = b
            else:
                wide[(start + i) * n_wide + place] = b


@kernel
def _copy_columns(narrow, n_bytes, n, begin, end, columns):
    """Copy rows begin..end−1 of a row-wise table to its columns, a few rows at a time that stay in the cache."""
    for start in range(begin, end, _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, end)
        for j in range(columns.size // n):
            for i in range(start, stop):
                columns[j * n + i] = narrow[i * n_bytes + j]


def content_hash(
    bins: Bins, column: npt.NDArray[np.int64], n_rows: int, counts: npt.NDArray[np.uint16] | None
) -> npt.NDArray[np.uint64]:
    """A number for each feature that tells it from the others by its bins alone, shape (p,).

    It decides ties, so it must not depend on the order of the columns or rows, nor on whether a row comes twice or
    with a weight of two: a row is known by the sum of its bins' hashes, a feature by the sum of its (row, bin) hashes.
    """
    content = np.zeros(len(column), dtype=np.uint64)
    _hash_columns(
        bins, column, min(n_rows, _HASHED_ROWS), np.empty(0, np.uint16) if counts is None else counts, content
    )
    return content


@kernel
def _hash_columns(bins, column, n_rows, counts, content):
    """Fill content[j] with the sum of hashes of feature j's bins; see `content_hash`."""
    n_wide = bins.wide_offset.size
    for row in range(n_rows):
        key = np.uint64(0)
        times = np.uint64(1)
        if counts.size > 0:
            times = np.uint64(counts[row])
        for step in range(2):
            for j in range(column.size):
                if column[j] >= 0:
                    b = np.uint64(bins.narrow[row * bins.n_bytes + column[j]])
                else:
                    b = np.uint64(bins.wide[row * n_wide - 1 - column[j]])
                if step == 0:
                    key += hash64(np.uint64(0), b)
                else:
                    content[j] += times * hash64(key, b)
