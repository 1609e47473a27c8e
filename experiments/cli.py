"""The commands of the study. ``python -m experiments --help`` lists them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from experiments.catalogue import Entry, TableSource, read_catalogue

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

RESULTS = Path(__file__).with_name("results")

Data = Annotated[str | None, typer.Option(help="folder with the prepared tables; fetched from their sources if absent")]
CatalogueFile = Annotated[str | None, typer.Option("--catalogue", help="another catalogue file than the study's")]
Also = Annotated[list[Path], typer.Option("--with", help="further stores whose rows are read as well; repeatable")]
Methods = Annotated[str, typer.Option(help="comma-separated names of methods")]
Tables = Annotated[str, typer.Option(help="comma-separated names of tables; empty for all")]
Groups = Annotated[str, typer.Option(help="comma-separated groups of tables; empty for all")]
Half = Annotated[str | None, typer.Option(help="'search' or 'check'")]
Processes = Annotated[int, typer.Option(help="how many processes measure")]
Threads = Annotated[int, typer.Option(help="threads of a fit")]
Dask = Annotated[str | None, typer.Option(help="address of a Dask scheduler")]
Retry = Annotated[bool, typer.Option("--retry-failed", help="measure failed jobs again")]
Redo = Annotated[str, typer.Option(help="comma-separated methods to measure again although the store has their rows")]
Out = Annotated[Path, typer.Option(help="folder for tables and figures")]


@app.command()
def catalogue(data: Data = None, catalogue: CatalogueFile = None, check: bool = False) -> None:
    """List the tables; with --check, read each and compare its checksum."""
    from experiments.catalogue.table import checksum

    source = TableSource(data, catalogue)
    wrong = 0
    for entry in read_catalogue(catalogue):
        state = entry.half if entry.available else "not available"
        if check and entry.available:
            same = checksum(source.frame(entry)) == entry.checksum
            wrong += not same
            state = f"{state}, {'same' if same else 'DIFFERS'}"
        typer.echo(f"{entry.group:11} {entry.name:26} {entry.rows:7} × {entry.features:<6} {entry.task:11} {state}")
    if wrong:
        raise typer.Exit(1)


@app.command()
def untuned(
    data: Data = None,
    store: Path = RESULTS / "untuned.jsonl",
    also: Also = [],  # noqa: B006
    methods: Methods = "unbiasedgbm,catboost,chimeraboost,perpetual,lightgbm,xgboost,hist_gradient_boosting",
    ours: Annotated[list[str], typer.Option(help="a variant of our method, label={JSON parameters}; repeatable")] = [],  # noqa: B006
    tables: Tables = "",
    groups: Groups = "",
    half: Half = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="binarised targets as they were: more regression and multiclass")
    ] = False,
    splits: int = 3,
    max_rows: Annotated[
        int, typer.Option(help="most rows in each of the training and test parts; 0 for no cap")
    ] = 20_000,
    catalogue: CatalogueFile = None,
    processes: Processes = 1,
    threads: Threads = 1,
    dask: Dask = None,
    retry_failed: Retry = False,
    redo: Redo = "",
) -> None:
    """Run every method at its defaults, then print the comparison."""
    from experiments.reports.untuned import summary
    from experiments.studies.untuned import chains

    entries = _entries(catalogue, tables, groups, half)
    if raw:
        entries = [entry for entry in entries if entry.raw_task != entry.task]
    variants = dict(_variant(text) for text in ours)
    jobs = chains(entries, _words(methods), variants, splits, max_rows or None, "@raw" if raw else "")
    failures = _run("untuned", jobs, store, also, (data, catalogue, threads), (processes, dask), retry_failed, redo)
    from experiments.store import Store

    keys = {chain.start.key for chain in jobs}
    typer.echo(summary(Store(store, also).rows("untuned"), keys))
    raise typer.Exit(1 if failures else 0)


@app.command()
def pack(store: Path, target: Annotated[Path | None, typer.Argument()] = None) -> None:
    """Compress a store for committing."""
    from experiments.store import pack as compress

    compress(store, target or store.with_suffix(".jsonl.gz"))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _variant(text: str) -> tuple[str, dict[str, object]]:
    label, equals, params = text.partition("=")
    try:
        values = json.loads(params)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"{params!r} is not JSON: {error}", param_hint="--ours") from None
    if not equals or not isinstance(values, dict):
        raise typer.BadParameter('expected label={"parameter": value, ...}', param_hint="--ours")
    return label, values


def _entries(catalogue: str | None, tables: str, groups: str, half: str | None, paper: bool = False) -> Sequence[Entry]:
    if half not in (None, "search", "check"):
        raise typer.BadParameter(f"{half!r} is neither 'search' nor 'check'", param_hint="--half")
    listed = read_catalogue(catalogue)
    if tables:
        return [listed[name] for name in _words(tables)]
    return listed.available(half=half, groups=tuple(_words(groups)), paper=paper)


def _run(
    title: str,
    jobs: list,
    store: Path,
    also: list[Path],
    bench: tuple[str | None, str | None, int],
    workers: tuple[int, str | None],
    retry_failed: bool,
    redo: str,
) -> int:
    """Run jobs and report the failures; returns how many there were."""
    from experiments.progress import Progress
    from experiments.runner import run
    from experiments.store import Store
    from experiments.studies.bench import Bench
    from experiments.workers import Workers

    folder, catalogue, threads = bench
    outcome = run(
        jobs,
        Store(store, also),
        Workers(*workers),
        Bench(TableSource(folder, catalogue), threads),
        Progress(title),
        retry_failed=retry_failed,
        redo=_words(redo),
    )
    for row in outcome.failures:
        typer.echo(f"FAILED {row['table']} / {row['method']} / seed {row['seed']}: {row['error']}", err=True)
    return len(outcome.failures)
