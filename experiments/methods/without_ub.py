"""The paper's ablation without unbiased gain."""

from __future__ import annotations

from typing import Any, ClassVar

from experiments.methods.ours import PAPER, UnbiasedGBMVariant


class WithoutUB(UnbiasedGBMVariant):
    """The split is judged by the rows that chose the feature, with their own gain."""

    name = "without_ub"
    title = "UnbiasedGBM w/o UB"
    fixed: ClassVar[dict[str, Any]] = {**PAPER, "split_rule": "without_ub"}
