"""The untuned comparison: average ranks, Wilcoxon tests, ratios of errors and of times."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pandas as pd

from experiments.jobs import Job
from experiments.methods import title
from experiments.metrics import GREATER_IS_BETTER, PRIMARY
from experiments.reports.markdown import markdown_table
from experiments.reports.rows import complete, failed, measured, scores
from experiments.statistics import average_ranks, geometric_mean_ratio, nemenyi, ranks, wilcoxon_against
from experiments.store import Row

REFERENCE = "unbiasedgbm"
TIME_BASE = "lightgbm"
RATIO_BASES = ("catboost", "lightgbm")
ON_ANY_DAY = "Rows may have been measured on different days."
IN_ONE_RUN = "All methods of a table were measured one after the other."
METRICS = {
    "binary": {"auc": "AUC", "log_loss": "log loss", "calibration_error": "calibration error"},
    "multiclass": {"log_loss": "log loss", "auc": "AUC", "accuracy": "accuracy"},
    "regression": {"rmse": "RMSE"},
}


def summary(
    rows: Iterable[Row],
    keys: Collection[str] | None = None,
    reference: str | None = None,
    timed: Iterable[Row] = (),
) -> str:
    """Write the comparison as Markdown.

    Parameters
    ----------
    rows : iterable of Row
        Rows of the untuned study.
    keys : collection of str or None
        The jobs to compare; None for all rows.
    reference : str or None
        The method that the others are tested against; by default ours, or the best if it is absent.
    timed : iterable of Row
        Rows of all methods, measured in one run, whose times are reported in place of those of ``rows``.
    """
    rows = [row for row in rows if keys is None or Job.from_row(row).key in keys]
    frame = measured(rows)
    if frame.empty:
        return "No measurements."
    _one_meaning_per_label(frame)
    parts = [overall(frame, reference)]
    parts += [task_section(frame, task, reference) for task in METRICS if (frame["task"] == task).any()]
    clock = measured(timed)
    parts.append(times(frame) if clock.empty else times(clock, IN_ONE_RUN))
    parts += [by_table(frame), provenance(frame)]
    failures = failed(rows)
    if failures:
        parts.append("## Failures\n\n" + "\n".join(f"* {line}" for line in failures))
    return "\n\n".join(parts)


def overall(frame: pd.DataFrame, reference: str | None) -> str:
    """Average rank over tables of all tasks, each by its primary metric."""
    table = overall_ranks(frame)
    if table.empty:
        return "## All tables\n\nNo table is complete yet."
    return f"## All {counted(len(table), 'table')}\n\n" + comparison(table, "rank", False, reference, "mean rank")


def overall_ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """Rank of every method on every complete table: comparable between tasks where the scores are not."""
    by_task = []
    for task, metric in PRIMARY.items():
        table = complete(_scores(frame, task, metric))
        if not table.empty:
            by_task.append(ranks(table, greater_is_better=metric in GREATER_IS_BETTER))
    return pd.concat(by_task) if by_task else pd.DataFrame()


def task_section(frame: pd.DataFrame, task: str, reference: str | None) -> str:
    """Everything about the tables of one task."""
    parts = [f"## {task.capitalize()} tables"]
    for metric, name in METRICS[task].items():
        table = complete(_scores(frame, task, metric))
        started = frame.loc[frame["task"] == task, "table"].nunique()
        if table.empty:
            parts.append(f"### {name}\n\nNo table is complete yet.")
            continue
        left_out = f" ({started - len(table)} more incomplete)" if started > len(table) else ""
        heading = f"### {name[0].upper()}{name[1:]}, {counted(len(table), 'table')}{left_out}"
        parts.append(heading + "\n\n" + comparison(table, metric, metric in GREATER_IS_BETTER, reference, name))
    return "\n\n".join(parts)


def comparison(table: pd.DataFrame, metric: str, greater: bool, reference: str | None, name: str) -> str:
    """One metric: means, average ranks, tests against the reference, and ratios where errors have different scales.

    Parameters
    ----------
    table : DataFrame, tables × methods
        Without missing values.
    """
    rank = average_ranks(table, greater_is_better=greater)
    reference = reference or (REFERENCE if REFERENCE in table else rank.idxmin())
    columns = {"average rank": rank}
    if metric == "rmse":
        for base in RATIO_BASES:
            if base in table:
                columns[f"{name} / {title(base)}"] = geometric_mean_ratio(table, base)
    elif metric != "rank":
        columns[f"mean {name}"] = table.mean()
    lines = pd.DataFrame(columns)
    if table.shape[1] > 1:
        tests = wilcoxon_against(table, reference, greater_is_better=greater)
        won = f"{title(reference)} won/lost/tied"
        lines[won] = tests.apply(lambda row: f"{row.won:.0f}/{row.lost:.0f}/{row.tied:.0f}", axis=1)
        lines["Wilcoxon p"] = tests["p"]
        if len(table) > 1 and table.shape[1] > 2:
            lines["Nemenyi p"] = nemenyi(table, greater_is_better=greater)[reference].drop(reference)
    lines = lines.sort_values("average rank").rename(index=title)
    formats = {column: ".4f" for column in lines if column.startswith("mean") or "/ " in column}
    formats |= {"average rank": ".2f", "Wilcoxon p": "p", "Nemenyi p": "p"}
    return markdown_table(lines, formats, "method")


def times(frame: pd.DataFrame, when: str = ON_ANY_DAY) -> str:
    """Processor time of fit and prediction relative to LightGBM, geometric means over tables."""
    columns, tables = {}, 0
    for column, name in (("fit_cpu_seconds", "fit"), ("predict_cpu_seconds", "predict")):
        if column not in frame:
            return "## Time\n\nNo processor times were measured."
        # older rows have none; of a table, the splits count that have those of all methods
        by_split = frame.pivot_table(index=["table", "seed"], columns="method", values=column, sort=False).dropna()
        table = by_split.groupby(level="table", sort=False).mean().clip(lower=1e-3)
        if table.empty:
            return "## Time\n\nNo table has processor times of all methods yet."
        base = TIME_BASE if TIME_BASE in table else table.columns[0]
        columns[f"{name} time / {title(base)}"] = geometric_mean_ratio(table, base)
        tables = len(table)
    lines = pd.DataFrame(columns).rename(index=title)
    splits = counted(frame["seed"].nunique(), "split")
    heading = f"## Time, {counted(tables, 'table')}\n\nProcessor time, geometric mean of ratios, {splits}. {when}\n\n"
    return heading + markdown_table(lines, dict.fromkeys(lines, ".2f"), "method")


def by_table(frame: pd.DataFrame) -> str:
    """The primary metric of every method on every table, mean over the splits; the best in bold."""
    lines = {}
    for task, metric in PRIMARY.items():
        for name, values in _scores(frame, task, metric).iterrows():
            best = values.max() if metric in GREATER_IS_BETTER else values.min()
            cells = {title(method): "–" if pd.isna(value) else f"{value:.4g}" for method, value in values.items()}
            for method in values.index[values == best]:
                cells[title(method)] = f"**{cells[title(method)]}**"
            lines[name] = {"metric": METRICS[task][metric], **cells}
    return "## By table\n\n" + markdown_table(pd.DataFrame.from_dict(lines, orient="index"), corner="table")


def provenance(frame: pd.DataFrame) -> str:
    """Splits, cap and versions; says so if one method's rows come from several states of its code."""
    versions = frame.groupby("method", sort=False)["versions"].agg(
        lambda column: sorted({number for row in column for name, number in row.items() if name != "python"})
    )
    lines = [f"* {title(method)}: {', '.join(numbers)}" for method, numbers in versions.items()]
    mixed = [title(method) for method, numbers in versions.items() if len(numbers) > 1]
    if mixed:
        lines.append(f"* **Rows of {', '.join(mixed)} come from different versions; measure again with --redo.**")
    cap = frame["options"].iloc[0]["max_rows"]
    rows = f"at most {cap:,} rows to train and at most {cap:,} to test" if cap else "all rows"
    tables, splits = counted(frame["table"].nunique(), "table"), counted(frame["seed"].nunique(), "split")
    text = (
        f"{tables}, {splits}; two thirds of a table to train, {rows}. "
        "Ties share their ranks; tests are over tables, on the mean of the splits."
    )
    return f"## What was run\n\n{text}\n\n" + "\n".join(lines)


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: 1 table, 2 tables."""
    return f"{number} {noun}" + "s" * (number != 1)


def _scores(frame: pd.DataFrame, task: str, metric: str) -> pd.DataFrame:
    part = frame[frame["task"] == task]
    if part.empty:
        return pd.DataFrame()
    return scores(part, f"test_{metric}").reindex(columns=frame["method"].unique())


def _one_meaning_per_label(frame: pd.DataFrame) -> None:
    meanings = frame.assign(options=frame["options"].map(str)).groupby("method")["options"].nunique()
    unclear = meanings.index[meanings > 1].tolist()
    if unclear:
        raise ValueError(f"rows of {unclear} were measured with different options; restrict them or use another label")
