"""Rows that belong together: every method at its defaults, trained on some groups of rows and measured on others.

Two thirds of the groups train. One of the methods is told which rows are of one group; the others cannot be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from experiments.catalogue import Entry
from experiments.jobs import Chain, Job
from experiments.splits import grouped_parts
from experiments.studies.bench import Bench, evaluate

STUDY = "groups"

GROUPS: dict[str, tuple[str, ...]] = {
    "eye_movements": ("assgNo",),
    "well_log_facies": ("Well Name",),
    "nycflights13": ("month", "day"),
    "airlines": ("Airline", "Flight"),
    "lusitania_manifest": ("Family name",),
    "estonia_disaster": ("Lastname",),
    "bike_sharing_demand": ("year", "month"),
    "concrete_strength": ("~Age (day)",),
}
"""Columns whose values name a group, or, after a ~, the one whose values do not: all tables of the study in which rows
were taken of the same thing, as far as their columns tell."""

MEANING = {
    "eye_movements": "a reader's assignment",
    "well_log_facies": "a well",
    "nycflights13": "a day",
    "airlines": "a flight number",
    "lusitania_manifest": "a family name",
    "estonia_disaster": "a family name",
    "bike_sharing_demand": "a month",
    "concrete_strength": "a mixture, tested at several ages",
}


def group_numbers(name: str, X: pd.DataFrame) -> np.ndarray:
    """Number of each row's group, shape (n,)."""
    columns = GROUPS[name]
    if columns[0].startswith("~"):
        columns = tuple(column for column in X.columns if column != columns[0][1:])
    return X.groupby(list(columns), sort=False, dropna=False, observed=True).ngroup().to_numpy()


def chains(tables: dict[str, Entry], methods: Iterable[str], splits: int, max_rows: int | None) -> list[Chain]:
    """Return the jobs, table by table."""
    names = list(methods)
    return [
        Chain(Job(STUDY, name, method, seed, options={"max_rows": max_rows}), cost=entry.cost)
        for name, entry in tables.items()
        for seed in range(splits)
        for method in names
    ]


def measure(job: Job, history: list[dict[str, Any]], bench: Bench) -> dict[str, Any]:
    """Measure one method on one split of one table."""
    table = bench.tables.load(job.table)
    groups = group_numbers(job.table, table.X)
    parts = grouped_parts(table, groups, job.seed, job.options["max_rows"])
    columns, _ = evaluate(job.method, table.task, parts, {}, seed=job.seed, threads=bench.threads)
    return {"task": table.task, "groups": int(groups.max()) + 1, **columns}
