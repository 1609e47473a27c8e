"""Which rows were held out: `train` keeps in the model file how it did it, and others do it again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unbiasedgbm.cli.foreign import AnyModel
from unbiasedgbm.cli.tables import CommandError, Labelled, hold_out, infer_task
from unbiasedgbm.files.model_file import Note, load_notes

DEFAULT_SHARE, DEFAULT_SEED = 0.2, 0

_NAMES = ("task", "holdout", "seed", "rows")
_GROUPS = "train.groups"


@dataclass(frozen=True)
class Split:
    """How rows are held out of a table.

    Attributes
    ----------
    task : {"classification", "regression"}
        Classes keep their shares in both parts.
    share : float
    seed : int
    groups : str or None
        The column that names rows that belong together, which are held out together.
    """

    task: str
    share: float = DEFAULT_SHARE
    seed: int = DEFAULT_SEED
    groups: str | None = None

    def parts(self, rows: Labelled) -> tuple[Labelled, Labelled]:
        """Training and held-out rows."""
        return hold_out(rows, self.share, self.seed, self.task)

    def notes(self, rows: Labelled) -> dict[str, Note]:
        """What the model file keeps."""
        values: tuple[Note, ...] = (self.task, self.share, self.seed, len(rows.y))
        notes = {f"train.{name}": value for name, value in zip(_NAMES, values, strict=True)}
        return notes if self.groups is None else {**notes, _GROUPS: self.groups}


def split_of_model(
    found: AnyModel, path: Path, rows: Labelled, data: Path, share: float | None, seed: int | None, groups: str | None
) -> tuple[Split, bool]:
    """The split that a model was trained with, and whether its file says so.

    Parameters
    ----------
    rows : Labelled
        All rows of ``data`` with a target.
    share, seed, groups
        What the user says; None for nothing. It must not contradict the file.
    """
    notes = _notes(found, path)
    kept = [notes.get(f"train.{name}") for name in _NAMES]
    if None in kept:
        drawn = (DEFAULT_SHARE if share is None else share, DEFAULT_SEED if seed is None else seed)
        return Split(_task(found, rows), *drawn, groups), False
    task, kept_share, kept_seed, n_rows = kept
    if (
        task not in ("classification", "regression")
        or not isinstance(kept_share, float)
        or not isinstance(kept_seed, int)
        or not isinstance(n_rows, int)
    ):
        raise CommandError(f"{path}: its notes on the held-out rows cannot be read; name them with --holdout-data.")
    column = groups_of_model(found, path)
    said_and_noted = (("--holdout", share, kept_share), ("--seed", seed, kept_seed), ("--groups", groups, column))
    for option, said, noted in said_and_noted:
        if said is not None and said != noted:
            was = f"with {option} {noted}" if noted is not None else f"without {option}"
            raise CommandError(
                f"{path} was trained {was}; got {option} {said}, with which rows of the training "
                f"would count as held out. Leave {option} away."
            )
    if n_rows != len(rows.y):
        raise CommandError(
            f"{data} has {len(rows.y):,} rows with a target, but {path} was trained on a part of {n_rows:,}: what was "
            "held out cannot be told. Give the table of the training, or name held-out rows with --holdout-data."
        )
    return Split(task, kept_share, kept_seed, column), True


def groups_of_model(found: AnyModel, path: Path) -> str | None:
    """The column that named groups of rows in the training, as the model file says."""
    column = _notes(found, path).get(_GROUPS)
    return column if isinstance(column, str) else None


def _notes(found: AnyModel, path: Path) -> dict[str, Note]:
    return load_notes(path) if found.library == "unbiasedgbm" else {}


def _task(found: AnyModel, rows: Labelled) -> str:
    if found.library != "unbiasedgbm":
        return infer_task(rows.y)[0]
    return "classification" if hasattr(found.model, "classes_") else "regression"
