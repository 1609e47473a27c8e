"""One large node on all threads of a station; small ones are done side by side, by `kernels.answer_splits`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.training.histogram import add_rows_alone
from unbiasedgbm.training.partition import place_rows_alone, split_rows_alone
from unbiasedgbm.training.shard import BLOCK_ROWS, Shard

IntArray = npt.NDArray[np.int64]


def divide(shard: Shard, begin: int, count: IntArray, rule: tuple[Any, ...]) -> IntArray:
    """Divide the rows from ``begin`` on, so many of each role; returns those of each role that went left.

    Parameters
    ----------
    rule : tuple
        The first arguments of `partition.split_rows`.
    """
    segments = []
    at = begin
    for role in range(4):
        n = int(count[role])
        n_parts = max(1, min(shard.pool.n_threads, n // BLOCK_ROWS))
        edges = [at + n * k // n_parts for k in range(n_parts + 1)]
        segments += [(role, first, last) for first, last in pairwise(edges) if last > first]
        at += n
    n_left = shard.pool.run(
        split_rows_alone, [(*rule, shard.rows, first, last, shard.spare) for _, first, last in segments]
    )
    left = np.zeros(4, np.int64)
    for (role, _, _), k in zip(segments, n_left, strict=True):
        left[role] += k
    left_at = begin
    right_at = begin + int(left.sum())
    moves = []
    for (_, first, last), k in zip(segments, n_left, strict=True):
        moves.append((shard.spare, first, last, k, shard.rows, left_at, right_at))
        left_at += k
        right_at += last - first - k
    shard.pool.run(place_rows_alone, moves)
    return left


def histogram(shard: Shard, begin: int, count: IntArray, parts: IntArray, out: IntArray) -> None:
    """Histogram of the rows from ``begin`` on: every thread adds up a share of them, then shares are added up.

    Parameters
    ----------
    count : ndarray of shape (4,), int64
        Rows of each role.
    parts : ndarray of shape (n_threads - 1, n_roles * hist_size), int64
        Room for the shares of all threads but one.
    out : ndarray of shape (n_roles * hist_size,), int64
        Filled.
    """
    size, n_roles = shard.layout.hist_size, shard.layout.n_roles
    ends = begin + np.cumsum(count[:n_roles])
    n = int(ends[-1]) - begin
    n_parts = shard.pool.n_threads

    def one(k: int, part: IntArray) -> None:
        part[:] = 0
        low, high = begin + n * k // n_parts, begin + n * (k + 1) // n_parts
        start = begin
        for role in range(n_roles):
            stop = int(ends[role])
            first, last = max(low, start), min(high, stop)
            if last > first:
                add_rows_alone(shard.bins, shard.packed, shard.rows, first, last, part, role * size)
            start = stop

    shard.pool.run(one, list(enumerate([out, *parts])))
    for part in parts:
        out += part
