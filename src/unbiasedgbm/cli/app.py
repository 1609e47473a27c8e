"""The commands."""

from __future__ import annotations

import ast
import shlex
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from unbiasedgbm._version import __version__
from unbiasedgbm.cli.foreign import AnyModel, read_any_model
from unbiasedgbm.cli.split import DEFAULT_SEED, DEFAULT_SHARE, Split, groups_of_model, split_of_model
from unbiasedgbm.cli.tables import (
    CommandError,
    Labelled,
    check_output,
    columns_of_model,
    infer_task,
    read_table,
    split_off_target,
    with_groups,
    write_table,
)

out = Console()
err = Console(stderr=True)


class _Commands(typer.core.TyperGroup):
    """Errors that the user can put right are one line and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except CommandError as error:
            message = str(error)
        except (ValueError, TypeError, OSError, RuntimeError, ModuleNotFoundError) as error:
            if isinstance(error, typer.Exit | typer.Abort) or "--debug" in sys.argv:
                raise
            message = f"{error} (add --debug after 'unbiasedgbm' for the whole story)"
        err.print("[bold red]Error[/]", end=" ")
        err.print(message, markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Gradient boosting and feature importance judged by rows that did not choose the splits.",
)

ModelFile = Annotated[Path, typer.Argument(help="Model file.", show_default=False)]
DataFile = Annotated[Path, typer.Argument(help="Table: .csv, .tsv (also .gz) or .parquet.", show_default=False)]
Target = Annotated[str, typer.Option("--target", "-t", help="Column to predict.", show_default=False)]
Share = Annotated[
    float | None, typer.Option("--holdout", help="Share of the rows that was held out, if the model file does not say.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Of the held-out rows, if the model file does not say.")]
HeldOutFile = Annotated[
    Path | None, typer.Option("--holdout-data", help="Held-out rows in a file of their own, instead of a share.")
]
Groups = Annotated[
    str | None, typer.Option("--groups", help="Column that names rows that belong together: patient, customer, day.")
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; all that this process may use by default.")]


def _show_version(asked: bool) -> None:
    if asked:
        out.print(f"unbiasedgbm {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _start(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    warnings.simplefilter("default" if debug else "ignore")


@app.command(
    epilog="Examples:\n\n"
    "  unbiasedgbm train houses.parquet --target price -o model.json\n\n"
    "  unbiasedgbm train churn.csv -t churned -o model.json.gz --set n_estimators=1000 --set split_rule=merged\n\n"
    "  unbiasedgbm train visits.csv -t pressure --groups patient"
)
def train(
    data: DataFile,
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes.")] = Path("model.json"),
    task: Annotated[str, typer.Option(help="classification, regression, or auto.")] = "auto",
    holdout: Annotated[float, typer.Option("--holdout", help="Share of the rows that is held out.")] = DEFAULT_SHARE,
    seed: Annotated[int, typer.Option("--seed", help="Of the held-out rows and of the training.")] = DEFAULT_SEED,
    groups: Groups = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the estimator, as name=value; may be repeated.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Save to this file on the way, and go on from it if it is there.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds of training at most.")] = None,
    jobs: Jobs = None,
) -> None:
    """Train a model, score it on held-out rows, and save it.

    With [bold]--groups[/], rows that belong together are held out together, and none judges a split that another one
    chose; the column itself is no feature.
    """
    from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
    from unbiasedgbm.callbacks import Checkpoint, ProgressBar, TimeLimit
    from unbiasedgbm.files.model_file import save_model

    check_output(output)
    check_output(checkpoint, "--checkpoint")
    rows, n_unknown = split_off_target(read_table(data), target, data)
    if n_unknown:
        out.print(f"{n_unknown:,} rows without a target are left out.")
    chosen, why = infer_task(rows.y) if task == "auto" else (task, "as asked for")
    if chosen not in ("classification", "regression"):
        raise CommandError(f"--task must be classification, regression or auto; got {task!r}.")
    if groups is not None:
        rows = with_groups(rows, groups, data)
        rows = replace(rows, X=rows.X.drop(columns=groups))
    out.print(f"[bold]{chosen.capitalize()}[/] ({why}): {len(rows.X):,} rows, {rows.X.shape[1]:,} features.")
    kind = UnbiasedGBMClassifier if chosen == "classification" else UnbiasedGBMRegressor
    model = kind(**{"random_state": seed, "n_jobs": jobs, **_parameters(settings or [], kind)})
    split = Split(chosen, holdout, seed, groups)
    training, held_out = split.parts(rows)
    callbacks: list[Any] = [ProgressBar(err)]
    callbacks += [] if checkpoint is None else [Checkpoint(checkpoint)]
    callbacks += [] if time_limit is None else [TimeLimit(time_limit)]
    start = time.monotonic()
    model.fit(training.X, training.y, groups=training.groups, callbacks=callbacks)
    spent = time.monotonic() - start
    save_model(model, output, split.notes(rows))
    out.print(f"{model.n_iter_:,} iterations in {spent:.1f} s. Held-out score ({len(held_out.X):,} rows):")
    out.print(_score_table(model, held_out))
    out.print(f"Saved to [bold]{output}[/]. Next:", end=" ", soft_wrap=True)
    next_command = shlex.join(["unbiasedgbm", "importance", str(output), str(data), "-t", target])
    out.print(next_command, markup=False, soft_wrap=True)


@app.command(epilog="Example:\n\n  unbiasedgbm predict model.json new.csv -o predictions.csv --proba")
def predict(
    model_file: ModelFile,
    data: DataFile,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV or parquet; else to the terminal.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities of all classes as well.")] = False,
    jobs: Jobs = None,
) -> None:
    """Predict the rows of a table. Columns that the model does not know are left out."""
    check_output(output)
    found = _own_model(model_file)
    model, table = found.model, found.read_table(data)
    model.set_params(n_jobs=jobs)
    X = table if not hasattr(model, "feature_names_in_") else columns_of_model(table, model.feature_names_in_, data)
    answers = {"prediction": model.predict(X)}
    if proba:
        if not hasattr(model, "predict_proba"):
            raise CommandError("--proba needs a classifier; this model is a regressor.")
        answers |= {f"p({label})": p for label, p in zip(model.classes_, model.predict_proba(X).T, strict=True)}
    frame = pd.DataFrame(answers)
    if output is None:
        typer.echo(frame.to_csv(index=False), nl=False)
    else:
        write_table(frame, output)
        out.print(f"{len(frame):,} predictions in [bold]{output}[/].", soft_wrap=True)


@app.command(
    epilog="Examples:\n\n"
    "  unbiasedgbm importance model.json data.csv -t y\n\n"
    "  unbiasedgbm importance xgboost.ubj train.parquet -t y --holdout-data test.parquet -o importance.csv"
)
def importance(
    model_file: Annotated[
        Path,
        typer.Argument(
            help="Ours (.json, .json.gz), XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm).", show_default=False
        ),
    ],
    data: DataFile,
    target: Target,
    holdout: Share = None,
    seed: Seed = None,
    holdout_data: HeldOutFile = None,
    groups: Groups = None,
    top: Annotated[int, typer.Option(help="Features to show.")] = 20,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="All of it, as CSV or parquet.")] = None,
    paper_sums: Annotated[
        bool, typer.Option("--paper-sums", help="The paper's sums, which are for models of one tree.")
    ] = False,
    jobs: Jobs = None,
) -> None:
    """Unbiased gain of a trained model, with confidence, beside plain gain.

    Held-out rows must not have been trained on. Without [bold]--holdout-data[/] they are the rows of the same table
    that [bold]unbiasedgbm train[/] held out, as its model file says; for other models --holdout and --seed draw them.
    Rows that belong together are one observation: those of the training's --groups, or of the column named here.
    """
    from unbiasedgbm.importance import TrainingRowsWarning, gain_importance, unbiased_gain

    # what makes an importance worthless is said in any case
    warnings.simplefilter("always", TrainingRowsWarning)
    check_output(output)
    found = read_any_model(model_file)
    rows, training, held_out = _rows(found, model_file, data, target, holdout, seed, holdout_data, groups)
    (X_train, y_train), (X_val, y_val) = (
        (found.prepare(part.X, path, rows.X), found.encode(part.y, path, rows.y))
        for part, path in ((training, data), (held_out, holdout_data or data))
    )
    unbiased = unbiased_gain(
        found.model, X_train, y_train, X_val, y_val, row_groups_val=held_out.groups, paper_sums=paper_sums, n_jobs=jobs
    )
    gain = gain_importance(found.model, X_train, y_train, n_jobs=jobs)
    out.print(f"{found.library} model, {len(X_train):,} training and {len(X_val):,} held-out rows.")
    out.print(importance_table(unbiased, gain, top))
    if output is not None:
        frame = unbiased.to_frame()
        frame["plain_gain"] = gain.importance[unbiased.ranking()]
        write_table(frame, output)
        out.print(f"All {len(frame)} features in [bold]{output}[/].", soft_wrap=True)


@app.command(epilog="Example:\n\n  unbiasedgbm report model.json data.csv -t y -o report.html")
def report(
    model_file: ModelFile,
    data: DataFile,
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file.")] = Path("report.html"),
    holdout: Share = None,
    seed: Seed = None,
    holdout_data: HeldOutFile = None,
    groups: Groups = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    jobs: Jobs = None,
) -> None:
    """Write a page about a model: importance, learning curves, effects, trees, parameters, data.

    Held-out rows as in [bold]unbiasedgbm importance[/].
    """
    from unbiasedgbm.report import write_report

    check_output(output)
    found = _own_model(model_file)
    model = found.model
    _, training, held_out = _rows(found, model_file, data, target, holdout, seed, holdout_data, groups)
    names = getattr(model, "feature_names_in_", training.X.columns)
    X_train = columns_of_model(training.X, names, data)
    X_val = columns_of_model(held_out.X, names, holdout_data or data)
    write_report(
        model, output, X_train, training.y, X_val, held_out.y, row_groups_val=held_out.groups,
        title=title or f"{target} from {data.name}", n_jobs=jobs,
    )  # fmt: skip
    out.print(f"The report is in [bold]{output}[/].", soft_wrap=True)


@app.command()
def warmup() -> None:
    """Compile everything now, so that no later call has to wait."""
    from unbiasedgbm.precompile import warmup as compile_all

    start = time.monotonic()
    compile_all()
    out.print(f"Compiled in {time.monotonic() - start:.1f} s.")


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the report page goes.")] = Path(
        "unbiasedgbm-demo.html"
    ),
    seed: Annotated[int, typer.Option(help="Of the data and of the models.")] = 0,
) -> None:
    """See the problem and the remedy on data that ships with the install; takes less than a minute."""
    from unbiasedgbm.demo import run

    check_output(output)
    run(out, output, seed)


# -- parts of the commands -------------------------------------------------------------------------------------------


def _own_model(path: Path) -> AnyModel:
    found = read_any_model(path)
    if found.library != "unbiasedgbm":
        raise CommandError(f"{path} is a model of {found.library}; this command works on models of UnbiasedGBM.")
    return found


def _rows(
    found: AnyModel,
    model_file: Path,
    data: Path,
    target: str,
    holdout: float | None,
    seed: int | None,
    holdout_data: Path | None,
    groups: str | None,
) -> tuple[Labelled, Labelled, Labelled]:
    """All rows of the table, those of the training, and those held out."""
    table = found.read_table(data, target)
    rows, _ = split_off_target(table, target, data)
    if holdout_data is not None:
        held_out, _ = split_off_target(found.read_table(holdout_data, target, table), target, holdout_data)
        column = groups or groups_of_model(found, model_file)
        return rows, rows, held_out if column is None else with_groups(held_out, column, holdout_data)
    split, known = split_of_model(found, model_file, rows, data, holdout, seed, groups)
    if split.groups is not None:
        rows = with_groups(rows, split.groups, data)
    if not known:
        err.print(
            f"{model_file} does not say which rows it was trained on. What follows holds only if they were not those "
            f"held out here: --holdout {split.share:g} --seed {split.seed}.",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
    return rows, *split.parts(rows)


def _parameters(settings: list[str], kind: Any) -> dict[str, Any]:
    """Parameters from name=value, each read as the table of parameters says."""
    table = {parameter.name: parameter for parameter in kind._parameters}
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in table:
            known = ", ".join(sorted(table))
            raise CommandError(f"--set wants name=value with one of these names: {known}; got {setting!r}.")
        values[name] = _parse_parameter(name, text, table[name].kind)
        try:
            table[name].check(values[name])
        except ValueError as error:
            raise CommandError(str(error)) from error
    return values


def _parse_parameter(name: str, text: str, kind: str) -> Any:
    if text[:1] in ("[", "(", "{"):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise CommandError(f"--set {name}: {text} is no list or mapping as Python writes it.") from None
    value = _parse(text, kind)
    if name == "categorical_features" and value is not None and value != "from_dtype":
        return value if isinstance(value, list) else [value]
    # one group, as a list of groups
    return [value] if name == "interaction_cst" and isinstance(value, list) else value


def _parse(text: str, kind: str) -> Any:
    if text.lower() in ("none", "null"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind == "choice":
        return text
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return [_parse(part, kind) for part in text.split(",")] if "," in text else text


def _score_table(model: Any, rows: Labelled) -> RichTable:
    from unbiasedgbm.report.rows import ReportRows
    from unbiasedgbm.report.summary import scores

    table = RichTable(show_header=False, box=None, padding=(0, 2))
    for score in scores(model, ReportRows.read(model, rows.X, rows.y, rows.X, rows.y)):
        table.add_row(score["name"], f"[bold]{score['val']:.4f}[/]")
    return table


def importance_table(unbiased: Any, gain: Any, top: int) -> RichTable:
    """Unbiased gain with whiskers beside plain gain, for the terminal."""
    from unbiasedgbm.report.importances import verdict

    colours = {"helps": "green", "unclear": "dim", "unused": "dim"}
    table = RichTable(
        title="Unbiased gain and plain gain", title_justify="left", header_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("#", justify="right", style="dim")
    table.add_column("feature", overflow="fold", min_width=16)
    for name in ("unbiased", "± 95 %", "p adj.", "plain", "rank"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    rank = np.empty(len(gain.importance), dtype=int)
    rank[gain.ranking()] = np.arange(1, len(rank) + 1)
    adjusted = unbiased.p_adjusted
    for place, j in enumerate(unbiased.ranking()[:top], start=1):
        word = verdict(float(adjusted[j]), int(unbiased.n_splits[j]))
        half = unbiased.ci_high[j] - unbiased.importance[j]
        table.add_row(
            str(place), unbiased.feature_names[j], f"{unbiased.importance[j]:.3g}", f"{half:.2g}", f"{adjusted[j]:.2g}",
            f"{gain.importance[j]:.3g}", str(rank[j]), f"[{colours[word]}]{word}[/]",
        )  # fmt: skip
    return table
