"""Feature importance judged by rows that did not choose the splits."""

from unbiasedgbm.importance.baselines import (
    gain_importance,
    permutation_importance,
    shap_importance,
    split_importance,
)
from unbiasedgbm.importance.comparison import ImportanceComparison, compare_importances
from unbiasedgbm.importance.crossfit import cross_unbiased_gain
from unbiasedgbm.importance.gain import FewUsableSplitsWarning, unbiased_gain
from unbiasedgbm.importance.leaks import TrainingRowsWarning
from unbiasedgbm.importance.result import Importance
from unbiasedgbm.importance.selection import UnbiasedGainSelector

__all__ = [
    "FewUsableSplitsWarning",
    "Importance",
    "ImportanceComparison",
    "TrainingRowsWarning",
    "UnbiasedGainSelector",
    "compare_importances",
    "cross_unbiased_gain",
    "gain_importance",
    "permutation_importance",
    "shap_importance",
    "split_importance",
    "unbiased_gain",
]
