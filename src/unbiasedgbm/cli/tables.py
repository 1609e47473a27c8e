"""Tables for the command line: reading files, finding the target, inferring the task, holding rows out."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit, train_test_split

# A target of whole numbers with at most so many values is taken for classes.
_MOST_CLASSES = 20


class CommandError(Exception):
    """Something that the user can put right; shown without a traceback."""


def read_table(path: Path) -> pd.DataFrame:
    """Read CSV (also gzipped, also with tabs) or parquet, by the name of the file."""
    name = path.name.lower().removesuffix(".gz")
    if not path.exists():
        raise CommandError(f"There is no file {path}.")
    try:
        if name.endswith((".parquet", ".pq")):
            table = pd.read_parquet(path)
        elif name.endswith((".csv", ".tsv", ".txt")):
            table = pd.read_csv(path, sep="\t" if name.endswith(".tsv") else ",")
        else:
            raise CommandError(f"{path}: the name must end with .csv, .tsv (also .gz) or .parquet.")
    except (ValueError, OSError, pd.errors.ParserError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    if table.empty:
        raise CommandError(f"{path} has no rows.")
    return table


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write CSV or parquet, by the name of the file."""
    if path.name.lower().endswith((".parquet", ".pq")):
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False)


@dataclass(frozen=True)
class Labelled:
    """Features and target, and where it is known, which rows belong together."""

    X: pd.DataFrame
    y: pd.Series
    groups: pd.Series | None = None

    def take(self, rows: Any) -> Labelled:
        """Some of the rows."""
        groups = None if self.groups is None else self.groups.iloc[rows]
        return Labelled(self.X.iloc[rows], self.y.iloc[rows], groups)


def _check_column(table: pd.DataFrame, name: str, path: Path) -> None:
    """Raise if a table lacks a column."""
    if name in table:
        return
    names = {str(column).lower(): str(column) for column in table.columns}
    close = difflib.get_close_matches(name.lower(), names, 1)
    hint = f" Did you mean {names[close[0]]!r}?" if close else f" It has: {', '.join(map(str, table.columns[:12]))}."
    raise CommandError(f"{path} has no column {name!r}.{hint}")


def with_groups(rows: Labelled, column: str, path: Path) -> Labelled:
    """The same rows, which belong together where a column has the same value; it stays a feature here."""
    _check_column(rows.X, column, path)
    groups = rows.X[column]
    if groups.isna().any():
        raise CommandError(
            f"--groups: the column {column!r} of {path} is missing in {int(groups.isna().sum()):,} rows."
        )
    return Labelled(rows.X, rows.y, groups)


def split_off_target(table: pd.DataFrame, target: str, path: Path) -> tuple[Labelled, int]:
    """Features and target of the rows whose target is known, and the number of the others."""
    _check_column(table, target, path)
    known = table[target].notna()
    table = table[known]
    if table.empty:
        raise CommandError(f"{path}: the target {target!r} is missing in every row.")
    return Labelled(table.drop(columns=target), table[target]), int((~known).sum())


def infer_task(y: pd.Series) -> tuple[str, str]:
    """Task that a target calls for, and the reason in words."""
    n_values = y.nunique()
    if not pd.api.types.is_numeric_dtype(y) or pd.api.types.is_bool_dtype(y):
        return "classification", f"the target is not a number and has {n_values} values"
    if n_values == 2:
        return "classification", "the target has two values"
    if n_values <= _MOST_CLASSES and bool((y == np.floor(y)).all()):
        return "classification", f"the target has {n_values} whole numbers as values"
    return "regression", f"the target is a number with {n_values:,} values"


def hold_out(rows: Labelled, share: float, seed: int, task: str) -> tuple[Labelled, Labelled]:
    """Training and held-out rows: the same for the same table, share and seed."""
    if not 0 < share < 1:
        raise CommandError(f"--holdout must lie between 0 and 1; got {share:g}.")
    if rows.groups is not None:
        return _hold_out_groups(rows, rows.groups, share, seed)
    stratify = rows.y if task == "classification" and rows.y.value_counts().min() >= 2 else None
    try:
        parts = train_test_split(rows.X, rows.y, test_size=share, random_state=seed, stratify=stratify)
    except ValueError:
        parts = train_test_split(rows.X, rows.y, test_size=share, random_state=seed)
    X_train, X_val, y_train, y_val = parts
    return Labelled(X_train, y_train), Labelled(X_val, y_val)


def _hold_out_groups(rows: Labelled, groups: pd.Series, share: float, seed: int) -> tuple[Labelled, Labelled]:
    """Hold whole groups out."""
    numbers = pd.factorize(groups)[0]
    try:
        train, held = next(GroupShuffleSplit(1, test_size=share, random_state=seed).split(numbers, groups=numbers))
    except ValueError:
        raise CommandError(f"--groups: {numbers.max() + 1} groups are too few for --holdout {share:g}.") from None
    return rows.take(train), rows.take(held)


def columns_of_model(table: pd.DataFrame, names: Any, path: Path) -> pd.DataFrame:
    """The columns that a model was trained on, in its order; others are left out."""
    wanted = [str(name) for name in names]
    gone = [name for name in wanted if name not in table]
    if gone:
        raise CommandError(f"{path} lacks {len(gone)} columns of the model: {', '.join(gone[:8])}.")
    return table[wanted]
