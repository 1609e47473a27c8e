"""Running evidence: what earlier trees have learned of each feature and of each node size.

How much a feature's honest score says in one node is noisy, but the same features are judged in hundreds of nodes. The
bonus of a feature is the z-score of its evidence over the last trees, within ±2. The bonus of a node size is twice its
z-score, within ±12: where splits of that size have helped before, more of them are tried, where not, fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

# Trees that the memory reaches back, and trees before a bonus is given.
MEMORY = 30
WARM_UP = 5

MAX_FEATURE_Z = 2.0
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
        n = min(self.n_trees, MEMORY)
        self.mean += (found - self.mean) / n
        self.square += (found * found - self.square) / n

    def bonus(self) -> FloatArray:
        """What is added to the score of each feature and of each node size, shape (p + N_BUCKETS,)."""
        if self.n_trees < WARM_UP:
            return np.zeros_like(self.mean)
        variance = (self.square - self.mean * self.mean) / min(self.n_trees, MEMORY)
        # a variance that is rounding error of its parts is none
        variance[variance <= 1e-12 * self.square] = np.inf
        z = self.mean / np.sqrt(variance)
        z[-N_BUCKETS:] *= NODE_FACTOR
        return np.minimum(np.maximum(z, -self._most), self._most)

    @cached_property
    def _most(self) -> FloatArray:
        """The largest bonus of each feature and of each node size."""
        most = np.full(len(self.mean), MAX_FEATURE_Z)
        most[-N_BUCKETS:] = MAX_NODE_Z * NODE_FACTOR
        return most
