"""The paper's second question: which importance picks the better features.

A LightGBM model is trained on the training third; an importance ranks the features; a new model that has only the top
10, 20 or 30 % of them is trained on training and validation rows and measured on the test third.

Beyond the paper: which features an importance finds significant, at a false discovery rate of 0.1, by cross-fitting
with five folds on training and validation rows; a new model with these features alone, beside one with all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from experiments.catalogue import Entry
from experiments.catalogue.table import Table
from experiments.jobs import Chain, Job
from experiments.methods import get_method
from experiments.metrics import area_under_curve
from experiments.splits import Parts, tuning_parts, untuned_parts
from experiments.studies.bench import Bench, quiet
from experiments.studies.importances import importance
from unbiasedgbm.importance import Importance, cross_unbiased_gain, permutation_importance
from unbiasedgbm.importance.crossfit import INFLATION, pool_folds

STUDY = "selection"
SHARES = (10, 20, 30)
MORE_FEATURES_THAN = 30
FOUND = ("all_features", "permutation_found", "unbiased_gain_found")
LEVEL = 0.1
FOLDS = 5


def chains(
    tables: Mapping[str, Entry], importances: Iterable[str], seeds: Iterable[int], max_rows: int | None
) -> list[Chain]:
    """Return one job for every table with enough features, seed and importance."""
    importances, seeds = list(importances), list(seeds)
    return [
        Chain(Job(STUDY, name, kind, seed, options={"max_rows": max_rows}), cost=entry.cost)
        for name, entry in tables.items()
        if entry.features > MORE_FEATURES_THAN and entry.task == "binary"
        for seed in seeds
        for kind in importances
    ]


def measure(job: Job, history: list[dict[str, Any]], bench: Bench) -> dict[str, Any]:
    """Rank the features by one importance, and measure the models on the best of them."""
    table = bench.tables.load(job.table)
    max_rows = job.options["max_rows"]
    if job.method in FOUND:
        return _found(job, table, untuned_parts(table, job.seed, max_rows), bench)
    chooser = tuning_parts(table, job.seed, max_rows)
    judge = untuned_parts(table, job.seed, max_rows)
    booster = get_method("lightgbm")
    with quiet(bench.threads):
        model = booster.fit(table.task, chooser.train.X, chooser.train.y, {}, seed=job.seed, threads=bench.threads)
        values = importance(job.method, model, chooser, seed=job.seed, threads=bench.threads)
        # The sort is stable: features of equal importance keep their order, alike for all importances.
        order = np.argsort(-np.asarray(values), kind="stable")
        scores = {f"test_auc_{share}": _auc_of(order, share, judge, job.seed, bench.threads) for share in SHARES}
    names = list(table.X.columns)
    return {
        "task": table.task,
        **scores,
        "chosen": [names[index] for index in order[: feature_count(len(order), max(SHARES))]],
        "versions": {"lightgbm": booster.version, "unbiasedgbm": get_method("unbiasedgbm").version},
    }


def _found(job: Job, table: Table, parts: Parts, bench: Bench) -> dict[str, Any]:
    """Measure a model on the features that are significant by cross-fitting; with none, it knows nothing."""
    booster = get_method("lightgbm")
    with quiet(bench.threads):
        found = np.ones(parts.train.X.shape[1], dtype=bool)
        if job.method != "all_features":
            estimator = booster.estimator("binary", {}, job.seed, bench.threads)
            kind = job.method.removesuffix("_found")
            result = crossed(kind, estimator, booster.columns(parts.train.X), parts.train.y, job.seed, bench.threads)
            found = result.p_adjusted <= LEVEL
        auc = _auc_of(np.flatnonzero(found), 100, parts, job.seed, bench.threads) if found.any() else 0.5
    names = list(table.X.columns)
    return {
        "task": table.task,
        "test_auc": auc,
        "share": float(found.mean()),
        "chosen": [names[j] for j in np.flatnonzero(found)],
        "versions": {"lightgbm": booster.version, "unbiasedgbm": get_method("unbiasedgbm").version},
    }


def crossed(kind: str, estimator: Any, X: Any, y: np.ndarray, seed: int, threads: int) -> Importance:
    """An importance by cross-fitting: the mean over folds, whose variance is raised alike for all kinds."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    if kind == "unbiased_gain":
        return cross_unbiased_gain(estimator, X, y, cv=folds, n_jobs=threads)
    results, share = [], []
    for rows, held in folds.split(X, y):
        model = clone(estimator).fit(X.iloc[rows], y[rows])
        results.append(permutation_importance(model, X.iloc[held], y[held], random_state=seed, n_jobs=threads))
        share.append(len(held) / len(y))
    return pool_folds(results, np.array(share), INFLATION)


def feature_count(features: int, share: int) -> int:
    """How many features are `share` per cent of them: rounded, at least one."""
    return max(1, round(features * share / 100))


def _auc_of(order: np.ndarray, share: int, parts: Parts, seed: int, threads: int) -> float:
    kept = np.sort(order[: feature_count(len(order), share)])
    train, test = parts.train, parts.test
    model = get_method("lightgbm").fit("binary", train.X.iloc[:, kept], train.y, {}, seed=seed, threads=threads)
    return area_under_curve(test.y, model.predict(test.X.iloc[:, kept]))
