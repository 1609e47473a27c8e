"""One way to call every booster: the same leaves, bins, trees and threads, and no leaf is stopped early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Model = Any


@dataclass(frozen=True)
class Size:
    """A table and the ensemble to fit on it."""

    rows: int
    features: int
    leaves: int = 31
    trees: int = 50
    threads: int = 1
    bins: int = 255


def make_table(rows: int, features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal features and a binary target that needs four of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    logit = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    return X, (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.int64)


def at_defaults(name: str, threads: int) -> Model:
    """A booster as it comes, but for its threads."""
    import catboost
    import lightgbm
    import xgboost
    from sklearn.ensemble import HistGradientBoostingClassifier

    from unbiasedgbm import UnbiasedGBMClassifier

    makers: dict[str, Callable[[], Model]] = {
        "UnbiasedGBM": lambda: UnbiasedGBMClassifier(n_jobs=threads),
        "LightGBM": lambda: lightgbm.LGBMClassifier(n_jobs=threads, verbose=-1),
        "XGBoost hist": lambda: xgboost.XGBClassifier(n_jobs=threads),
        "CatBoost": lambda: catboost.CatBoostClassifier(thread_count=threads, verbose=False, allow_writing_files=False),
        "scikit-learn HGB": lambda: HistGradientBoostingClassifier(),
    }
    return makers[name]()


def _ours(size: Size, **more: Any) -> Model:
    from unbiasedgbm import UnbiasedGBMClassifier

    return UnbiasedGBMClassifier(
        n_estimators=size.trees, num_leaves=size.leaves, max_bins=size.bins, n_jobs=size.threads, learning_rate=0.1,
        min_split_gain=-np.inf, n_bags=1, linear_start=False, **more,
    )  # fmt: skip


def _lightgbm(size: Size) -> Model:
    import lightgbm

    return lightgbm.LGBMClassifier(
        n_estimators=size.trees, num_leaves=size.leaves, max_bin=size.bins, n_jobs=size.threads, learning_rate=0.1,
        min_child_samples=5, min_split_gain=0.0, verbose=-1,
    )  # fmt: skip


def _xgboost(size: Size) -> Model:
    import xgboost

    return xgboost.XGBClassifier(
        n_estimators=size.trees, max_leaves=size.leaves, max_depth=0, grow_policy="lossguide", tree_method="hist",
        max_bin=size.bins, n_jobs=size.threads, learning_rate=0.1,
    )  # fmt: skip


def _catboost(size: Size) -> Model:
    import catboost

    return catboost.CatBoostClassifier(
        iterations=size.trees, max_leaves=size.leaves, grow_policy="Lossguide", border_count=size.bins - 1, depth=16,
        thread_count=size.threads, learning_rate=0.1, verbose=False, allow_writing_files=False,
    )  # fmt: skip


def _sklearn(size: Size) -> Model:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=size.trees, max_leaf_nodes=size.leaves, max_bins=size.bins, learning_rate=0.1, min_samples_leaf=5,
        early_stopping=False,
    )  # fmt: skip


PEERS: dict[str, Callable[[Size], Model]] = {
    "LightGBM": _lightgbm,
    "XGBoost hist": _xgboost,
    "CatBoost": _catboost,
    "scikit-learn HGB": _sklearn,
}

OURS: dict[str, Callable[[Size], Model]] = {
    "UnbiasedGBM": _ours,
    "UnbiasedGBM standard": lambda size: _ours(size, split_rule="standard"),
}
