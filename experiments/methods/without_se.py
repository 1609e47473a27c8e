"""The paper's ablation without separation."""

from __future__ import annotations

from typing import Any, ClassVar

from experiments.methods.ours import PAPER, UnbiasedGBMVariant


class WithoutSE(UnbiasedGBMVariant):
    """Thresholds and feature are chosen by the same rows."""

    name = "without_se"
    title = "UnbiasedGBM w/o SE"
    fixed: ClassVar[dict[str, Any]] = {**PAPER, "split_rule": "without_se"}
