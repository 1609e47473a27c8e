"""The paper's main study: curves, dots, ranks, ablations, role ratios, log loss, time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from experiments.catalogue import TableSource
from experiments.methods import title
from experiments.reports import paper
from experiments.reports.critical_difference import plot_critical_difference
from experiments.reports.curves import best_so_far, normalised_curves, oriented, plot_curves
from experiments.reports.dots import plot_dots
from experiments.reports.markdown import markdown_table
from experiments.reports.rows import failed, measured
from experiments.reports.untuned import comparison
from experiments.statistics import average_ranks, geometric_mean_ratio, nemenyi
from experiments.store import Row

COMPARISONS = {
    "paper": ("xgboost", "lightgbm", "catboost", "merged"),
    "default": ("xgboost", "lightgbm", "catboost", "unbiasedgbm"),
    "ablation": ("merged", "without_se", "without_ub", "unbiasedgbm"),
    "ratios": ("merged", "separate_111", "separate_411"),
}
TITLES = {
    "paper": "The paper's four methods",
    "default": "Our default against the three libraries",
    "ablation": "Ablations: without separation (SE), without unbiased gain (UB)",
    "ratios": "Role ratios: 1:1+1, 1:1:1, 4:1:1",
}
OURS = {"paper": "merged", "default": "unbiasedgbm", "ablation": "merged", "ratios": "merged"}


def write(rows: Iterable[Row], out: Path, tables: TableSource) -> list[Path]:
    """Write the page ``tuned.md`` and its figures from the rows of the tuned study.

    Parameters
    ----------
    rows : iterable of Row
    out : Path
        A folder.
    tables : TableSource
        For the groups of the tables.

    Returns
    -------
    files : list of Path
    """
    rows = list(rows)
    frame = measured(rows)
    if frame.empty:
        return []
    parts, files = [f"# Tuned comparison\n\n{_what_was_run(frame)}"], []
    for name, methods in COMPARISONS.items():
        present = [method for method in methods if (frame["method"] == method).any()]
        if len(present) < 2 or OURS[name] not in present:
            continue
        text, figures = _section(name, frame, present, out, tables)
        parts.append(text)
        files += figures
    if failures := failed(rows):
        parts.append("## Failures\n\n" + "\n".join(f"* {line}" for line in failures))
    page = out / "tuned.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n")
    return [page, *files]


def _section(
    name: str, frame: pd.DataFrame, methods: list[str], out: Path, tables: TableSource
) -> tuple[str, list[Path]]:
    curves = normalised_curves(frame, methods)
    if curves.empty:
        return f"## {TITLES[name]}\n\nNo table has all of these methods yet.", []
    entries = {table: tables.entry(table) for table in curves.index.get_level_values("table").unique()}
    groups = {table: entry.group for table, entry in entries.items()}
    final = curves[curves.columns[-1]].groupby(level=["table", "method"]).mean().unstack("method")[methods]
    ours = OURS[name]
    rivals = [method for method in methods if method != ours]
    categorical = {table: entry.categorical > 0 for table, entry in entries.items()}
    drawn = {
        "Normalised test score of the best model on the validation rows, by tuning iterations": plot_curves(
            curves, groups, out / f"tuned-{name}-curves.svg"
        ),
        f"Normalised test score by table, {title(ours)} against each": plot_dots(
            final, ours, rivals, categorical, out / f"tuned-{name}-dots.svg"
        ),
        "Average ranks and critical difference": plot_critical_difference(
            final, out / f"tuned-{name}-ranks.svg", greater_is_better=True
        ),
    }
    parts = [f"## {TITLES[name]}", f"{len(final)} tables, {curves.columns[-1]} tuning iterations."]
    parts += [f"![{caption}]({file.name})" for caption, file in drawn.items() if file is not None]
    parts.append(comparison(final, "score", True, ours, "normalised score"))
    if name == "paper" and set(methods) == set(paper.AVERAGE_RANKS):
        parts.append("### Beside the paper\n\n" + _beside_the_paper(final))
    parts.append("### Log loss and time\n\n" + _log_loss_and_time(frame, methods))
    return "\n\n".join(parts), [file for file in drawn.values() if file is not None]


def _beside_the_paper(final: pd.DataFrame) -> str:
    """Average ranks and Nemenyi p-values here and there."""
    rank = average_ranks(final, greater_is_better=True)
    lines = pd.DataFrame({"average rank": rank, "paper": pd.Series(paper.AVERAGE_RANKS)})
    lines["difference"] = lines["average rank"] - lines["paper"]
    if len(final) > 1:
        lines["Nemenyi p"] = nemenyi(final, greater_is_better=True)["merged"].drop("merged")
    lines["paper's p"] = pd.Series(paper.NEMENYI_P)
    formats = {"average rank": ".2f", "paper": ".2f", "difference": "+.2f", "Nemenyi p": "p", "paper's p": ".3f"}
    return markdown_table(lines.rename(index=title), formats, "method")


def _log_loss_and_time(frame: pd.DataFrame, methods: list[str]) -> str:
    """Log loss of the chosen model on classification tables; processor time of an iteration, relative to LightGBM."""
    part = oriented(frame[frame["method"].isin(methods)])
    columns = {}
    if "test_log_loss" in part:
        last = best_so_far(part.dropna(subset="test_log_loss"), "test_log_loss").ffill(axis=1).iloc[:, -1]
        table = last.groupby(level=["table", "method"]).mean().unstack("method").dropna()
        columns["mean log loss"] = table.mean()
        columns["average rank"] = average_ranks(table, greater_is_better=False)
    seconds = part.pivot_table(index="table", columns="method", values="fit_cpu_seconds", aggfunc="mean").dropna()
    base = "lightgbm" if "lightgbm" in seconds else methods[0]
    columns[f"fit time / {title(base)}"] = geometric_mean_ratio(seconds.clip(lower=1e-3), base)
    lines = pd.DataFrame(columns).loc[methods].rename(index=title)
    return markdown_table(lines, {column: ".4f" if "loss" in column else ".2f" for column in lines}, "method")


def _what_was_run(frame: pd.DataFrame) -> str:
    iterations = frame.groupby(["table", "seed", "method"]).size()
    return (
        f"{frame['table'].nunique()} tables, {frame['seed'].nunique()} seeds, {frame['method'].nunique()} methods, "
        f"{iterations.min()} to {iterations.max()} tuning iterations, {len(frame)} models in all. Thirds for training, "
        "validation and test; parameters by Optuna from the paper's ranges."
    )
