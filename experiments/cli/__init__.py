"""The commands of the study. ``python -m experiments --help`` lists them."""

from __future__ import annotations

import typer

from experiments.cli import catalogue, report, run

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The paper's study: measure (untuned, unseen, times, tune, select-features, qsar, toy, groups), then report.",
)
app.command("catalogue")(catalogue.catalogue)
app.command("halves")(catalogue.halves)
app.command("untuned")(run.untuned)
app.command("unseen")(run.unseen)
app.command("times")(run.times)
app.command("tune")(run.tune)
app.command("select-features")(run.select_features)
app.command("qsar")(run.qsar)
app.command("toy")(run.toy)
app.command("groups")(run.groups)
app.command("report")(report.report)
app.command("pack")(report.pack)

__all__ = ["app"]
