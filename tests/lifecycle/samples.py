"""Small tables and models that the tests of a model's life share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor


def mixed_table(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Numbers and categories, both with missing values, under names that files find hard."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "größe": rng.normal(size=n),
            "色": pd.Categorical(rng.choice(list("abcdefgh"), n)),
            'say "x"\\n': rng.integers(0, 6, n).astype(float),
            "code": pd.Categorical(rng.integers(0, 90, n)),
        }
    )
    table.loc[rng.random(n) < 0.1, "größe"] = np.nan
    table.loc[rng.random(n) < 0.1, "色"] = None
    return table


def target(table: pd.DataFrame, seed: int = 1) -> np.ndarray:
    """A number that depends on all columns but the third."""
    rng = np.random.default_rng(seed)
    signal = table["色"].isin(["a", "c", "f"]) * (1.0 + table["größe"].fillna(0.5))
    return np.asarray(signal + (table["code"].astype(float) % 7 > 3) + 0.2 * rng.normal(size=len(table)))


def models(n: int = 400, n_estimators: int = 12, **params: Any) -> dict[str, tuple[Any, pd.DataFrame]]:
    """A fitted model of each kind, with its table."""
    table = mixed_table(n)
    y = target(table)
    params = {"n_estimators": n_estimators, "n_jobs": 1, "num_leaves": 8, **params}
    kinds = {
        "regression": (UnbiasedGBMRegressor(**params), y),
        "rate": (UnbiasedGBMRegressor(loss="poisson", **params), np.abs(y)),
        "binary": (UnbiasedGBMClassifier(**params), np.where(y > 0.8, "ja", "nein")),
        "multiclass": (UnbiasedGBMClassifier(**params), np.digitize(y, [0.3, 1.2])),
    }
    return {name: (model.fit(table, labels), table) for name, (model, labels) in kinds.items()}


def raw(model: Any, table: Any) -> np.ndarray:
    """Raw predictions, shape (n, n_outputs)."""
    answer = model.decision_function(table) if hasattr(model, "classes_") else model._raw(table, None)
    return np.asarray(answer).reshape(len(table), -1)
