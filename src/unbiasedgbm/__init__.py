"""UnbiasedGBM: boosting and feature importance judged by rows that did not choose the splits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unbiasedgbm._version import __version__

if TYPE_CHECKING:
    from unbiasedgbm.callbacks.tuning import suggest_params
    from unbiasedgbm.estimators import UnbiasedGBMClassifier, UnbiasedGBMRegressor
    from unbiasedgbm.files.model_file import load_model
    from unbiasedgbm.memory import estimate_memory
    from unbiasedgbm.precompile import warmup
    from unbiasedgbm.report.page import write_report

_HOMES = {
    "UnbiasedGBMClassifier": "unbiasedgbm.estimators",
    "UnbiasedGBMRegressor": "unbiasedgbm.estimators",
    "estimate_memory": "unbiasedgbm.memory",
    "load_model": "unbiasedgbm.files.model_file",
    "suggest_params": "unbiasedgbm.callbacks.tuning",
    "warmup": "unbiasedgbm.precompile",
    "write_report": "unbiasedgbm.report.page",
}

__all__ = [
    "UnbiasedGBMClassifier",
    "UnbiasedGBMRegressor",
    "__version__",
    "estimate_memory",
    "load_model",
    "suggest_params",
    "warmup",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: importing the package itself costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
