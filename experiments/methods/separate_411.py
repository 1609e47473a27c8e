"""UnbiasedGBM by the paper's Algorithm 1, uneven."""

from __future__ import annotations

from typing import Any, ClassVar

from experiments.methods.ours import PAPER, UnbiasedGBMVariant


class Separate411(UnbiasedGBMVariant):
    """Algorithm 1 with most rows in the set that finds the thresholds."""

    name = "separate_411"
    title = "UnbiasedGBM (4:1:1)"
    fixed: ClassVar[dict[str, Any]] = {**PAPER, "split_rule": "separate", "role_ratio": (4, 1, 1)}
