"""UnbiasedGBM: boosting and feature importance judged by rows that did not choose the splits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unbiasedgbm._version import __version__

if TYPE_CHECKING:
    from unbiasedgbm.callbacks.tuning import suggest_params
    from unbiasedgbm.ensemble.adapters import ModelMismatchError, UnsupportedModelError
    from unbiasedgbm.estimators import UnbiasedGBMClassifier, UnbiasedGBMRegressor
    from unbiasedgbm.files.model_file import load_model
    from unbiasedgbm.importance import (
        FewUsableSplitsWarning,
        Importance,
        ImportanceComparison,
        TrainingRowsWarning,
        UnbiasedGainSelector,
        compare_importances,
        cross_unbiased_gain,
        gain_importance,
        permutation_importance,
        shap_importance,
        split_importance,
        unbiased_gain,
    )
    from unbiasedgbm.memory import estimate_memory
    from unbiasedgbm.precompile import warmup
    from unbiasedgbm.report.page import write_report

_HOMES = {
    "UnbiasedGBMClassifier": "unbiasedgbm.estimators",
    "UnbiasedGBMRegressor": "unbiasedgbm.estimators",
    "estimate_memory": "unbiasedgbm.memory",
    "FewUsableSplitsWarning": "unbiasedgbm.importance",
    "TrainingRowsWarning": "unbiasedgbm.importance",
    "Importance": "unbiasedgbm.importance",
    "ImportanceComparison": "unbiasedgbm.importance",
    "UnbiasedGainSelector": "unbiasedgbm.importance",
    "compare_importances": "unbiasedgbm.importance",
    "cross_unbiased_gain": "unbiasedgbm.importance",
    "gain_importance": "unbiasedgbm.importance",
    "permutation_importance": "unbiasedgbm.importance",
    "shap_importance": "unbiasedgbm.importance",
    "split_importance": "unbiasedgbm.importance",
    "unbiased_gain": "unbiasedgbm.importance",
    "ModelMismatchError": "unbiasedgbm.ensemble.adapters",
    "UnsupportedModelError": "unbiasedgbm.ensemble.adapters",
    "load_model": "unbiasedgbm.files.model_file",
    "suggest_params": "unbiasedgbm.callbacks.tuning",
    "warmup": "unbiasedgbm.precompile",
    "write_report": "unbiasedgbm.report.page",
}

__all__ = [
    "FewUsableSplitsWarning",
    "Importance",
    "ImportanceComparison",
    "ModelMismatchError",
    "TrainingRowsWarning",
    "UnbiasedGBMClassifier",
    "UnbiasedGBMRegressor",
    "UnbiasedGainSelector",
    "UnsupportedModelError",
    "__version__",
    "compare_importances",
    "cross_unbiased_gain",
    "estimate_memory",
    "gain_importance",
    "load_model",
    "permutation_importance",
    "shap_importance",
    "split_importance",
    "suggest_params",
    "unbiased_gain",
    "warmup",
    "write_report",
]


if not TYPE_CHECKING:  # a type checker would take any name for granted

    def __getattr__(name: str) -> Any:
        """Import a public name when it is asked for: importing the package itself costs nothing."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
