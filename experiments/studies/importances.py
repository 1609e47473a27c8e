"""Four importances of one trained LightGBM model."""

from __future__ import annotations

import numpy as np

from experiments.methods import Fitted
from experiments.splits import Parts

IMPORTANCES = ("shap", "permutation", "gain", "unbiased_gain")
TITLES = {"shap": "SHAP", "permutation": "Permutation", "gain": "Gain importance", "unbiased_gain": "Unbiased gain"}
PERMUTATIONS = 5


def importance(kind: str, model: Fitted, parts: Parts, *, seed: int, threads: int) -> np.ndarray:
    """Return the importance of every feature, shape (p,).

    SHAP and gain use the training rows, as they are used in practice; permutation and unbiased gain use the validation
    rows as well. Every kind sees the same model and may look at the same rows.

    Parameters
    ----------
    kind : {"shap", "permutation", "gain", "unbiased_gain"}
    model : Fitted
        A LightGBM classifier of two classes, trained on ``parts.train``.
    parts : Parts
    seed : int
        Of the permutations.
    threads : int
    """
    columns = model.method.columns
    booster = model.estimator.booster_
    if kind == "gain":
        return booster.feature_importance("gain")
    if kind == "shap":
        contributions = booster.predict(columns(parts.train.X), pred_contrib=True, num_threads=threads)
        return np.abs(np.asarray(contributions)[:, :-1]).mean(axis=0)
    if kind == "permutation":
        from sklearn.inspection import permutation_importance

        held_out = columns(parts.valid.X), parts.valid.y
        options = {"scoring": "roc_auc", "n_repeats": PERMUTATIONS, "random_state": seed}
        return permutation_importance(model.estimator, *held_out, **options).importances_mean
    if kind == "unbiased_gain":
        from unbiasedgbm.importance.gain import unbiased_gain

        rows = columns(parts.train.X), parts.train.y, columns(parts.valid.X), parts.valid.y
        return unbiased_gain(model.estimator, *rows, n_jobs=threads).importance
    raise ValueError(f"kind must be one of {IMPORTANCES}, got {kind!r}")
