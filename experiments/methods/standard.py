"""Our engine with the usual split rule."""

from __future__ import annotations

from typing import Any, ClassVar

from experiments.methods.ours import PAPER, UnbiasedGBMVariant


class Standard(UnbiasedGBMVariant):
    """What XGBoost and LightGBM do, in our engine: the control that isolates the rule."""

    name = "standard"
    title = "UnbiasedGBM (standard)"
    fixed: ClassVar[dict[str, Any]] = {**PAPER, "split_rule": "standard"}
