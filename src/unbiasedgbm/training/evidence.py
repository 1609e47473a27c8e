"""Running evidence: what earlier trees have learned of each feature and of each node size.

How much a feature's honest score says in one node is noisy, but the same features are judged in hundreds of nodes. The
bonus of a feature is the z-score of its evidence over the last trees, within ±2, times a weight by the table's rows.
The bonus of a node size is twice its z-score, within ±12: where splits of that size have helped before, more of them
are tried, where not, fewer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unbiasedgbm.kernels import kernel

# Trees that the memory reaches back, and trees before a bonus is given.
MEMORY = 30
WARM_UP = 5

MAX_FEATURE_Z = 2.0

# Rows of a table up to which a feature's bonus is its z-score, and the most that it may be multiplied by.
_BONUS_ROWS = 4000
_MOST_WEIGHT = 8.0

MAX_NODE_Z = 6.0
NODE_FACTOR = 2.0
N_BUCKETS = 32

FloatArray = npt.NDArray[np.float64]


@dataclass
class EvidenceMemory:
    """Running mean and mean square of the evidence of one output's trees.

    Attributes
    ----------
    n_trees : int
    mean, square : ndarrays of shape (p + N_BUCKETS,), float64
        Of each feature, then of each node size, by the logarithm of the node's rows.
    """

    n_trees: int
    mean: FloatArray
    square: FloatArray

    @classmethod
    def empty(cls, n_features: int) -> EvidenceMemory:
        """Nothing known yet."""
        return cls(0, np.zeros(n_features + N_BUCKETS), np.zeros(n_features + N_BUCKETS))

    def copy(self) -> EvidenceMemory:
        """A memory of its own."""
        return EvidenceMemory(self.n_trees, self.mean.copy(), self.square.copy())

    def learn(self, found: FloatArray) -> None:
        """Take in the evidence of one more tree, shape (p + N_BUCKETS,)."""
        self.n_trees += 1
        _learn(found, float(min(self.n_trees, MEMORY)), self.mean, self.square)

    def bonus(self, weight: float, price: float = 0.0) -> FloatArray:
        """What is added to the score of each feature and of each node size, shape (p + N_BUCKETS,).

        Parameters
        ----------
        weight : float
            Of features; see `bonus_weight`.
        price : float, default=0
            What every node size has less.
        """
        bonus = np.empty(len(self.mean))
        n_known = float(min(self.n_trees, MEMORY)) if self.n_trees >= WARM_UP else 0.0
        _bonus(self.mean, self.square, n_known, weight, price, bonus)
        return bonus


def bonus_weight(n_rows: float, n_outputs: int) -> float:
    """What the z-score of a feature counts: in a large table more, by the square root of its rows.

    What a useful feature scores in a node grows with the node's rows, and what chance adds to that with the square root
    of it. So must a bonus that is to tell features apart. Where every class has trees of its own it does harm.
    """
    return min(math.sqrt(max(n_rows / _BONUS_ROWS, 1.0)), _MOST_WEIGHT) if n_outputs == 1 else 1.0


# Both are compiled, because twenty NumPy calls on fifty numbers take longer than many a tree's histograms.


@kernel
def _learn(found, n, mean, square):
    """Move running means towards what one more tree has found, as the nth."""
    for j in range(found.size):
        mean[j] += (found[j] - mean[j]) / n
        square[j] += (found[j] * found[j] - square[j]) / n


@kernel
def _bonus(mean, square, n, weight, price, out):
    """Fill in z-scores of n trees, within bounds; zeros if there are none."""
    for j in range(mean.size):
        z = 0.0
        if n > 0.0:
            variance = (square[j] - mean[j] * mean[j]) / n
            # a variance that is rounding error of its parts is none
            z = 0.0 if variance <= 1e-12 * square[j] else mean[j] / np.sqrt(variance)
        if j < mean.size - N_BUCKETS:
            out[j] = weight * min(max(z, -MAX_FEATURE_Z), MAX_FEATURE_Z)
        else:
            out[j] = NODE_FACTOR * min(max(z, -MAX_NODE_Z), MAX_NODE_Z) - price
