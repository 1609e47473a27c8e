"""Commands about the tables."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.catalogue import TableSource, read_catalogue
from experiments.cli.options import CatalogueFile, Data


def catalogue(
    data: Data = None,
    catalogue: CatalogueFile = None,
    check: Annotated[bool, typer.Option("--check", help="Read every table and compare its checksum.")] = False,
) -> None:
    """List the tables of the study."""
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
        typer.echo(f"{wrong} tables differ from the catalogue", err=True)
        raise typer.Exit(1)


def halves(catalogue: CatalogueFile = None) -> None:
    """Print the search half and the check half, as the rule gives them."""
    from experiments.catalogue.halves import HALVES, split_halves

    split = split_halves(read_catalogue(catalogue))
    for half in HALVES:
        typer.echo(f"{half}: {', '.join(name for name, side in split.items() if side == half)}")
