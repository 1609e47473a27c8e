"""What the paper reports, to be put beside what was measured here."""

from __future__ import annotations

AVERAGE_RANKS = {"xgboost": 3.00, "lightgbm": 2.85, "catboost": 2.43, "merged": 1.72}
"""Over 60 data sets, after 100 tuning iterations; ``merged`` is the paper's UnbiasedGBM."""

NEMENYI_P = {"xgboost": 0.001, "lightgbm": 0.001, "catboost": 0.013}
"""Of UnbiasedGBM against each; 0.001 stands for "at most 0.001"."""

SELECTION_RANKS = {"shap": 3.14, "permutation": 2.71, "gain": 2.71, "unbiased_gain": 1.43}
"""Over 14 data sets."""

SELECTION_P = {"shap": 0.003, "permutation": 0.042, "gain": 0.042}

QSAR_AUC = {
    "lightgbm": {"": 0.779, "nHM": 0.772, "PCD": 0.787},
    "merged": {"": 0.809, "nHM": 0.797, "PCD": 0.811},
}
"""Test AUC with all features, without nHM, without PCD."""
