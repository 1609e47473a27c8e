"""The paper's main study: every method tuned by Optuna on the validation third, measured on the test third.

One job is one tuning iteration. What it tries is decided by the rows before it and by its own seed, and by nothing that
lives in memory, so a run that was killed goes on exactly as it would have gone on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from experiments.catalogue import Entry
from experiments.jobs import Chain, Job
from experiments.methods import Method, get_method
from experiments.metrics import GREATER_IS_BETTER, PRIMARY
from experiments.splits import tuning_parts
from experiments.studies.bench import Bench, evaluate

STUDY = "tuned"


def chains(
    tables: Mapping[str, Entry], methods: Iterable[str], seeds: int, iterations: int, max_rows: int | None
) -> list[Chain]:
    """Return one chain of tuning iterations for every table, seed and method."""
    methods = list(methods)
    untunable = [name for name in methods if not get_method(name).tuned]
    if untunable:
        raise ValueError(f"{untunable} have no search space; the untuned study compares them")
    return [
        Chain(Job(STUDY, name, method, seed, options={"max_rows": max_rows}), length=iterations, cost=entry.cost)
        for name, entry in tables.items()
        for seed in range(seeds)
        for method in methods
    ]


def measure(job: Job, history: list[dict[str, Any]], bench: Bench) -> dict[str, Any]:
    """Choose parameters from the iterations so far, and measure them."""
    table = bench.tables.load(job.table)
    metric = PRIMARY[table.task]
    params = suggest(job, history, bench.tables.entry(job.table).scale, metric)
    parts = tuning_parts(table, job.seed, job.options["max_rows"])
    columns, _ = evaluate(job.method, table.task, parts, params, seed=job.seed, threads=bench.threads)
    return {"task": table.task, "params": params, **columns}


def suggest(job: Job, history: list[dict[str, Any]], scale: str, metric: str) -> dict[str, Any]:
    """Draw the parameters of a tuning iteration with Optuna's default sampler.

    Parameters
    ----------
    job : Job
        Its key seeds the sampler.
    history : list of rows
        The iterations before this one: their parameters and validation scores.
    scale : {"small", "medium"}
    metric : str
        What is tuned for, on the validation rows.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    method = get_method(job.method)
    direction = "maximize" if metric in GREATER_IS_BETTER else "minimize"
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=_seed(job)))
    for row in history:
        study.add_trial(_past_trial(method, scale, row["params"], row[f"valid_{metric}"]))
    return method.suggest(study.ask(), scale)


def _past_trial(method: Method, scale: str, params: dict[str, Any], value: float) -> Any:
    import optuna

    replay = optuna.trial.FixedTrial(params)
    method.suggest(replay, scale)
    return optuna.trial.create_trial(params=params, distributions=replay.distributions, value=value)


def _seed(job: Job) -> int:
    return int.from_bytes(hashlib.sha256(job.key.encode()).digest()[:4], "little")
