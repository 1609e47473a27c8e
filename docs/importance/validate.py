"""Measure what the documentation claims of the unbiased gain.

    python docs/importance/validate.py [section ...]

Writes validation.json beside this file after every case, so that a run that was stopped goes on where it was, and
validation.md, the same numbers as tables. Every repeat has its own seed, so every number can be had again. Cases run on
all processors, each repeat on one thread.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import catboost
import joblib
import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import roc_auc_score

import unbiasedgbm
from unbiasedgbm.importance import (
    FewUsableSplitsWarning,
    Importance,
    cross_unbiased_gain,
    permutation_importance,
    unbiased_gain,
)

LIBRARIES = ("lightgbm", "xgboost", "catboost", "sklearn")
LOSSES = ("squared", "log")
Table = tuple[Any, Any]


# -- data ------------------------------------------------------------------------------------------------------------


def toy(seed: int, n_rows: int, loss: str, strength: float = 0.1) -> Table:
    """The paper's Example 1: X1 binary, X2 with six levels, X3 normal; only X1 matters, with this strength."""
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


NOISE = ("number", "yes_no", "levels_8", "levels_50", "half_missing")


def mixed(seed: int, n_rows: int, loss: str, *, signal: bool = True, share: float = 0.5) -> tuple[pd.DataFrame, Any]:
    """A strong and a weak useful column, and noise of five kinds; ``share`` is that of class 1 without signal."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "strong": rng.normal(size=n_rows),
            "weak": rng.normal(size=n_rows),
            "number": rng.normal(size=n_rows),
            "yes_no": rng.integers(0, 2, n_rows).astype(float),
            "levels_8": pd.Categorical(rng.integers(0, 8, n_rows), categories=range(8)),
            "levels_50": pd.Categorical(rng.integers(0, 50, n_rows), categories=range(50)),
            "half_missing": np.where(rng.random(n_rows) < 0.5, np.nan, rng.normal(size=n_rows)),
        }
    )
    score = (X["strong"] + 0.3 * X["weak"]).to_numpy() if signal else np.full(n_rows, np.log(share / (1.0 - share)))
    if loss == "classes":
        cut = np.quantile(score + rng.logistic(size=n_rows), [0.25, 0.5, 0.75])
        return X, np.digitize(score + rng.logistic(size=n_rows), cut)
    return X, _target(rng, score, loss)


def true_and_noise(seed: int, n_true: int = 5, n_noise: int = 15, copies: int = 0) -> Table:
    """1,000 rows: true columns with log odds of 0.5 each, noise, and noisy copies of the true columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, n_true + n_noise))
    y = _target(rng, 0.5 * X[:, :n_true].sum(axis=1), "log")
    return np.column_stack([X, X[:, :copies] + rng.normal(size=(1000, copies))]), y


def _target(rng: Any, signal: Any, loss: str) -> Any:
    if loss == "squared":
        return signal + rng.normal(size=len(signal))
    return (rng.random(len(signal)) < 1.0 / (1.0 + np.exp(-signal))).astype(int)


# -- models ----------------------------------------------------------------------------------------------------------


