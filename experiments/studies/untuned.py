"""Every method at its defaults: trained on two thirds, without validation rows, measured on the other third.

The number of rows may be capped (``max_rows``, in the training and in the test part each), so that the slowest method
does not decide which tables can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from experiments.catalogue import Entry
from experiments.jobs import Chain, Job
from experiments.splits import untuned_parts
from experiments.studies.bench import Bench, evaluate

STUDY = "untuned"
OURS = "unbiasedgbm"


def chains(
    tables: Mapping[str, Entry],
    methods: Iterable[str],
    variants: Mapping[str, Mapping[str, Any]],
    splits: int,
    max_rows: int | None,
    study: str = STUDY,
) -> list[Chain]:
    """Return the jobs, table by table, so that a table is complete before the next begins.

    Parameters
    ----------
    tables : mapping of name or view to Entry
    methods : iterable of str
        Methods at their defaults.
    variants : mapping of label to parameters
        Variants of our own method.
    splits : int
        Seeds 0 to `splits` − 1.
    max_rows : int or None
    study : str
        The name under which the rows are stored.
    """
    wanted = [(name, name, {}) for name in methods]
    wanted += [(label, OURS, dict(params)) for label, params in variants.items()]
    return [
        Chain(
            Job(study, name, label, seed, options={"max_rows": max_rows, "method": method, "params": params}),
            cost=entry.cost,
        )
        for name, entry in tables.items()
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
