"""UnbiasedGBM: boosting and feature importance judged by rows that did not choose the splits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unbiasedgbm._version import __version__

if TYPE_CHECKING:
    from unbiasedgbm.estimators import UnbiasedGBMClassifier, UnbiasedGBMRegressor

_HOMES = {
    "UnbiasedGBMClassifier": "unbiasedgbm.estimators",
    "UnbiasedGBMRegressor": "unbiasedgbm.estimators",
}

__all__ = ["UnbiasedGBMClassifier", "UnbiasedGBMRegressor", "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: importing the package itself costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
