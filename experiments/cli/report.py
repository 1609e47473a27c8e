"""Commands that turn a store into pages and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.catalogue import TableSource
from experiments.cli import options
from experiments.cli.options import RESULTS, words

REPORTS = ("untuned", "unseen", "tuned", "selection", "qsar", "toy", "groups")


def report(
    which: Annotated[str, typer.Argument(help=f"One of {', '.join(REPORTS)}; or all.")] = "all",
    stores: Annotated[list[Path] | None, typer.Option("--store", help="A store to read; repeatable.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the pages and figures.")] = Path("docs/study"),
    methods: Annotated[str, typer.Option(help="Methods and labels of the untuned comparison; all if empty.")] = "",
    catalogue: options.CatalogueFile = None,
) -> None:
    """Rebuild pages and figures from the rows; without --store from everything in experiments/results."""
    from experiments.reports.pages import write_report
    from experiments.store import Store

    if which not in (*REPORTS, "all"):
        raise typer.BadParameter(f"{which!r} is none of {', '.join(REPORTS)}, all")
    # Later files win, and what is not committed yet is newer than what is.
    files = stores or [*sorted(RESULTS.glob("*.jsonl.gz")), *sorted(RESULTS.glob("*.jsonl"))]
    missing = [str(file) for file in files if not file.exists()]
    if missing or not files:
        raise typer.BadParameter(f"no store at {', '.join(missing) or RESULTS}", param_hint="--store")
    store = Store(files[-1], also=files[:-1])
    out.mkdir(parents=True, exist_ok=True)
    for name in REPORTS if which == "all" else [which]:
        for path in write_report(name, store, out, TableSource(catalogue=catalogue), words(methods)):
            typer.echo(str(path))


def pack(
    store: Annotated[Path, typer.Argument(help="A .jsonl store.")],
    target: Annotated[Path | None, typer.Argument(help="By default the same name with .gz.")] = None,
) -> None:
    """Compress a store for committing."""
    from experiments.store import pack as compress

    compress(store, target or store.with_suffix(".jsonl.gz"))
