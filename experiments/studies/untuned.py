"""Every method at its defaults: trained on two thirds, without validation rows, measured on the other third.

The number of rows may be capped (``max_rows``, in the training and in the test part each), so that the slowest method
does not decide which tables can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.catalogue import Entry
from experiments.jobs import Chain, Job
from experiments.splits import untuned_parts
from experiments.studies.bench import Bench, evaluate

STUDY = "untuned"
OURS = "unbiasedgbm"


def chains(
    tables: Sequence[Entry],
    methods: Iterable[str],
    variants: Mapping[str, Mapping[str, Any]],
    splits: int,
    max_rows: int | None,
    suffix: str = "",
) -> list[Chain]:
    """Return the jobs, table by table, so that a table is complete before the next begins.

    Parameters
    ----------
    tables : sequence of Entry
    methods : iterable of str
        Methods at their defaults.
    variants : mapping of label to parameters
        Variants of our own method.
    splits : int
        Seeds 0 to `splits` − 1.
    max_rows : int or None
    suffix : str
        Appended to the tables' names to take a view of them, e.g. ``"@raw"``.
    """
    wanted = [(name, name, {}) for name in methods] + [
        (label, OURS, dict(params)) for label, params in variants.items()
    ]
    return [
        Chain(
            Job(
                STUDY,
                entry.name + suffix,
                label,
                seed,
                options={"max_rows": max_rows, "method": method, "params": params},
            ),
            cost=entry.cost,
        )
        for entry in tables
        for seed in range(splits)
        for label, method, params in wanted
    ]


def measure(job: Job, history: list[dict[str, Any]], bench: Bench) -> dict[str, Any]:
    """Measure one method on one split of one table."""
    table = bench.tables.load(job.table)
    parts = untuned_parts(table, job.seed, job.options["max_rows"])
    columns, _ = evaluate(
        job.options["method"], table.task, parts, job.options["params"], seed=job.seed, threads=bench.threads
    )
    return {"task": table.task, **columns}
