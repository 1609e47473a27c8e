"""Wire: histograms on their way to another station, where they fit with half of their bytes.

A cell is a word of 64 bits with room for the sums of all rows (see `training.gradients`). The cells of a small node
need much less: those of a feature and role become words of 32 bits if the largest of each field together have room.

    [length, bits of the count, bits of the hessian, narrow] cell cell cell ... [length, ...] cell cell ...

Everything is a whole number, so what arrives is what was sent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import inline_kernel, kernel
from unbiasedgbm.training.gradients import G_SHIFT, LOW_MASK

IntArray = npt.NDArray[np.int64]

# Where the parts of a header begin.
_COUNT_AT, _HESSIAN_AT, _NARROW_AT = 17, 22, 27

_HALF = np.int64(0xFFFFFFFF)


class Coded(NamedTuple):
    """Histograms as they are sent."""

    words: npt.NDArray[np.uint32]
    n: int
    """Histograms."""
    n_used: int
    """Cells of each."""
    bits: int
    """Of the count in a cell; see `training.gradients.Packing`."""

    def add_to(self, histograms: IntArray) -> None:
        """Add them to others, shape (n, n_used)."""
        # those that come by wire are of another type to numba
        words = np.frombuffer(self.words, np.uint32)
        words.flags.writeable = False
        if not decode(words, self.bits, histograms.reshape(-1)):
            raise ValueError("Histograms that have come from another station are damaged.")

    def plain(self) -> IntArray:
        """The histograms, shape (n, n_used)."""
        found = np.zeros((self.n, self.n_used), np.int64)
        self.add_to(found)
        return found


class Coder:
    """Encodes histograms, in memory that is used again.

    Parameters
    ----------
    length : ndarray of shape (p,), int64
        Cells of each feature, at most 65,536, in the order in which they lie; those of all roles are a histogram.
    n_roles : int
    """

    def __init__(self, length: IntArray, n_roles: int) -> None:
        self._length = np.tile(length, n_roles)
        self._words = np.empty(0, np.uint32)

    def encode(self, histograms: IntArray, bits: int) -> Coded:
        """Histograms as they are sent, until the next ones are encoded."""
        n, n_used = histograms.shape
        most = n * (2 * n_used + len(self._length))
        if len(self._words) < most:
            self._words = np.empty(most, np.uint32)
        end = encode(histograms.reshape(-1), n, self._length, bits, self._words)
        return Coded(self._words[:end], n, n_used, bits)


@inline_kernel
def _n_bits(x):
    """Bits that a number needs which is not negative."""
    n = np.int64(0)
    while x > 0:
        x >>= 1
        n += 1
    return n


@kernel
def encode(cells, n, length, bits, words):
    """Encode ``n`` histograms, the features and roles of each one after another; returns the number of words.

    Parameters
    ----------
    cells : ndarray of shape (n * sum(length),), int64
    length : ndarray of shape (n_parts,), int64
        Of each feature and role.
    bits : int
        Of the count.
    words : ndarray, uint32
        Filled.
    """
    at = np.uint64(0)
    to = np.uint64(0)
    count_mask = (np.int64(1) << bits) - 1
    for _ in range(n):
        for part in range(length.size):
            m = np.uint64(length[part])
            any_g = np.int64(0)
            any_low = np.int64(0)
            for c in range(m):
                cell = cells[at + c]
                g = cell >> G_SHIFT
                any_g |= g ^ (g >> 63)
                any_low |= cell & LOW_MASK
            h_bits = _n_bits(any_low >> bits)
            c_bits = _n_bits(any_low & count_mask)
            narrow = 1 + _n_bits(any_g) + h_bits + c_bits <= 32
            words[to] = np.uint32(m) | np.uint32(c_bits << _COUNT_AT | h_bits << _HESSIAN_AT | narrow << _NARROW_AT)
            to += np.uint64(1)
            if narrow:
                for c in range(m):
                    cell = cells[at + c]
                    low = ((cell & LOW_MASK) >> bits) << c_bits | (cell & count_mask)
                    words[to + c] = np.uint32(((cell >> G_SHIFT) << (h_bits + c_bits) | low) & _HALF)
                to += m
            else:
                for c in range(m):
                    words[to + c] = np.uint32(cells[at + c] & _HALF)
                    words[to + m + c] = np.uint32((cells[at + c] >> 32) & _HALF)
                to += m + m
            at += m
    return np.int64(to)


@kernel
def decode(words, bits, cells):
    """Add what was encoded to cells; returns whether these are as many as were encoded.

    Parameters
    ----------
    words : ndarray of shape (n_words,), uint32
    bits : int
        Of the count.
    cells : ndarray, int64
    """
    at = np.uint64(0)
    to = np.uint64(0)
    end, n_cells = np.uint64(words.size), np.uint64(cells.size)
    while at < end:
        header = np.int64(words[at])
        m = np.uint64(header & ((1 << _COUNT_AT) - 1))
        c_bits = (header >> _COUNT_AT) & 31
        h_bits = (header >> _HESSIAN_AT) & 31
        narrow = header >> _NARROW_AT != 0
        at += np.uint64(1)
        if to + m > n_cells or at + (m if narrow else m + m) > end:
            return False
        if narrow:
            c_mask = (np.int64(1) << c_bits) - 1
            h_mask = (np.int64(1) << h_bits) - 1
            for c in range(m):
                word = np.int64(np.int32(words[at + c]))
                g = word >> (h_bits + c_bits)
                cells[to + c] += (g << G_SHIFT) + (((word >> c_bits) & h_mask) << bits) + (word & c_mask)
            at += m
        else:
            for c in range(m):
                cells[to + c] += np.int64(words[at + c]) | (np.int64(words[at + m + c]) << 32)
            at += m + m
        to += m
    return to == n_cells
