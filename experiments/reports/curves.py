"""Normalised score against tuning iterations: the paper's main figure, its ablations and its role ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.methods import title
from experiments.metrics import GREATER_IS_BETTER, PRIMARY
from experiments.reports.style import GROUP_TITLES, colour, new_figure, save
from experiments.statistics import normalise

SPLIT = ["table", "seed"]


def oriented(frame: pd.DataFrame) -> pd.DataFrame:
    """Add ``valid`` and ``test``: the primary metric of each row's task, turned so that greater is better."""
    frame = frame.copy()
    for part in ("valid", "test"):
        values = [
            row[f"{part}_{PRIMARY[row['task']]}"] * (1 if PRIMARY[row["task"]] in GREATER_IS_BETTER else -1)
            for _, row in frame.iterrows()
        ]
        frame[part] = values
    return frame


def best_so_far(frame: pd.DataFrame, column: str = "test") -> pd.DataFrame:
    """Follow the model that is best on the validation rows.

    Parameters
    ----------
    frame : DataFrame
        One line a tuning iteration, with ``table``, ``seed``, ``method``, ``number`` and ``valid``, see
        :func:`oriented`.
    column : str
        What to report of the best model.

    Returns
    -------
    curves : DataFrame
        Lines (table, seed, method), columns 1, 2, ... iterations: `column` of the model with the best validation score
        of the first so many iterations (the earliest, if several are equal); missing beyond the last iteration that
        was run.
    """
    curves = {}
    for key, chain in frame.sort_values("number", kind="stable").groupby([*SPLIT, "method"], sort=False):
        valid = chain["valid"].to_numpy()
        leader = [int(np.argmax(valid[: count + 1])) for count in range(len(valid))]
        curves[key] = pd.Series(chain[column].to_numpy()[leader], index=np.arange(1, len(valid) + 1))
    result = pd.DataFrame(curves).T
    result.index.names = [*SPLIT, "method"]
    return result


def normalised_curves(frame: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """Best-so-far test scores between 0, the worst model on that split of the table, and 1, the best.

    Tables and iterations that some of the methods lack are left out. The worst and the best are taken over every model
    in `frame`, those of methods that are not shown included.
    """
    frame = oriented(frame)
    limits = frame.groupby(SPLIT)["test"].agg(["min", "max"])
    curves = best_so_far(frame[frame["method"].isin(methods)])
    enough = curves.groupby(level=SPLIT).size() == len(methods)
    curves = curves[enough.reindex(curves.index.droplevel("method")).to_numpy()].dropna(axis=1)
    splits = curves.index.droplevel("method")
    worst, best = (pd.Series(limits[side].reindex(splits).to_numpy(), index=curves.index) for side in ("min", "max"))
    return normalise(curves, worst, best).reindex(methods, level="method")


def plot_curves(curves: pd.DataFrame, groups: Mapping[str, str], path: Path) -> Path | None:
    """Draw one panel a group: mean over the tables, shaded by its standard error.

    Parameters
    ----------
    curves : DataFrame
        From :func:`normalised_curves`.
    groups : mapping of table to group
    path : Path
    """
    group_of = curves.index.get_level_values("table").map(groups.__getitem__)
    shown = [group for group in GROUP_TITLES if (group_of == group).any()]
    if not shown:
        return None
    columns = min(2, len(shown))
    figure, axes = new_figure(-(-len(shown) // columns), columns)
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    for axis, group in zip(axes.flat, shown, strict=False):
        part = curves[group_of == group]
        tables = part.index.get_level_values("table").nunique()
        for method in curves.index.get_level_values("method").unique():
            lines = part.xs(method, level="method")
            by_table = lines.groupby(level="table").mean()
            mean, error = by_table.mean(), by_table.sem().fillna(0.0)
            axis.plot(mean.index, mean, color=colour(method), label=title(method), lw=1.6)
            axis.fill_between(mean.index, mean - error, mean + error, color=colour(method), alpha=0.12, lw=0)
        axis.set_title(f"{GROUP_TITLES[group]} ({tables} tables)")
        axis.set(xlabel="tuning iterations", ylabel="normalised test score")
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes.flat[0].legend(fontsize=8)
    return save(figure, path)
