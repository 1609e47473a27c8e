"""Measure what the documentation claims of the unbiased gain; writes validation.json beside this file.

    python docs/importance/validate.py [section ...]

and validation.md, the same numbers as tables.

Toy data of the paper: X1 binary, X2 with six levels, X3 normal, y = 0.1 X1 + noise (squared loss) or log odds of 0.1 X1
(log loss). Only X1 matters. Every repeat has its own seed, so every number can be had again. One process, one thread.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from unbiasedgbm.importance import FewUsableSplitsWarning, Importance, cross_unbiased_gain, unbiased_gain

LIBRARIES = ("lightgbm", "xgboost", "catboost", "sklearn")
LOSSES = ("squared", "log")


def toy(seed: int, n_rows: int, loss: str, strength: float = 0.1) -> tuple[Any, Any]:
    """Toy table (n_rows, 3) and target."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 2, n_rows), rng.integers(0, 6, n_rows), rng.normal(size=n_rows)])
    return X, _target(rng, strength * X[:, 0], loss)


def hard(seed: int, n_rows: int, loss: str, n_levels: int) -> tuple[pd.DataFrame, Any]:
    """One useful column and five kinds of noise that fool other importances."""
    rng = np.random.default_rng(seed)
    useful = rng.normal(size=n_rows)
    half_missing = np.where(rng.random(n_rows) < 0.5, np.nan, rng.normal(size=n_rows))
    noise = rng.normal(size=n_rows)
    X = pd.DataFrame(
        {
            "useful": useful,
            "half_missing": half_missing,
            "levels": pd.Categorical(rng.integers(0, n_levels, n_rows), categories=range(n_levels)),
            "id": np.arange(n_rows, dtype=np.float64),
            "noise": noise,
            "duplicate": noise,
        }
    )
    # The id must not tell training from held-out rows.
    X = X.iloc[rng.permutation(n_rows)].reset_index(drop=True)
    return X, _target(rng, 0.3 * X["useful"].to_numpy(), loss)


def _target(rng: Any, signal: Any, loss: str) -> Any:
    if loss == "squared":
        return signal + rng.normal(size=len(signal))
    return (rng.random(len(signal)) < 1.0 / (1.0 + np.exp(-signal))).astype(int)


def model_of(library: str, loss: str, n_trees: int, *, leaves: int = 8, categorical: bool = False) -> Any:
    """An untrained model with a learning rate of 0.1.

    With categories, rare levels are allowed and features are sampled at each node: otherwise the many levels are never
    split by LightGBM, and of two equal columns only the first one is.
    """
    squared = loss == "squared"
    if library == "lightgbm":
        cls = lightgbm.LGBMRegressor if squared else lightgbm.LGBMClassifier
        rare = {"min_data_per_group": 5, "cat_smooth": 1.0, "feature_fraction_bynode": 0.7} if categorical else {}
        return cls(n_estimators=n_trees, num_leaves=leaves, learning_rate=0.1, n_jobs=1, verbose=-1, **rare)
    if library == "xgboost":
        cls = xgboost.XGBRegressor if squared else xgboost.XGBClassifier
        return cls(
            n_estimators=n_trees,
            max_leaves=leaves,
            max_depth=0,
            grow_policy="lossguide",
            min_child_weight=20 if squared else 5,
            learning_rate=0.1,
            n_jobs=1,
            enable_categorical=categorical,
            colsample_bynode=0.7 if categorical else 1.0,
        )
    if library == "catboost":
        cls = catboost.CatBoostRegressor if squared else catboost.CatBoostClassifier
        return cls(
            iterations=n_trees,
            depth=int(np.log2(leaves)),
            learning_rate=0.1,
            thread_count=1,
            verbose=0,
            allow_writing_files=False,
            cat_features=["levels"] if categorical else None,
            # By its default score CatBoost hardly ever splits noise in a first tree, and there is nothing to test.
            score_function="L2",
        )
    cls = HistGradientBoostingRegressor if squared else HistGradientBoostingClassifier
    return cls(
        max_iter=n_trees,
        max_leaf_nodes=leaves,
        learning_rate=0.1,
        early_stopping=False,
        categorical_features="from_dtype",
        max_features=0.7 if categorical else 1.0,
        random_state=0,
    )


