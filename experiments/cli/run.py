"""Commands that measure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from experiments.catalogue import UNSEEN_FILE, TableSource
from experiments.cli import options
from experiments.cli.options import RESULTS, choose, variant, words
from experiments.jobs import Chain, Job

UNTUNED = "unbiasedgbm,catboost,chimeraboost,perpetual,lightgbm,xgboost,hist_gradient_boosting"
TUNED = "merged,unbiasedgbm,without_se,without_ub,separate_111,separate_411,xgboost,lightgbm,catboost"
QSAR = "lightgbm,merged,unbiasedgbm"
GROUPS = "unbiasedgbm_by_groups,unbiasedgbm,catboost,lightgbm,xgboost"


@dataclass(frozen=True)
class Place:
    """Where rows are kept and who measures them; the options of the same names say the rest."""

    store: Path
    also: list[Path] | None = None
    data: str | None = None
    catalogue: str | None = None
    processes: int = 1
    threads: int = 1
    dask: str | None = None
    retry_failed: bool = False
    redo: str = ""
    time_limit: float | None = None

    def run(self, name: str, jobs: list[Chain]) -> int:
        """Measure what the store lacks, and report the failures; returns how many there were."""
        from experiments.progress import Progress
        from experiments.runner import run
        from experiments.store import Store
        from experiments.studies.bench import Bench
        from experiments.workers import Workers

        outcome = run(
            jobs,
            Store(self.store, self.also or []),
            Workers(self.processes, self.dask),
            Bench(TableSource(self.data, self.catalogue), self.threads, self.time_limit),
            Progress(name),
            retry_failed=self.retry_failed,
            redo=words(self.redo),
        )
        if outcome.failures:
            typer.echo(f"{len(outcome.failures)} jobs failed; --retry-failed measures them again", err=True)
        return len(outcome.failures)


def untuned(
    data: options.Data = None,
    store: options.StoreFile = RESULTS / "untuned.jsonl",
    also: options.Also = None,
    methods: options.Methods = UNTUNED,
    ours: Annotated[list[str] | None, typer.Option(help="A variant of ours: label={JSON parameters}.")] = None,
    tables: options.Tables = "",
    groups: options.Groups = "",
    half: options.Half = None,
    raw: Annotated[bool, typer.Option("--raw", help="Targets before they were made binary.")] = False,
    splits: Annotated[int, typer.Option(help="Number of splits.")] = 3,
    max_rows: options.MaxRows = 20_000,
    catalogue: options.CatalogueFile = None,
    processes: options.Processes = 1,
    threads: options.Threads = 1,
    dask: options.Dask = None,
    time_limit: options.TimeLimit = None,
    retry_failed: options.Retry = False,
    redo: options.Redo = "",
) -> None:
    """Every method at its defaults; prints the comparison."""
    from experiments.reports.untuned import summary
    from experiments.store import Store
    from experiments.studies.untuned import chains

    chosen = choose(catalogue, tables, groups, half)
    if raw:
        chosen = {f"{name}@raw": entry for name, entry in chosen.items() if entry.raw_task != entry.task}
    variants = dict(variant(text) for text in ours or [])
    jobs = chains(chosen, words(methods), variants, splits, max_rows or None)
    place = Place(store, also, data, catalogue, processes, threads, dask, retry_failed, redo, time_limit)
    failures = place.run("untuned", jobs)
    typer.echo(summary(Store(store, also or []).rows("untuned"), {chain.start.key for chain in jobs}))
    raise typer.Exit(1 if failures else 0)


def unseen(
    data: options.Data = None,
    store: options.StoreFile = RESULTS / "unseen.jsonl",
    also: options.Also = None,
    methods: options.Methods = UNTUNED,
    tables: options.Tables = "",
    groups: options.Groups = "",
    splits: Annotated[int, typer.Option(help="Number of splits.")] = 2,
    max_rows: options.MaxRows = 2_000,
    catalogue: options.CatalogueFile = str(UNSEEN_FILE),
    processes: options.Processes = 1,
    threads: options.Threads = 1,
    dask: options.Dask = None,
    time_limit: options.TimeLimit = None,
    retry_failed: options.Retry = False,
    redo: options.Redo = "",
) -> None:
    """Every method at its defaults, on tables that chose one of the defaults at most."""
    from experiments.reports.untuned import summary
    from experiments.store import Store
    from experiments.studies.untuned import chains

    chosen = choose(catalogue, tables, groups)
    jobs = chains(chosen, words(methods), {}, splits, max_rows or None, study="unseen")
    place = Place(store, also, data, catalogue, processes, threads, dask, retry_failed, redo, time_limit)
    failures = place.run("unseen", jobs)
    typer.echo(summary(Store(store, also or []).rows("unseen"), {chain.start.key for chain in jobs}))
    raise typer.Exit(1 if failures else 0)


def times(
    data: options.Data = None,
    store: options.StoreFile = RESULTS / "times.jsonl",
    methods: options.Methods = UNTUNED,
    tables: options.Tables = "",
    groups: options.Groups = "",
    splits: Annotated[int, typer.Option(help="Number of splits.")] = 1,
    max_rows: options.MaxRows = 20_000,
    catalogue: options.CatalogueFile = None,
    processes: options.Processes = 1,
    threads: options.Threads = 1,
    time_limit: options.TimeLimit = None,
    retry_failed: options.Retry = False,
) -> None:
    """The untuned comparison again, all methods of a table one after the other, for their times alone."""
    from experiments.reports.rows import measured
    from experiments.reports.untuned import IN_ONE_RUN, times
    from experiments.store import Store
    from experiments.studies.untuned import chains

    jobs = chains(choose(catalogue, tables, groups), words(methods), {}, splits, max_rows or None, study="times")
    place = Place(store, None, data, catalogue, processes, threads, None, retry_failed, "", time_limit)
    failures = place.run("times", jobs)
    keys = {chain.start.key for chain in jobs}
    rows = [row for row in Store(store).rows("times") if Job.from_row(row).key in keys]
    typer.echo(times(measured(rows), IN_ONE_RUN))
    raise typer.Exit(1 if failures else 0)


def tune(
    data: options.Data = None,
    store: options.StoreFile = RESULTS / "tuned.jsonl",
    also: options.Also = None,
    methods: options.Methods = TUNED,
    tables: options.Tables = "",
    groups: options.Groups = "",
    half: options.Half = None,
    beyond: Annotated[bool, typer.Option("--beyond", help="Also tables that are not in the paper.")] = False,
    seeds: Annotated[int, typer.Option(help="Number of splits.")] = 1,
    iterations: Annotated[int, typer.Option(help="Tuning iterations of every method.")] = 30,
    max_rows: options.MaxRows = 0,
    catalogue: options.CatalogueFile = None,
    processes: options.Processes = 1,
    threads: options.Threads = 1,
    dask: options.Dask = None,
    time_limit: options.TimeLimit = None,
    retry_failed: options.Retry = False,
    redo: options.Redo = "",
) -> None:
    """The paper's main study: every method tuned by Optuna."""
    from experiments.studies.tuned import chains

    chosen = choose(catalogue, tables, groups, half, paper=not beyond)
    jobs = chains(chosen, words(methods), seeds, iterations, max_rows or None)
    place = Place(store, also, data, catalogue, processes, threads, dask, retry_failed, redo, time_limit)
    raise typer.Exit(1 if place.run("tune", jobs) else 0)


