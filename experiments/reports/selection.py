"""Feature selection: AUC of models on the features that each importance picks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from experiments.reports import paper
from experiments.reports.critical_difference import plot_critical_difference
from experiments.reports.markdown import markdown_table
from experiments.reports.rows import complete, failed, measured, scores
from experiments.reports.style import colour, new_figure, save
from experiments.statistics import average_ranks, nemenyi, wilcoxon_against
from experiments.store import Row
from experiments.studies.importances import IMPORTANCES, TITLES
from experiments.studies.selection import FOLDS, FOUND, LEVEL, SHARES

OURS = "unbiased_gain"
FOUND_TITLES = {
    "all_features": "all of them",
    "permutation_found": "found by permutation",
    "unbiased_gain_found": "found by unbiased gain",
}


def write(rows: Iterable[Row], out: Path) -> list[Path]:
    """Write ``selection.md`` and its figures from the rows of the selection study."""
    rows = list(rows)
    frame = measured(rows)
    if frame.empty:
        return []
    kinds = [kind for kind in IMPORTANCES if (frame["method"] == kind).any()]
    ranked = frame[frame["method"].isin(kinds)]
    by_share = {share: complete(scores(ranked, f"test_auc_{share}"))[kinds] for share in SHARES}
    mean = sum(by_share.values()) / len(by_share)
    figure = _plot(by_share, out / "selection-auc.svg")
    diagram = plot_critical_difference(mean, out / "selection-ranks.svg", greater_is_better=True)
    parts = [
        "# Feature selection",
        f"{len(mean)} tables with more than 30 features, {frame['seed'].nunique()} splits. A LightGBM model on the top "
        "10, 20 and 30 % of the features; the error bars are standard deviations over tables.",
        f"![AUC by share of features]({figure.name})",
        _table(by_share),
        "## Ranks of the mean over the three shares",
        _ranks(mean),
    ]
    if diagram is not None:
        parts.append(f"![Average ranks and critical difference]({diagram.name})")
    if frame["method"].isin(FOUND).any():
        parts.append(_found(frame[frame["method"].isin(FOUND)]))
    if failures := failed(rows):
        parts.append("## Failures\n\n" + "\n".join(f"* {line}" for line in failures))
    page = out / "selection.md"
    page.write_text("\n\n".join(parts) + "\n")
    return [page, figure, *([diagram] if diagram else [])]


def _found(frame: pd.DataFrame) -> str:
    """Features that are significant at a false discovery rate: how many, and the AUC of a model with them."""
    auc, share = (complete(scores(frame, column)) for column in ("test_auc", "share"))
    lines = pd.DataFrame({"mean AUC": auc.mean(), "share of the features": share.mean(), "smallest AUC": auc.min()})
    formats = {"mean AUC": ".4f", "share of the features": ".2f", "smallest AUC": ".3f"}
    return (
        f"## Features found at a false discovery rate of {LEVEL:g}\n\n"
        f"By cross-fitting with {FOLDS} folds on training and validation rows (`UnbiasedGainSelector`; permutation "
        "importance is pooled over the same folds in the same way). A model with the features found, measured on the "
        "test rows; with none found, its AUC is 0.5.\n\n"
        + markdown_table(lines.rename(index=FOUND_TITLES), formats, "features")
    )


def _table(by_share: dict[int, pd.DataFrame]) -> str:
    """Mean and variance of the AUC over tables, by importance and share."""
    columns = {}
    for share, table in by_share.items():
        columns[f"mean AUC, {share} %"] = table.mean()
        columns[f"variance, {share} %"] = table.var()
    lines = pd.DataFrame(columns).rename(index=TITLES)
    return markdown_table(lines, dict.fromkeys(lines, ".4f"), "importance")


def _ranks(mean: pd.DataFrame) -> str:
    lines = pd.DataFrame({"average rank": average_ranks(mean, greater_is_better=True)})
    lines["paper"] = pd.Series(paper.SELECTION_RANKS)
    if OURS in mean and mean.shape[1] > 1:
        lines["Wilcoxon p"] = wilcoxon_against(mean, OURS, greater_is_better=True)["p"]
        if len(mean) > 1 and mean.shape[1] > 2:
            lines["Nemenyi p"] = nemenyi(mean, greater_is_better=True)[OURS].drop(OURS)
        lines["paper's p"] = pd.Series(paper.SELECTION_P)
    formats = {"average rank": ".2f", "paper": ".2f", "Wilcoxon p": "p", "Nemenyi p": "p", "paper's p": ".3f"}
    return markdown_table(lines.rename(index=TITLES), formats, "importance")


def _plot(by_share: dict[int, pd.DataFrame], path: Path) -> Path:
    figure, axes = new_figure(width=5.5)
    axis = axes[0, 0]
    kinds = next(iter(by_share.values())).columns
    for place, kind in enumerate(kinds):
        offset = (place - (len(kinds) - 1) / 2) * 1.2
        positions = [share + offset for share in by_share]
        means = [table[kind].mean() for table in by_share.values()]
        spread = [table[kind].std() for table in by_share.values()]
        axis.errorbar(positions, means, spread, fmt="o", ms=5, capsize=2, lw=1, color=colour(kind), label=TITLES[kind])
    axis.set(xticks=list(by_share), xlabel="features kept (%)", ylabel="test AUC")
    axis.legend(fontsize=8, loc="lower right")
    return save(figure, path)
