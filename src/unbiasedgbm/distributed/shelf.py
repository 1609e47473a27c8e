"""Shelf: histograms of nodes, in memory that is used again and again.

Memory that is new to a process takes longer to fill than histograms take to add up, and every tree needs hundreds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


class Shelf:
    """Histograms of nodes by their paths.

    Parameters
    ----------
    n : int
        Histograms that there is room for.
    size : int
        Cells of a histogram.
    used : ndarray or slice
        Cells that can hold anything, which are all that is put here; see `tree_rows.used_cells`.

    Attributes
    ----------
    cells : ndarray of shape (n, size), int64
        What is not used holds anything.
    """

    def __init__(self, n: int, size: int, used: npt.NDArray[np.intp] | slice) -> None:
        self.cells = np.empty((n, size), np.int64)
        self._used = used
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

    def put(self, path: int, used_cells: IntArray) -> None:
        """Add a node's histogram."""
        place = self._place[path] = self._free.pop()
        self.cells[place, self._used] = used_cells

    def subtract(self, path: int, known: int, other: int) -> None:
        """A node's histogram becomes that of a child, by taking away that of the other one, which is known."""
        place = self._place[other] = self._place.pop(path)
        self.cells[place] -= self[known]

    def drop(self, path: int) -> None:
        """Forget a node's histogram, if it is here."""
        if path in self._place:
            self._free.append(self._place.pop(path))