def select_features(
    data: options.Data = None,
    store: options.StoreFile = RESULTS / "selection.jsonl",
    tables: options.Tables = "",
    beyond: Annotated[bool, typer.Option("--beyond", help="Also tables that are not in the paper.")] = False,
    seeds: Annotated[int, typer.Option(help="Number of splits.")] = 10,
    first_seed: Annotated[int, typer.Option(help="Seed of the first split.")] = 0,
    max_rows: options.MaxRows = 0,
    catalogue: options.CatalogueFile = None,
    processes: options.Processes = 1,
    threads: options.Threads = 1,
    dask: options.Dask = None,
    time_limit: options.TimeLimit = None,
    retry_failed: options.Retry = False,
    redo: options.Redo = "",
) -> None:
    """The paper's second question: features picked by four importances, and found at a false discovery rate."""
    from experiments.studies.importances import IMPORTANCES
    from experiments.studies.selection import FOUND, chains

    chosen = choose(catalogue, tables, "", paper=not beyond)
    place = Place(store, None, data, catalogue, processes, threads, dask, retry_failed, redo, time_limit)
    failures = place.run(
        "select-features",
        chains(chosen, (*IMPORTANCES, *FOUND), range(first_seed, first_seed + seeds), max_rows or None),
    )
    raise typer.Exit(1 if failures else 0)


def qsar(
    data: options.Data = None,
    store: options.StoreFile = RESULTS / "qsar.jsonl",
    methods: options.Methods = QSAR,
    splits: Annotated[int, typer.Option(help="Number of splits.")] = 20,
    catalogue: options.CatalogueFile = None,
    processes: options.Processes = 1,
    threads: options.Threads = 1,
    retry_failed: options.Retry = False,
    redo: options.Redo = "",
) -> None:
    """The QSAR bioconcentration table with all features, without nHM, without PCD."""
    from experiments.reports.qsar import views
    from experiments.studies.untuned import chains

    chosen = choose(catalogue, ",".join(views()), "")
    jobs = chains(chosen, words(methods), {}, splits, None, study="qsar")
    place = Place(store, None, data, catalogue, processes, threads, None, retry_failed, redo)
    raise typer.Exit(1 if place.run("qsar", jobs) else 0)


def toy(
    store: options.StoreFile = RESULTS / "toy.jsonl",
    repetitions: Annotated[int, typer.Option(help="Repetitions, rounded up to blocks of 20.")] = 1000,
    processes: options.Processes = 1,
    threads: options.Threads = 1,
    retry_failed: options.Retry = False,
) -> None:
    """The paper's example: gain and unbiased gain of three features, one tree and 100 trees."""
    from experiments.studies.toy import chains

    place = Place(store, processes=processes, threads=threads, retry_failed=retry_failed)
    raise typer.Exit(1 if place.run("toy", chains(repetitions)) else 0)


def groups(
    data: options.Data = None,
    store: options.StoreFile = RESULTS / "groups.jsonl",
    methods: options.Methods = GROUPS,
    tables: options.Tables = "",
    splits: Annotated[int, typer.Option(help="Number of splits.")] = 10,
    max_rows: options.MaxRows = 20_000,
    catalogue: options.CatalogueFile = None,
    processes: options.Processes = 1,
    threads: options.Threads = 1,
    dask: options.Dask = None,
    time_limit: options.TimeLimit = None,
    retry_failed: options.Retry = False,
    redo: options.Redo = "",
) -> None:
    """Rows that belong together: trained on some groups of rows, measured on others."""
    from experiments.studies import groups as study

    jobs = study.chains(
        choose(catalogue, tables or ",".join(study.GROUPS), ""), words(methods), splits, max_rows or None
    )
    place = Place(store, None, data, catalogue, processes, threads, dask, retry_failed, redo, time_limit)
    raise typer.Exit(1 if place.run("groups", jobs) else 0)
