"""Which rows were held out: `train` keeps in the model file how it did it, and others do it again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unbiasedgbm.cli.foreign import AnyModel
from unbiasedgbm.cli.tables import CommandError, Labelled, hold_out, infer_task
from unbiasedgbm.files.model_file import Note, load_notes

DEFAULT_SHARE, DEFAULT_SEED = 0.2, 0

_NAMES = ("task", "holdout", "seed", "rows")


@dataclass(frozen=True)
class Split:
    """How rows are held out of a table.

    Attributes
    ----------
    task : {"classification", "regression"}
        Classes keep their shares in both parts.
    share : float
    seed : int
    """

    task: str
    share: float = DEFAULT_SHARE
    seed: int = DEFAULT_SEED

    def parts(self, rows: Labelled) -> tuple[Labelled, Labelled]:
        """Training and held-out rows."""
        return hold_out(rows, self.share, self.seed, self.task)

    def notes(self, rows: Labelled) -> dict[str, Note]:
        """What the model file keeps."""
        values: tuple[Note, ...] = (self.task, self.share, self.seed, len(rows.y))
        return {f"train.{name}": value for name, value in zip(_NAMES, values, strict=True)}


def split_of_model(
    found: AnyModel, path: Path, rows: Labelled, data: Path, share: float | None, seed: int | None
) -> tuple[Split, bool]:
    """The split that a model was trained with, and whether its file says so.

    Parameters
    ----------
    rows : Labelled
        All rows of ``data`` with a target.
    share, seed
        What the user says; None for nothing. It must not contradict the file.
    """
    notes = load_notes(path) if found.library == "unbiasedgbm" else {}
    kept = [notes.get(f"train.{name}") for name in _NAMES]
    if None in kept:
        drawn = (DEFAULT_SHARE if share is None else share, DEFAULT_SEED if seed is None else seed)
        return Split(_task(found, rows), *drawn), False
    task, kept_share, kept_seed, n_rows = kept
    if (
        task not in ("classification", "regression")
        or not isinstance(kept_share, float)
        or not isinstance(kept_seed, int)
        or not isinstance(n_rows, int)
    ):
        raise CommandError(f"{path}: its notes on the held-out rows cannot be read; name them with --holdout-data.")
    for option, said, noted in (("--holdout", share, kept_share), ("--seed", seed, kept_seed)):
        if said is not None and said != noted:
            raise CommandError(
                f"{path} was trained with {option} {noted}; got {option} {said}, with which rows of the training "
                f"would count as held out. Leave {option} away."
            )
    if n_rows != len(rows.y):
        raise CommandError(
            f"{data} has {len(rows.y):,} rows with a target, but {path} was trained on a part of {n_rows:,}: what was "
            "held out cannot be told. Give the table of the training, or name held-out rows with --holdout-data."
        )
    return Split(task, kept_share, kept_seed), True


def _task(found: AnyModel, rows: Labelled) -> str:
    if found.library != "unbiasedgbm":
        return infer_task(rows.y)[0]
    return "classification" if hasattr(found.model, "classes_") else "regression"
