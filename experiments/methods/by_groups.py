"""UnbiasedGBM that is told which rows belong together."""

from __future__ import annotations

from typing import ClassVar

from experiments.methods.evidence import Evidence


class ByGroups(Evidence):
    """Our default, with roles that are drawn for groups of rows."""

    name = "unbiasedgbm_by_groups"
    title = "UnbiasedGBM by groups"
    tuned = False
    takes_groups: ClassVar[bool] = True
