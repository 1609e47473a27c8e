"""Statistics of rows on a cluster: the same numbers as `exact.RowStatistics`, from integers of all stations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from unbiasedgbm.distributed.station import Step, key_value
from unbiasedgbm.exact import RowStatistics, Values, quantile_ranks

Ask = Callable[..., list[Any]]
"""Takes steps, returns their merged answers."""

# Numbers that one round of a selection asks for.
_EDGES = 1 << 18

_LAST = np.uint64((1 << 64) - 1)


class RemoteStatistics(RowStatistics):
    """Statistics of all training or validation rows.

    Parameters
    ----------
    ask : callable
    which : {"train", "watch"}, or the number of a bag
    n_rows : int
    weighted : bool
    """

    def __init__(self, ask: Ask, which: str, n_rows: int, weighted: bool) -> None:
        self._ask, self._which, self._n_rows, self._weighted = ask, which, n_rows, weighted
        self._weights_total: float | None = None

    def total(self, values: Values | None) -> float:
        """Weighted sum of ``values(y, raw)``; of the weights if there are no values."""
        scale = self._ask(("scale", (self._which, values)))[0]
        return scale.value(self._ask(("units", (self._which, values, scale)))[0])

    def mean(self, values: Values) -> float:
        """Weighted mean of ``values(y, raw)``."""
        total = self.total(values)
        if total == 0.0:
            return 0.0
        if not self._weighted:
            return total / float(self._n_rows)
        if self._weights_total is None:
            self._weights_total = self.total(None)
        return total / self._weights_total

    def quantile(self, values: Values, level: float) -> float:
        """Weighted quantile of ``values(y, raw)``."""
        scale = self._ask(("scale", (self._which, _ones)))[0] if self._weighted else None
        return float(quantiles(self._ask, ("rank_values", (self._which, values, scale)), 1, level)[0])


def _ones(y: Any, raw: Any) -> Any:
    return np.ones(len(y))


def quantiles(ask: Ask, rank: Step, n_groups: int, level: float) -> npt.NDArray[np.float64]:
    """A quantile of every group of rows; 0 for a group without rows, shape (n_groups,).

    Parameters
    ----------
    rank : Step
        Puts the rows of every station in order.
    """
    totals = ask(rank, ("below", (np.full((n_groups, 1), _LAST),)))[1][:, 0].tolist()
    ranks = np.array([quantile_ranks(level, total) if total else (0, 0) for total in totals])
    keys = select(ask, ranks)
    found = np.zeros(n_groups)
    for k in np.flatnonzero(totals).tolist():
        found[k] = 0.5 * (key_value(int(keys[k, 0])) + key_value(int(keys[k, 1])))
    return found


def select(ask: Ask, ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Smallest keys up to which the rows of a group weigh at least so much.

    The interval that holds a key is cut into many parts again and again, which takes a few rounds.

    Parameters
    ----------
    ranks : ndarray of shape (n_groups, n_ranks), int64

    Returns
    -------
    ndarray of shape (n_groups, n_ranks), uint64
    """
    low = np.zeros(ranks.shape, np.uint64)
    most = max(4, min(16, (_EDGES // max(ranks.size, 1)).bit_length() - 1))
    left = 64
    while left:
        bits = min(most, left)
        left -= bits
        # where the parts end; the last one of all wraps to the largest key
        step = np.arange(1, (1 << bits) + 1, dtype=np.uint64) << np.uint64(left)
        edges = low[..., None] + step - np.uint64(1)
        weight = ask(("below", (edges.reshape(len(ranks), -1),)))[0].reshape(edges.shape)
        part = (weight < ranks[..., None]).sum(axis=-1)
        low += np.minimum(part, (1 << bits) - 1).astype(np.uint64) << np.uint64(left)
    return low
