"""Brief: what must be known of a fit to grow its trees."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from unbiasedgbm.binning import BinMapper
from unbiasedgbm.losses import Loss
from unbiasedgbm.training.shard import Layout
from unbiasedgbm.training.workspace import TrainingParameters


@dataclass(frozen=True)
class Facts:
    """What is known of all training and validation rows.

    Attributes
    ----------
    n, n_rows, weighted, counted, max_weight
        As in `training.workspace.Rows`.
    n_watched : int
        Validation rows.
    watched_weighted : bool
    """

    n: int
    n_rows: int
    weighted: bool
    counted: bool
    max_weight: float
    n_watched: int
    watched_weighted: bool


@dataclass(frozen=True)
class Brief:
    """All that does not change in a fit.

    Attributes
    ----------
    parameters : TrainingParameters
    facts : Facts
    loss : Loss
    mapper : BinMapper
    layout : Layout
    n_lanes : int
        Trees that are grown at the same time.
    features : ndarray of shape (p,), FEATURE
    groups : ndarray of shape (n_groups, p), uint8
        Interaction groups.
    """

    parameters: TrainingParameters
    facts: Facts
    loss: Loss
    mapper: BinMapper
    layout: Layout
    n_lanes: int
    features: npt.NDArray[np.void]
    groups: npt.NDArray[np.uint8]

    def unpacked(self) -> Brief:
        """The same, with arrays that may be written to; those that come by wire are of another type to numba."""
        layout = self.layout._replace(share=self.layout.share.copy())
        return replace(self, layout=layout, features=self.features.copy(), groups=self.groups.copy())