def null_rates(
    data: Callable[[int], tuple[Any, Any]], fresh_model: Callable[[], Any], n_repeats: int, **options: Any
) -> dict[str, dict[str, Any]]:
    """z-scores and rejections of every feature over repeats; half of each table trains, half judges.

    Repeats in which the model does not split a feature say nothing of it and do not count.
    """
    results = []
    for seed in range(n_repeats):
        X, y = data(seed)
        half = len(y) // 2
        model = fresh_model().fit(X[:half], y[:half])
        results.append(unbiased_gain(model, X[:half], y[:half], X[half:], y[half:], n_jobs=1, **options))
    return summary(results)


def summary(results: list[Importance]) -> dict[str, dict[str, Any]]:
    """z-scores of each feature and its rejection rate at 5 %, over the repeats in which it has a score."""
    table = {}
    for j, name in enumerate(results[0].feature_names):
        judged = [result for result in results if result.n_splits[j] > 0]
        z = np.array([result.z[j] for result in judged])
        table[name] = {
            "repeats": len(z),
            "mean_z": round(float(z.mean()), 4) if len(z) > 1 else None,
            "sd_z": round(float(z.std(ddof=1)), 4) if len(z) > 1 else None,
            "rejected": round(sum(result.p_value[j] < 0.05 for result in judged) / max(len(z), 1), 4),
        }
    return table


def one_tree(n_repeats: int = 2000, n_rows: int = 2000) -> dict[str, Any]:
    """Noise of one-tree models scores zero on average, with the stated standard error."""
    return {
        f"{library}, {loss}": null_rates(
            lambda seed, loss=loss: toy(seed, n_rows, loss),
            lambda library=library, loss=loss: model_of(library, loss, 1),
            n_repeats,
        )
        for library in LIBRARIES
        for loss in LOSSES
    }


def many_trees(n_repeats: int = 500, n_rows: int = 2000) -> dict[str, Any]:
    """Noise of thirty-tree models scores below zero: it was overfitted."""
    return {
        f"{library}, {loss}": null_rates(
            lambda seed, loss=loss: toy(seed, n_rows, loss),
            lambda library=library, loss=loss: model_of(library, loss, 30),
            n_repeats,
        )
        for library in LIBRARIES
        for loss in LOSSES
    }


def hard_noise(n_repeats: int = 500, n_rows: int = 2000) -> dict[str, Any]:
    """Half missing, 500 levels, an id, a duplicate; scikit-learn allows at most 255 levels, so 200 there."""
    return {
        f"{library}, {n_trees} trees": null_rates(
            lambda seed, library=library: hard(seed, n_rows, "squared", 200 if library == "sklearn" else 500),
            lambda library=library, n_trees=n_trees: model_of(library, "squared", n_trees, leaves=16, categorical=True),
            n_repeats if n_trees == 1 else n_repeats // 2,
        )
        for library in LIBRARIES
        for n_trees in (1, 20)
    }


def power(n_repeats: int = 100) -> dict[str, Any]:
    """How often the useful feature of the toy data is found at 5 %, by the number of training and held-out rows."""
    found = {}
    for n_trees in (1, 10):
        for half in (250, 1000, 4000, 16000):
            hits = 0
            for seed in range(n_repeats):
                X, y = toy(seed, 2 * half, "squared")
                model = model_of("lightgbm", "squared", n_trees).fit(X[:half], y[:half])
                hits += unbiased_gain(model, X[:half], y[:half], X[half:], y[half:], n_jobs=1).p_value[0] < 0.05
            found[f"{n_trees} trees, {half} rows"] = round(hits / n_repeats, 4)
    return found


def coverage(n_models: int = 50, n_sets: int = 20, n_rows: int = 1000, n_fresh: int = 1_000_000) -> dict[str, Any]:
    """How often the 95 % intervals of one-tree models cover the values from a million fresh rows.

    Fifty models, each judged by twenty sets of held-out rows.
    """
    table = {}
    for loss in LOSSES:
        X_fresh, y_fresh = toy(10**6, n_fresh, loss)
        for library in LIBRARIES:
            fresh = {"xgboost": xgboost.DMatrix, "catboost": catboost.Pool}.get(library, lambda X: X)(X_fresh)
            hit, used = np.zeros(3), np.zeros(3)
            for seed in range(n_models):
                train = toy(seed, n_rows, loss)
                model = model_of(library, loss, 1).fit(*train)
                truth = unbiased_gain(model, *train, fresh, y_fresh, n_jobs=1).importance
                for number in range(n_sets):
                    held = toy(10**7 + seed * n_sets + number, n_rows, loss)
                    result = unbiased_gain(model, *train, *held, n_jobs=1)
                    judged = result.n_splits > 0
                    used += judged
                    hit += judged & (result.ci_low <= truth) & (truth <= result.ci_high)
            table[f"{library}, {loss}"] = {
                "intervals": int(used.sum()),
                "covered": round(float(hit.sum() / used.sum()), 4),
                "covered_by_feature": [round(float(share), 4) for share in hit / used],
            }
    return table


