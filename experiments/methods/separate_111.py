"""UnbiasedGBM by the paper's Algorithm 1."""

from __future__ import annotations

from typing import Any, ClassVar

from experiments.methods.ours import PAPER, UnbiasedGBMVariant


class Separate111(UnbiasedGBMVariant):
    """Algorithm 1: three sets of rows of equal size."""

    name = "separate_111"
    title = "UnbiasedGBM (1:1:1)"
    fixed: ClassVar[dict[str, Any]] = {**PAPER, "split_rule": "separate", "role_ratio": (1, 1, 1)}
