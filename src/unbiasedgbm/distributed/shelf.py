"""Shelf: histograms of nodes, in memory that is used again and again.

Memory that is new to a process takes longer to fill than histograms take to add up, and every tree needs hundreds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unbiasedgbm.distributed.kernels import Arrivals
from unbiasedgbm.distributed.tree_rows import used_runs

IntArray = npt.NDArray[np.int64]


class Shelf:
    """Histograms of nodes by their paths.

    Parameters
    ----------
    n : int
        Histograms that there is room for.
    size : int
        Cells of a histogram.
    n_roles : int
        In whose order they are.
    used : ndarray or slice
        Cells that can hold anything, which are all that is put here; see `tree_rows.used_cells`.

    Attributes
    ----------
    cells : ndarray of shape (n, size), int64
        What is not used holds anything.
    """

    def __init__(self, n: int, size: int, n_roles: int, used: npt.NDArray[np.intp] | slice) -> None:
        self.cells = np.empty((n, size), np.int64)
        self._used = used
        self._role_size = size // n_roles
        self._runs = used_runs(np.arange(size)[used], self._role_size)
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._place: dict[int, int] = {}
        self._free = list(range(len(self.cells) - 1, -1, -1))

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, path: int) -> bool:
        return path in self._place

    def __getitem__(self, path: int) -> IntArray:
        """Cells of a node's histogram."""
        return self.cells[self._place[path]]

    def paths(self) -> list[int]:
        """Nodes whose histograms are here, those that came first before others."""
        return list(self._place)

    def places(self, paths: list[int]) -> IntArray:
        """Rows of `cells` where the histograms of nodes are."""
        return np.array([self._place[path] for path in paths], np.int64)

    def reserve(self, path: int) -> int:
        """A place for a node's histogram."""
        place = self._place[path] = self._free.pop()
        return place

    def inherit(self, path: int, child: int) -> int:
        """The place of a node's histogram, which is a child's from now on."""
        place = self._place[child] = self._place.pop(path)
        return place

    def put(self, path: int, used_cells: IntArray) -> None:
        """Add a node's histogram."""
        self.cells[self.reserve(path), self._used] = used_cells

    def arrivals(self, cells: IntArray, number: list[int], sibling: list[int]) -> Arrivals:
        """Histograms that have come, of which `find_splits` puts some here."""
        return Arrivals(cells, np.array(number, np.int64), np.array(sibling, np.int64), *self._runs)

    def take_in(self, paths: list[int], arrivals: Arrivals) -> None:
        """Put histograms in the places of their nodes, where nobody looks at these at once."""
        n_roles = self.cells.shape[1] // self._role_size
        arrived = arrivals.cells.reshape(-1, n_roles * int(arrivals.length.sum()))
        places = zip(self.places(paths), arrivals.number.tolist(), arrivals.sibling.tolist(), strict=True)
        for place, number, sibling in places:
            if number >= 0:
                self.cells[place, self._used] = arrived[number]
            else:
                self.cells[place] -= self.cells[sibling]

    def drop(self, path: int) -> None:
        """Forget a node's histogram, if it is here."""
        if path in self._place:
            self._free.append(self._place.pop(path))
