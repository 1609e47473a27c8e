"""Compile everything ahead of time, so that no later call has to wait."""

from __future__ import annotations

import numpy as np


def warmup() -> None:
    """Compile all kernels and keep them on disk, where a folder for that can be written.

    Training, prediction and importance compile what they need at their first call, for a few seconds. Call this once
    after installing the library, for example while a container is built; or run ``unbiasedgbm warmup``. What is left to
    the first use: growing trees with ``role_draw="node"``, ``colsample_bynode`` or ``interaction_cst``.

    Examples
    --------
    >>> import unbiasedgbm
    >>> unbiasedgbm.warmup()
    """
    from unbiasedgbm.estimators import UnbiasedGBMClassifier, UnbiasedGBMRegressor
    from unbiasedgbm.importance import unbiased_gain

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    # more levels than a byte can tell apart, and fewer
    X[:, 2] = rng.permutation(400) % 300
    X[:, 3] = rng.integers(0, 5, 400)
    y = X[:, 0] + 0.1 * rng.normal(size=400)
    weight = rng.uniform(0.5, 1.5, 400)
    for rule, n_jobs, categories in (("evidence", 2, [2, 3]), ("separate", 1, [2, 3]), ("standard", 1, None)):
        model = UnbiasedGBMRegressor(n_estimators=2, split_rule=rule, categorical_features=categories, n_jobs=n_jobs)
        groups = np.arange(400) // 2 if rule == "separate" else None
        model.fit(X, y, weight, groups=groups, X_val=X[:50], y_val=y[:50]).predict(X)
        model.apply(X[:10])
    classifier = UnbiasedGBMClassifier(n_estimators=2, n_jobs=1).fit(X[:200], y[:200] > 0)
    unbiased_gain(classifier, X[:200], y[:200] > 0, X[200:], y[200:] > 0)
