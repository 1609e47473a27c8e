"""Running evidence: what earlier trees have learned of each feature and of each node size.

How much a feature's honest score says in one node is noisy, but the same features are judged in hundreds of nodes. The
bonus of a feature is the z-score of its evidence over the last trees, within ±2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Trees that the memory reaches back, and trees before a bonus is given.
MEMORY = 30
WARM_UP = 5

MAX_BONUS = 2.0
NODE_FACTOR = 2.0
N_BUCKETS = 32

FloatArray = npt.NDArray[np.float64]


@dataclass
class EvidenceMemory:
    """Running mean and mean square of the evidence of one output's trees.

    Attributes
    ----------
    n_trees : int
    mean, square : ndarrays of shape (p,), float64
    node_mean, node_square : ndarrays of shape (N_BUCKETS,), float64
        By the logarithm of a node's rows.
    """

    n_trees: int
    mean: FloatArray
    square: FloatArray
    node_mean: FloatArray
    node_square: FloatArray

    @classmethod
    def empty(cls, n_features: int) -> EvidenceMemory:
        """Nothing known yet."""
        return cls(0, np.zeros(n_features), np.zeros(n_features), np.zeros(N_BUCKETS), np.zeros(N_BUCKETS))

    def copy(self) -> EvidenceMemory:
        """A memory of its own."""
        return EvidenceMemory(
            self.n_trees, self.mean.copy(), self.square.copy(), self.node_mean.copy(), self.node_square.copy()
        )

    def learn(self, found: FloatArray, node_found: FloatArray) -> None:
        """Take in the evidence of one more tree."""
        self.n_trees += 1
        n = min(self.n_trees, MEMORY)
        self.mean += (found - self.mean) / n
        self.square += (found * found - self.square) / n
        self.node_mean += (node_found - self.node_mean) / n
        self.node_square += (node_found * node_found - self.node_square) / n

    def bonus(self) -> FloatArray:
        """Added to a feature's score, shape (p,)."""
        return self._clipped_z(self.mean, self.square)

    def node_bonus(self) -> FloatArray:
        """Added to a node's score, shape (N_BUCKETS,)."""
        return NODE_FACTOR * self._clipped_z(self.node_mean, self.node_square)

    def _clipped_z(self, mean: FloatArray, square: FloatArray) -> FloatArray:
        if self.n_trees < WARM_UP:
            return np.zeros_like(mean)
        variance = (square - mean * mean) / min(self.n_trees, MEMORY)
        # a variance that is rounding error of its parts is none
        sure = variance > 1e-12 * square
        z = np.where(sure, mean / np.sqrt(np.where(sure, variance, 1.0)), 0.0)
        return np.clip(z, -MAX_BONUS, MAX_BONUS)
