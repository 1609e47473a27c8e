"""UnbiasedGBM with our default rule."""

from __future__ import annotations

from typing import Any, ClassVar

from experiments.methods.ours import UnbiasedGBMVariant


class Evidence(UnbiasedGBMVariant):
    """Our default: split choice by evidence gathered over trees."""

    name = "unbiasedgbm"
    title = "UnbiasedGBM"
    fixed: ClassVar[dict[str, Any]] = {}
