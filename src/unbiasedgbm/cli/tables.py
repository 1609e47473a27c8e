"""Tables for the command line: reading files, finding the target, inferring the task, holding rows out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from unbiasedgbm.categories import Level

# A target of whole numbers with at most so many values is taken for classes.
_MOST_CLASSES = 20

Positions = npt.NDArray[np.intp]


class CommandError(Exception):
    """Something that the user can put right; shown without a traceback."""


def read_table(path: Path, text: Iterable[str] = ()) -> pd.DataFrame:
    """Read CSV (also gzipped, also with tabs) or parquet, by the name of the file.

    Parameters
    ----------
    path : Path
    text : iterable of str, default=()
        Columns that are text, of which a CSV file says nothing; what others are is told by their cells.
    """
    name = path.name.lower().removesuffix(".gz")
    if not path.exists():
        raise CommandError(f"There is no file {path}.")
    try:
        if name.endswith((".parquet", ".pq")):
            table = pd.read_parquet(path)
        elif name.endswith((".csv", ".tsv", ".txt")):
            sep = "\t" if name.endswith(".tsv") else ","
            # in one piece: the type of a column is that of all its cells
            table = pd.read_csv(path, sep=sep, dtype=dict.fromkeys(text, str), low_memory=False)
        else:
            raise CommandError(f"{path}: the name must end with .csv, .tsv (also .gz) or .parquet.")
    except (ValueError, OSError, pd.errors.ParserError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    if table.empty:
        raise CommandError(f"{path} has no rows.")
    return table


def text_columns(table: pd.DataFrame) -> pd.Index:
    """Columns that are neither numbers nor booleans."""
    return table.select_dtypes(exclude=["number", "bool"]).columns


def as_levels(cells: pd.Series, levels: Sequence[Level]) -> pd.Series:
    """Cells of a categorical column: of those that were read as text, numbers where no level is that text."""
    text = {level for level in levels if isinstance(level, str)}
    if len(text) == len(levels) or pd.api.types.is_numeric_dtype(cells):
        return cells
    distinct = cells.dropna().unique().tolist()
    return cells.astype(object).map({cell: cell if cell in text else _number(cell) for cell in distinct})


def _number(cell: object) -> object:
    """The number or the truth value that a text says, or the cell as it is."""
    if not isinstance(cell, str):
        return cell
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    try:
        return pd.to_numeric(cell)
    except ValueError:
        return cell


def check_output(path: Path | None, option: str = "--output") -> None:
    """Raise, before any work is done, if there can be no file where the user wants one."""
    if path is None:
        return
    if path.is_dir():
        raise CommandError(f"{option} {path} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise CommandError(f"{option} {path}: there is no folder {path.parent}.")


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
    # booleans with gaps were read as objects
    return Labelled(table.drop(columns=target), table[target].infer_objects()), int((~known).sum())


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
    """Training and held-out rows: the same for the same table, share and seed.

    Of each class there are rows to train with.
    """
    if not 0 < share < 1:
        raise CommandError(f"--holdout must lie between 0 and 1; got {share:g}.")
    if rows.groups is not None:
        train, held = _hold_out_groups(rows.groups, share, seed)
    else:
        train, held = _hold_out_rows(rows.y, share, seed, task)
    if task == "classification":
        left_out = _only_held_out(rows, train, held)
        train, held = np.concatenate([train, held[left_out]]), held[~left_out]
        if len(held) == 0:
            raise CommandError(f"--holdout {share:g}: there is no row to hold out of a class that has others to train.")
    return rows.take(train), rows.take(held)


def _hold_out_rows(y: pd.Series, share: float, seed: int, task: str) -> tuple[Positions, Positions]:
    """Positions of training and held-out rows; classes keep their shares where all have rows enough."""
    stratify = y if task == "classification" and y.value_counts().min() >= 2 else None
    try:
        parts = train_test_split(np.arange(len(y)), test_size=share, random_state=seed, stratify=stratify)
    except ValueError:
        parts = train_test_split(np.arange(len(y)), test_size=share, random_state=seed)
    return parts[0], parts[1]


def _only_held_out(rows: Labelled, train: Positions, held: Positions) -> npt.NDArray[np.bool_]:
    """Which held-out rows have a class that no training row has, or belong together with such a row."""
    label = pd.factorize(rows.y)[0]
    found = ~np.isin(label[held], label[train])
    if rows.groups is None:
        return found
    group = pd.factorize(rows.groups)[0][held]
    return np.isin(group, group[found])


def _hold_out_groups(groups: pd.Series, share: float, seed: int) -> tuple[Positions, Positions]:
    """Positions of the rows of training groups and of held-out groups."""
    numbers = pd.factorize(groups)[0]
    try:
        train, held = next(GroupShuffleSplit(1, test_size=share, random_state=seed).split(numbers, groups=numbers))
    except ValueError:
        raise CommandError(f"--groups: {numbers.max() + 1} groups are too few for --holdout {share:g}.") from None
    return train, held


def columns_of_model(table: pd.DataFrame, names: Any, path: Path) -> pd.DataFrame:
    """The columns that a model was trained on, in its order; others are left out."""
    wanted = [str(name) for name in names]
    gone = [name for name in wanted if name not in table]
    if gone:
        raise CommandError(f"{path} lacks {len(gone)} columns of the model: {', '.join(gone[:8])}.")
    return table[wanted]
