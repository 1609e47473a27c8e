"""From rows of the store to frames of scores: tables × methods."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from experiments.store import Row


def measured(rows: Iterable[Row]) -> pd.DataFrame:
    """Return the rows without an error as a frame, one line a measurement."""
    return pd.DataFrame([row for row in rows if "error" not in row])


def failed(rows: Iterable[Row]) -> list[str]:
    """Return one line for every row with an error."""
    return [f"{row['table']} / {row['method']} / seed {row['seed']}: {row['error']}" for row in rows if "error" in row]


def scores(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Mean of a column over the splits, tables × methods; missing where a split is missing.

    Parameters
    ----------
    frame : DataFrame
        One line a measurement, with ``table``, ``method``, ``seed`` and `column`.
    """
    by_split = frame.pivot_table(index=["table", "seed"], columns="method", values=column, sort=False)
    every_split = pd.MultiIndex.from_product([frame["table"].unique(), frame["seed"].unique()], names=["table", "seed"])
    by_split = by_split.reindex(every_split)
    return by_split.groupby(level="table", sort=False).agg(lambda column: column.mean(skipna=False))


def complete(scores: pd.DataFrame) -> pd.DataFrame:
    """Leave out the tables on which some method has no score: methods are compared on equal terms only."""
    return scores.dropna()
