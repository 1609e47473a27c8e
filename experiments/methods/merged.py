"""UnbiasedGBM as in the paper's main experiments."""

from __future__ import annotations

from typing import Any, ClassVar

from experiments.methods.ours import PAPER, UnbiasedGBMVariant


class Merged(UnbiasedGBMVariant):
    """The paper's UnbiasedGBM: one set of rows both chooses the feature and judges the split (1:1+1)."""

    name = "merged"
    title = "UnbiasedGBM (paper)"
    fixed: ClassVar[dict[str, Any]] = {**PAPER, "split_rule": "merged"}
