"""The paper's second question: which importance picks the better features.

A LightGBM model is trained on the training third; an importance ranks the features; a new model that has only the top
10, 20 or 30 % of them is trained on training and validation rows and measured on the test third.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from experiments.catalogue import Entry
from experiments.jobs import Chain, Job
from experiments.methods import get_method
from experiments.metrics import area_under_curve
from experiments.splits import Parts, tuning_parts, untuned_parts
from experiments.studies.bench import Bench, quiet
from experiments.studies.importances import importance

STUDY = "selection"
SHARES = (10, 20, 30)
MORE_FEATURES_THAN = 30


def chains(tables: Mapping[str, Entry], importances: Iterable[str], seeds: int, max_rows: int | None) -> list[Chain]:
    """Return one job for every table with enough features, seed and importance."""
    importances = list(importances)
    return [
        Chain(Job(STUDY, name, kind, seed, options={"max_rows": max_rows}), cost=entry.cost)
        for name, entry in tables.items()
        if entry.features > MORE_FEATURES_THAN and entry.task == "binary"
        for seed in range(seeds)
        for kind in importances
    ]


def measure(job: Job, history: list[dict[str, Any]], bench: Bench) -> dict[str, Any]:
    """Rank the features by one importance, and measure the models on the best of them."""
    table = bench.tables.load(job.table)
    max_rows = job.options["max_rows"]
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


def feature_count(features: int, share: int) -> int:
    """How many features are `share` per cent of them: rounded, at least one."""
    return max(1, round(features * share / 100))


def _auc_of(order: np.ndarray, share: int, parts: Parts, seed: int, threads: int) -> float:
    kept = np.sort(order[: feature_count(len(order), share)])
    train, test = parts.train, parts.test
    model = get_method("lightgbm").fit("binary", train.X.iloc[:, kept], train.y, {}, seed=seed, threads=threads)
    return area_under_curve(test.y, model.predict(test.X.iloc[:, kept]))
