"""Check that a change of the engine leaves models as they are: `python -m tools.model_bytes record|compare FILE`.

``record`` trains varied models and writes a digest of each to FILE; ``compare`` trains them again and names those that
have changed. Digests depend on the processor and on NumPy's version as far as ``exp`` and ``log`` do, so a file is for
one machine and is not committed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor


def table(n_rows: int = 3000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, missing values, a small and a wide category, and a signal in them."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "b": rng.exponential(size=n_rows),
            "gaps": np.where(rng.random(n_rows) < 0.3, np.nan, rng.normal(size=n_rows)),
            "few": pd.Categorical(rng.choice(list("xyz"), n_rows)),
            "many": pd.Categorical(rng.integers(0, 300, n_rows).astype(str)),
            "flag": rng.integers(0, 2, n_rows),
        }
    )
    signal = X["a"] + np.sin(2 * X["b"]) + (X["few"] == "x") + 0.5 * np.nan_to_num(X["gaps"]) * X["flag"]
    return X, signal.to_numpy() + rng.normal(size=n_rows)


def _regressor(**options: Any) -> Any:
    return UnbiasedGBMRegressor(n_estimators=12, random_state=0, **options)


def _classifier(**options: Any) -> Any:
    return UnbiasedGBMClassifier(n_estimators=12, random_state=0, **options)


def fits() -> dict[str, Callable[[], Any]]:
    """Untrained and trained: every case is a function that returns a fitted estimator."""
    X, y = table()
    rng = np.random.default_rng(1)
    weight, groups = rng.uniform(0.5, 2.0, len(y)), np.arange(len(y)) // 7
    positive, classes = np.exp(0.3 * y), np.digitize(y, np.quantile(y, [0.3, 0.6, 0.8]))
    large, y_large = table(40_000, 2)
    wide = rng.normal(size=(200, 500))
    return {
        "regression": lambda: _regressor().fit(X, y),
        "binary": lambda: _classifier().fit(X, y > 0),
        "four classes": lambda: _classifier().fit(X, classes),
        **{f"rule {rule}": lambda rule=rule: _classifier(split_rule=rule).fit(X, y > 0) for rule in
           ("merged", "separate", "without_se", "without_ub", "standard")},
        **{f"loss {loss}": lambda loss=loss: _regressor(loss=loss).fit(X, positive) for loss in
           ("absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie")},
        "weights": lambda: _regressor().fit(X, y, sample_weight=weight),
        "whole weights, standard": lambda: _regressor(split_rule="standard").fit(X, y, sample_weight=np.ceil(weight)),
        "groups": lambda: _classifier().fit(X, y > 0, groups=groups),
        "one chain, no line": lambda: _regressor(n_bags=1, linear_start=False).fit(X, y),
        "constraints": lambda: _regressor(monotonic_cst={"a": 1}, interaction_cst=[["a", "b"]]).fit(X, y),
        "sampling": lambda: _classifier(subsample=0.7, colsample_bytree=0.6, colsample_bynode=0.8).fit(X, y > 0),
        "validation rows": lambda: _regressor().fit(X[:2000], y[:2000], X_val=X[2000:], y_val=y[2000:]),
        "40,000 rows": lambda: _classifier().fit(large, y_large > 0),
        "wide": lambda: _classifier().fit(wide, wide[:, 0] > 0),
        "few rows": lambda: _regressor().fit(X[:60], y[:60]),
    }  # fmt: skip


def digest(model: Any) -> str:
    """SHA-256 of the trees."""
    found = hashlib.sha256()
    for field in fields(model.ensemble_):
        found.update(np.ascontiguousarray(getattr(model.ensemble_, field.name)).tobytes())
    return found.hexdigest()


def main() -> int:
    """Record or compare; returns 1 if a model has changed."""
    action, path = sys.argv[1], Path(sys.argv[2])
    found = {name: digest(fit()) for name, fit in fits().items()}
    if action == "record":
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{len(found)} models")
        return 0
    known = json.loads(path.read_text())
    changed = [name for name in found if found[name] != known.get(name)]
    print("\n".join(f"changed: {name}" for name in changed) or f"{len(found)} models, none has changed")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