def model_of(library: str, loss: str, n_trees: int, *, leaves: int = 8, categorical: bool = False) -> Any:
    """An untrained model with small trees and a learning rate of 0.1, alike in all libraries.

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


def default_model(library: str, loss: str, n_trees: int = 100, **options: Any) -> Any:
    """An untrained model with the library's own defaults but for the number of trees."""
    kind = "Regressor" if loss == "squared" else "Classifier"
    if library == "lightgbm":
        return getattr(lightgbm, f"LGBM{kind}")(n_estimators=n_trees, n_jobs=1, verbose=-1, **options)
    if library == "xgboost":
        return getattr(xgboost, f"XGB{kind}")(n_estimators=n_trees, n_jobs=1, enable_categorical=True, **options)
    if library == "catboost":
        fixed = {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
        levels = ["levels_8", "levels_50"]
        return getattr(catboost, f"CatBoost{kind}")(iterations=n_trees, cat_features=levels, **fixed, **options)
    if library == "unbiasedgbm":
        return getattr(unbiasedgbm, f"UnbiasedGBM{kind}")(random_state=0, n_jobs=1, **options)
    cls = HistGradientBoostingRegressor if loss == "squared" else HistGradientBoostingClassifier
    return cls(max_iter=n_trees, random_state=0, **options)


# -- repeats ---------------------------------------------------------------------------------------------------------


def parallel(function: Callable[[int], Any], n_repeats: int) -> list[Any]:
    """Results of all seeds, on all processors."""

    def quietly(seed: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(seed)

    found: list[Any] = joblib.Parallel(n_jobs=-1)(joblib.delayed(quietly)(seed) for seed in range(n_repeats))
    return found


def judged(data: Callable[[int], Table], fresh_model: Callable[[], Any], seed: int, **options: Any) -> Importance:
    """Half of a table trains, the other half judges."""
    X, y = data(seed)
    half = len(y) // 2
    model = fresh_model().fit(X[:half], y[:half])
    return unbiased_gain(model, X[:half], y[:half], X[half:], y[half:], n_jobs=1, **options)


def null_rates(
    data: Callable[[int], Table], fresh_model: Callable[[], Any], n_repeats: int, **options: Any
) -> dict[str, dict[str, Any]]:
    """z-scores and rejections of every feature over repeats; half of each table trains, half judges.

    Repeats in which the model does not split a feature say nothing of it and do not count.
    """
    return summary([judged(data, fresh_model, seed, **options) for seed in range(n_repeats)])


def summary(results: list[Importance]) -> dict[str, dict[str, Any]]:
    """z-scores of each feature and its rejection rate at 5 %, over the repeats in which it has a score."""
    return {
        name: _rates([(r.z[j], r.p_value[j]) for r in results if r.n_splits[j] > 0])
        for j, name in enumerate(results[0].feature_names)
    }


def _rates(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    z, p = np.array(pairs).reshape(-1, 2).T
    return {
        "repeats": len(z),
        "mean_z": round(float(z.mean()), 4) if len(z) > 1 else None,
        "sd_z": round(float(z.std(ddof=1)), 4) if len(z) > 1 else None,
        "rejected": round(float((p < 0.05).mean()), 4) if len(z) else None,
    }


# -- sections: each is a mapping from a case to what measures it ----------------------------------------------------

Cases = dict[str, Callable[[], Any]]


def closed_form() -> Cases:
    """The paper's sums: largest difference between the closed form and averaged draws, in standard errors of both."""
    return {"60 trees": _closed_form_gap}


def _closed_form_gap(n_draws: int = 2000) -> dict[str, Any]:
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


def papers_example(n_repeats: int = 300) -> Cases:
    """The paper's example with 1,000 + 1,000 rows: one tree and a hundred, by our sums and by the paper's."""
    return {
        f"{library}, {loss}, {n_trees} trees{', the paper’s sums' if paper else ''}": partial(
            _null, partial(toy, n_rows=2000, loss=loss), partial(model_of, library, loss, n_trees), repeats, paper
        )
        for library in LIBRARIES
        for loss in LOSSES
        for n_trees, repeats in ((1, n_repeats), (100, n_repeats // 5))
        for paper in (False, True)
    }


def _null(data: Any, fresh_model: Any, n_repeats: int, paper_sums: bool = False) -> dict[str, Any]:
    return summary(parallel(partial(judged, data, fresh_model, paper_sums=paper_sums), n_repeats))


def default_models(n_repeats: int = 120) -> Cases:
    """Noise of models with the libraries' defaults: five kinds of noise beside a strong and a weak useful column.

    The weak column has an effect of 0.3 (log odds, or standard deviations of the noise). Rows are halved between
    training and judging.
    """
    cases: Cases = {}

    def add(name: str, library: str, loss: str, n_rows: int, repeats: int, data: Any = None, **model: Any) -> None:
        table = data or partial(mixed, n_rows=n_rows, loss=loss)
        # CatBoost takes ten times as long as the others on categories.
        repeats = repeats // 3 if library == "catboost" else repeats
        cases[name] = partial(_noise, table, partial(default_model, library, loss, **model), repeats)

    for library in LIBRARIES:
        for loss in LOSSES:
            add(f"{library}, {loss}, 100 trees, 1,000 + 1,000 rows", library, loss, 2000, n_repeats)
    for loss in LOSSES:
        add(f"unbiasedgbm, {loss}, defaults, 1,000 + 1,000 rows", "unbiasedgbm", loss, 2000, n_repeats)
        add(f"unbiasedgbm, {loss}, defaults, 300 + 300 rows", "unbiasedgbm", loss, 600, n_repeats)
    for library in ("lightgbm", "xgboost", "sklearn"):
        for n_trees, rate in ((1, 1.0), (30, 1.0), (500, 0.01)):
            name = f"{library}, log, {n_trees} trees, learning rate {rate:g}"
            add(name, library, "log", 2000, n_repeats, n_trees=n_trees, learning_rate=rate)
        for loss in LOSSES:
            add(f"{library}, {loss}, 150 + 150 rows", library, loss, 300, 2 * n_repeats)
        add(f"{library}, log, 10,000 + 10,000 rows", library, "log", 20_000, n_repeats // 3)
    for library in ("lightgbm", "xgboost"):
        add(f"{library}, four classes, 30 trees", library, "classes", 2000, n_repeats, n_trees=30)
        add(f"{library}, log, 500 trees", library, "log", 2000, n_repeats // 2, n_trees=500)
        pure = partial(mixed, n_rows=2000, loss="log", signal=False)
        add(f"{library}, log, nothing but noise", library, "log", 2000, n_repeats, pure)
        rare = partial(mixed, n_rows=8000, loss="log", signal=False, share=0.01)
        add(f"{library}, log, one in a hundred, noise", library, "log", 8000, n_repeats // 2, rare)
    add("lightgbm, log, DART", "lightgbm", "log", 2000, n_repeats, boosting_type="dart")
    add("lightgbm, log, bagging", "lightgbm", "log", 2000, n_repeats, subsample=0.5, subsample_freq=1)
    weighted = {"scale_pos_weight": 20.0}
    add("lightgbm, log, rare class weighted up, noise", "lightgbm", "log", 8000, n_repeats // 2, rare, **weighted)
    return cases


def _noise(data: Any, fresh_model: Any, n_repeats: int) -> dict[str, Any]:
    """All noise columns together, each kind's rejections, and how often the useful columns are found."""
    results = parallel(partial(judged, data, fresh_model), n_repeats)
    by_name = summary(results)
    names = list(by_name)
    pairs = [(r.z[j], r.p_value[j]) for r in results for j in range(len(names)) if names[j] in NOISE and r.n_splits[j]]
    found = {
        name: round(float(np.mean([r.p_value[names.index(name)] < 0.05 for r in results])), 3) for name in names[:2]
    }
    rejected = [by_name[name]["rejected"] for name in NOISE if by_name[name]["repeats"] > 50]
    return {
        **_rates(pairs),
        "largest_rejected": max(rejected, default=None),
        "strong_found": found["strong"],
        "weak_found": found["weak"],
    }


def hard_noise(n_repeats: int = 120) -> Cases:
    """Half missing, 500 levels, an id, a duplicate; scikit-learn allows at most 255 levels, so 200 there."""
    return {
        f"{library}, {n_trees} trees": partial(
            _null,
            partial(hard, n_rows=2000, loss="squared", n_levels=200 if library == "sklearn" else 500),
            partial(model_of, library, "squared", n_trees, leaves=16, categorical=True),
            n_repeats // 2 if library == "catboost" else n_repeats,
        )
        for library in LIBRARIES
        for n_trees in (1, 20)
    }


def against_permutation(n_repeats: int = 150) -> Cases:
    """A default LightGBM classifier, 700 training and 300 held-out rows, 5 true columns and 15 of noise.

    How well the values rank true columns before noise (AUC), the share of true columns found at 5 %, that of noise, and
    the share of true columns at or below zero. Copies are true columns plus as much noise; the model may use
    them in place of the true ones, and they count as neither.
    """
    return {
        f"{name}{', noisy copies' if copies else ''}": partial(_ranking, name, copies, n_repeats)
        for copies in (0, 5)
        for name in ("unbiased gain", "the paper's sums", "permutation")
    }


def _ranking(name: str, copies: int, n_repeats: int) -> dict[str, Any]:
    def one(seed: int) -> tuple[float, ...]:
        X, y = true_and_noise(seed, copies=copies)
        model = default_model("lightgbm", "log").fit(X[:700], y[:700])
        if name == "permutation":
            found = permutation_importance(model, X[700:], y[700:], n_jobs=1)
        else:
            tables = X[:700], y[:700], X[700:], y[700:]
            found = unbiased_gain(model, *tables, n_jobs=1, paper_sums=name != "unbiased gain")
        true, values, p = np.arange(20) < 5, found.importance[:20], found.p_value[:20]
        return (
            roc_auc_score(true, values),
            (p[true] < 0.05).mean(),
            (p[~true] < 0.05).mean(),
            (values[true] <= 0).mean(),
        )

    names = ("auc", "true_found", "noise_rejected", "true_not_above_zero")
    return dict(zip(names, np.round(np.mean(parallel(one, n_repeats), axis=0), 3).tolist(), strict=True))


def rows_needed(n_repeats: int = 60) -> Cases:
    """How often a useful column is found at 5 %, by its effect and the rows; default LightGBM, log loss, 100 trees.

    The column stands beside one with an effect of 1 and eight of noise. Rows are those of training; as many judge.
    """
    return {
        f"effect {effect:g}, {half} rows": partial(_found, effect, half, n_repeats)
        for effect in (0.1, 0.2, 0.3, 0.5)
        for half in (250, 1000, 4000, 16_000)
    }


def _found(effect: float, half: int, n_repeats: int) -> dict[str, Any]:
    def one(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2 * half, 10))
        y = _target(rng, X[:, 0] + effect * X[:, 1], "log")
        model = default_model("lightgbm", "log").fit(X[:half], y[:half])
        return bool(unbiased_gain(model, X[:half], y[:half], X[half:], y[half:], n_jobs=1).p_value[1] < 0.05)

    return {"found": round(float(np.mean(parallel(one, n_repeats))), 3)}


def coverage(n_models: int = 30, n_sets: int = 20, n_rows: int = 1000, n_fresh: int = 200_000) -> Cases:
    """How often 95 % intervals cover the values from 200,000 fresh rows: thirty models, twenty sets of rows each."""
    return {
        f"{library}, {loss}, {n_trees} trees": partial(
            _covered, library, loss, n_trees, n_models, n_sets, n_rows, n_fresh
        )
        for library in LIBRARIES
        for loss in LOSSES
        for n_trees in ((1, 100) if library == "lightgbm" else (100,))
    }


def _covered(library: str, loss: str, n_trees: int, n_models: int, n_sets: int, n_rows: int, n_fresh: int) -> Any:
    X_fresh, y_fresh = toy(10**6, n_fresh, loss, 0.5)

    def one(seed: int) -> Any:
        fresh = {"xgboost": xgboost.DMatrix, "catboost": catboost.Pool}.get(library, lambda X: X)(X_fresh)
        train = toy(seed, n_rows, loss, 0.5)
        model = model_of(library, loss, n_trees).fit(*train)
        truth = unbiased_gain(model, *train, fresh, y_fresh, n_jobs=1).importance
        counts = np.zeros((2, 3))
        for number in range(n_sets):
            held = toy(10**7 + seed * n_sets + number, n_rows, loss, 0.5)
            result = unbiased_gain(model, *train, *held, n_jobs=1)
            used = result.n_splits > 0
            counts += used, used & (result.ci_low <= truth) & (truth <= result.ci_high)
        return counts

    used, hit = np.sum(parallel(one, n_models), axis=0)
    return {
        "intervals": int(used.sum()),
        "covered": round(float(hit.sum() / used.sum()), 4),
        "covered_by_feature": [round(float(share), 4) for share in hit / np.maximum(used, 1)],
    }


def cross_fitting(n_repeats: int = 100) -> Cases:
    """Noise under cross-fitting with five folds."""
    return {
        f"{library}, {loss}, {n_trees} trees, {n_rows} rows": partial(_crossed, library, loss, n_trees, n_rows, repeats)
        for library, loss, n_trees, n_rows, repeats in (
            ("lightgbm", "squared", 1, 1000, n_repeats),
            ("lightgbm", "squared", 100, 1000, n_repeats),
            ("lightgbm", "log", 100, 1000, n_repeats),
            ("lightgbm", "log", 100, 300, n_repeats),
            ("xgboost", "log", 100, 1000, n_repeats),
            ("sklearn", "log", 100, 1000, n_repeats),
        )
    }


def _crossed(library: str, loss: str, n_trees: int, n_rows: int, n_repeats: int) -> dict[str, Any]:
    def one(seed: int) -> Importance:
        X, y = mixed(seed, n_rows, loss)
        return cross_unbiased_gain(default_model(library, loss, n_trees), X, y, cv=5, n_jobs=1)

    results = parallel(one, n_repeats)
    names = list(results[0].feature_names)
    pairs = [(r.z[j], r.p_value[j]) for r in results for j in range(len(names)) if names[j] in NOISE and r.n_splits[j]]
    weak = round(float(np.mean([r.p_value[1] < 0.05 for r in results])), 3)
    return {**_rates(pairs), "weak_found": weak}


def units() -> Cases:
    """What the importances add up to, beside the held-out loss that the model takes away: 20,000 + 20,000 rows."""
    return {
        f"{loss}, {n_trees} trees, learning rate {rate:g}": partial(_added_up, loss, n_trees, rate)
        for loss in LOSSES
        for n_trees, rate in ((1, 0.1), (1, 1.0), (10, 0.1), (100, 0.01), (100, 0.1), (500, 0.01))
    }


def _added_up(loss: str, n_trees: int, rate: float, n: int = 20_000) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * n, 8))
    score = X[:, 0] + np.sin(2.0 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * (X[:, 4] > 0)
    y = _target(rng, score, loss)
    model = default_model("lightgbm", loss, n_trees, learning_rate=rate).fit(X[:n], y[:n])
    result = unbiased_gain(model, X[:n], y[:n], X[n:], y[n:], n_jobs=1)
    if loss == "squared":
        before, after = (y[n:] - y[:n].mean()) ** 2 / 2.0, (y[n:] - model.predict(X[n:])) ** 2 / 2.0
    else:
        p = model.predict_proba(X[n:])[:, 1]
        before, after = (-np.log(np.where(y[n:] == 1, q, 1.0 - q)) for q in (y[:n].mean(), p))
    total, removed = float(result.importance.sum()), float(np.mean(before) - np.mean(after))
    return {"added_up": round(total, 5), "removed": round(removed, 5), "ratio": round(total / removed, 3)}


SECTIONS: dict[str, Callable[[], Cases]] = {
    "units": units,
    "against_permutation": against_permutation,
    "rows_needed": rows_needed,
    "default_models": default_models,
    "cross_fitting": cross_fitting,
    "coverage": coverage,
    "hard_noise": hard_noise,
    "papers_example": papers_example,
    "closed_form": closed_form,
}


# -- files -----------------------------------------------------------------------------------------------------------


def render(results: dict[str, Any]) -> str:
    """validation.md."""
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    lines = ["# Measured", "", f"Written by `docs/importance/validate.py`. Versions: {versions}.", ""]
    for name, section in SECTIONS.items():
        if not results.get(name):
            continue
        text = " ".join(str(section.__doc__).split())
        rows = _rows(results[name])
        lines += [f"## {name.replace('_', ' ').capitalize()}", "", text, ""]
        lines += ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
        lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def _rows(section: dict[str, Any]) -> list[dict[str, Any]]:
    """A section as rows of one table: one row a case, or one row for each feature of it."""
    rows = []
    for case, entry in section.items():
        if all(isinstance(inner, dict) for inner in entry.values()):
            rows += [{"case": case, "feature": name, **inner} for name, inner in entry.items()]
        else:
            rows.append({"case": case, **entry})
    return rows


def main(names: list[str]) -> None:
    """Run what is missing of the named sections, of all if none is named; "tables" only renders."""
    warnings.simplefilter("ignore", FewUsableSplitsWarning)
    path = Path(__file__).with_name("validation.json")
    results = json.loads(path.read_text()) if path.exists() else {}
    packages = ("numpy", "scikit-learn", "xgboost", "lightgbm", "catboost")
    results["versions"] = {package: version(package) for package in packages}
    for name in [] if names == ["tables"] else names or list(SECTIONS):
        for case, measure in SECTIONS[name]().items():
            done = results.setdefault(name, {})
            if case in done:
                continue
            done[case] = measure()
            path.write_text(json.dumps(results, indent=1) + "\n")
            print(name, case, json.dumps(done[case]), flush=True)
    path.with_suffix(".md").write_text(render(results), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
