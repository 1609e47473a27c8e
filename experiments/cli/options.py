"""Options that several commands share, and how their text becomes what the code wants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.catalogue import Entry, TableSource, read_catalogue

RESULTS = Path(__file__).parents[1] / "results"

Data = Annotated[str | None, typer.Option(help="Folder with the prepared tables; without it they are fetched.")]
CatalogueFile = Annotated[str | None, typer.Option("--catalogue", help="Another catalogue file than the study's.")]
StoreFile = Annotated[Path, typer.Option("--store", help="The store to append to.")]
Also = Annotated[list[Path] | None, typer.Option("--with", help="A further store to read; repeatable.")]
Methods = Annotated[str, typer.Option(help="Names of methods, separated by commas.")]
Tables = Annotated[str, typer.Option(help="Names of tables, separated by commas; all if empty.")]
Groups = Annotated[str, typer.Option(help="Groups of tables, separated by commas; all if empty.")]
Half = Annotated[str | None, typer.Option(help="Only the 'search' or the 'check' half of the tables.")]
MaxRows = Annotated[int, typer.Option(help="Most rows in any part of a split; 0 for no cap.")]
Processes = Annotated[int, typer.Option(help="How many processes measure.")]
Threads = Annotated[int, typer.Option(help="Threads of a fit.")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds after which a job is given up as failed.")]
Dask = Annotated[str | None, typer.Option(help="Address of a Dask scheduler that measures instead.")]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Measure failed jobs again.")]
Redo = Annotated[str, typer.Option(help="Methods to measure again although the store has their rows.")]


def words(text: str) -> list[str]:
    """Split a comma-separated option."""
    return [word.strip() for word in text.split(",") if word.strip()]


def variant(text: str) -> tuple[str, dict[str, Any]]:
    """Read a variant of our method, ``label={"parameter": value}``."""
    label, equals, params = text.partition("=")
    try:
        values = json.loads(params)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"{params!r} is not JSON: {error}", param_hint="--ours") from None
    if not equals or not label or not isinstance(values, dict):
        raise typer.BadParameter('expected label={"parameter": value, ...}', param_hint="--ours")
    return label, values


def choose(
    catalogue: str | None, tables: str, groups: str, half: str | None = None, *, paper: bool = False
) -> dict[str, Entry]:
    """Return the tables that were asked for, by name or view, cheapest first."""
    if half not in (None, "search", "check"):
        raise typer.BadParameter(f"{half!r} is neither 'search' nor 'check'", param_hint="--half")
    if tables:
        source = TableSource(catalogue=catalogue)
        return {name: source.entry(name) for name in words(tables)}
    listed = read_catalogue(catalogue).available(half=half, groups=tuple(words(groups)), paper=paper)
    return {entry.name: entry for entry in listed}
