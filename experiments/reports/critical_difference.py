"""The critical-difference diagram of Demšar (2006)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.methods import title
from experiments.reports.style import colour, new_figure, save
from experiments.statistics import average_ranks, critical_difference

ALPHA = 0.05


def cliques(ranks: pd.Series, difference: float) -> list[tuple[str, str]]:
    """Return the longest runs of methods that do not differ: (best, worst) of each run of at least two.

    Parameters
    ----------
    ranks : Series
        Average ranks by method.
    difference : float
        The critical difference.
    """
    order = ranks.sort_values()
    runs: list[tuple[int, int]] = []
    for start in range(len(order)):
        end = max(i for i in range(start, len(order)) if order.iloc[i] - order.iloc[start] < difference)
        if end > start and (not runs or end > runs[-1][1]):
            runs.append((start, end))
    return [(order.index[start], order.index[end]) for start, end in runs]


def plot_critical_difference(scores: pd.DataFrame, path: Path, *, greater_is_better: bool) -> Path | None:
    """Draw the average ranks on a line, and bars over methods that the Nemenyi test cannot tell apart.

    Parameters
    ----------
    scores : DataFrame, tables × methods
        Without missing values.
    path : Path
    greater_is_better : bool
    """
    if len(scores) < 2 or scores.shape[1] < 2:
        return None
    ranks = average_ranks(scores, greater_is_better=greater_is_better).sort_values()
    count = len(ranks)
    difference = critical_difference(count, len(scores), ALPHA)
    figure, axes = new_figure(width=6.5, height=0.9 + 0.22 * count)
    axis = axes[0, 0]
    bottom = -1.0 - 0.5 * (count + 1) // 2
    axis.set(xlim=(0.2, count + 0.8), ylim=(bottom - 0.6, 1.6), yticks=[], xticks=range(1, count + 1))
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.tick_params(length=0, labelbottom=False)
    axis.hlines(0, 1, count, color="black", lw=1)
    for tick in range(1, count + 1):
        axis.vlines(tick, 0, 0.12, color="black", lw=1)
        axis.text(tick, 0.2, str(tick), ha="center", va="bottom")
    axis.hlines(1.1, 1, 1 + difference, color="black", lw=2)
    axis.text(1 + difference / 2, 1.15, f"critical difference {difference:.2f}", ha="center", va="bottom", fontsize=8)
    half = (count + 1) // 2
    for place, (method, rank) in enumerate(ranks.items()):
        left = place < half
        level = -1.0 - 0.5 * (place if left else count - 1 - place)
        end = 0.9 if left else count + 0.1
        axis.plot([rank, rank, end], [0, level, level], color=colour(method), lw=1)
        label = f"{title(method)} ({rank:.2f})"
        axis.text(
            end, level, f"{label} " if left else f" {label}", ha="right" if left else "left", va="center", fontsize=8
        )
    for row, (best, worst) in enumerate(cliques(ranks, difference)):
        axis.hlines(-0.25 - 0.18 * row, ranks[best] - 0.03, ranks[worst] + 0.03, color="black", lw=3)
    axis.set_xlim(-1.2, count + 2.2)
    return save(figure, path)