def cross_fitting(n_repeats: int = 300, n_rows: int = 1000) -> dict[str, Any]:
    """Noise under cross-fitting with five folds, one tree and thirty trees."""
    table = {}
    for n_trees in (1, 30):
        results = []
        for seed in range(n_repeats):
            X, y = toy(seed, n_rows, "squared")
            results.append(cross_unbiased_gain(model_of("lightgbm", "squared", n_trees), X, y, cv=5, n_jobs=1))
        table[f"{n_trees} trees"] = summary(results)
    return table


def closed_form(n_draws: int = 2000) -> dict[str, Any]:
    """Largest difference between the closed form and averaged draws, in their Monte Carlo standard errors."""
    X, y = toy(0, 4000, "log", strength=1.0)
    model = model_of("lightgbm", "log", 60, leaves=16).set_params(learning_rate=0.3).fit(X[:2000], y[:2000])
    tables = (X[:2000], y[:2000], X[2000:], y[2000:])
    exact = unbiased_gain(model, *tables, n_jobs=1, paper_sums=True)
    # Twenty batches give the averages and their own error.
    batches = np.array(
        [
            unbiased_gain(model, *tables, paper_sums=True, draws=n_draws // 20, random_state=seed, n_jobs=1).importance
            for seed in range(20)
        ]
    )
    error = batches.std(axis=0, ddof=1) / np.sqrt(20)
    gap = np.abs(batches.mean(axis=0) - exact.importance)
    return {
        "draws": n_draws,
        "largest_gap_in_monte_carlo_errors": round(float((gap / error).max()), 3),
        "largest_gap_in_standard_errors": round(float((gap / exact.se).max()), 5),
    }


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "closed_form": closed_form,
    "one_tree": one_tree,
    "many_trees": many_trees,
    "hard_noise": hard_noise,
    "power": power,
    "cross_fitting": cross_fitting,
    "coverage": coverage,
}


def render(results: dict[str, Any]) -> str:
    """validation.md."""
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    lines = ["# Measured", "", f"Written by `docs/importance/validate.py`. Versions: {versions}.", ""]
    for name, section in SECTIONS.items():
        if name not in results:
            continue
        lines += [f"## {name.replace('_', ' ').capitalize()}", "", str(section.__doc__).strip(), ""]
        rows = _rows(results[name])
        lines += ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
        lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def _rows(section: dict[str, Any]) -> list[dict[str, Any]]:
    """A section as rows of one table: two levels, one level, or single numbers."""
    rows = []
    for case, entry in section.items():
        if not isinstance(entry, dict):
            rows.append({"case": case, "value": entry})
        elif all(isinstance(inner, dict) for inner in entry.values()):
            rows += [{"case": case, "feature": name, **inner} for name, inner in entry.items()]
        else:
            rows.append({"case": case, **entry})
    return rows


def main(names: list[str]) -> None:
    """Run the named sections, all if none is named, and write each as soon as it is there; "tables" only renders."""
    warnings.simplefilter("ignore", FewUsableSplitsWarning)
    path = Path(__file__).with_name("validation.json")
    results = json.loads(path.read_text()) if path.exists() else {}
    if names == ["tables"]:
        path.with_suffix(".md").write_text(render(results), encoding="utf-8")
        return
    packages = ("numpy", "scikit-learn", "xgboost", "lightgbm", "catboost")
    results["versions"] = {package: version(package) for package in packages}
    for name in names or list(SECTIONS):
        results[name] = SECTIONS[name]()
        path.write_text(json.dumps(results, indent=1) + "\n")
        path.with_suffix(".md").write_text(render(results), encoding="utf-8")
        print(name, json.dumps(results[name]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
