"""Every table as a dot: our method against a rival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from experiments.methods import title
from experiments.reports.style import colour, new_figure, save


def plot_dots(
    scores: pd.DataFrame, ours: str, rivals: Sequence[str], categorical: Mapping[str, bool], path: Path
) -> Path | None:
    """Draw one panel a rival; a dot above the diagonal is a table on which `ours` is better.

    Parameters
    ----------
    scores : DataFrame, tables × methods
        Normalised test scores.
    ours : str
    rivals : sequence of str
    categorical : mapping of table to bool
        Whether it has categorical features.
    path : Path
    """
    if scores.empty:
        return None
    figure, axes = new_figure(1, len(rivals), width=3.1, height=3.2)
    with_categories = scores.index.map(categorical.__getitem__).to_numpy(dtype=bool)
    for axis, rival in zip(axes[0], rivals, strict=True):
        for kind, name, marker in ((False, "numerical", "o"), (True, "categorical", "^")):
            part = scores[with_categories == kind]
            axis.scatter(part[rival], part[ours], s=18, marker=marker, color=colour(rival), alpha=0.8, label=name)
        axis.plot([0, 1], [0, 1], color="0.6", lw=0.8, zorder=0)
        won, lost = int((scores[ours] > scores[rival]).sum()), int((scores[ours] < scores[rival]).sum())
        axis.set(xlabel=title(rival), ylabel=title(ours), title=f"won {won}, lost {lost}", aspect="equal")
    axes[0, 0].legend(fontsize=7, loc="lower right")
    return save(figure, path)
