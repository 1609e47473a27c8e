"""The append-only store: one JSON object a line, one line a measurement.

A line is appended under a lock and reaches the disk before the next measurement starts, so several processes may write
to one file and a killed one loses at most the line it was writing. A torn last line is ignored by readers and cut off
by the next writer. Rows are never changed: the latest row of a key counts.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from experiments.jobs import Job

Row = dict[str, Any]


class Store:
    """Rows in a file, read from any number of files.

    Parameters
    ----------
    path : path-like
        A ``.jsonl`` file, made on the first append, or a ``.jsonl.gz`` file, which is read only.
    also : iterable of path-like
        Further files whose rows are seen as well, e.g. the committed rows of the rivals. On a key that several files
        have, `path` wins, then the later file.
    """

    def __init__(self, path: Path | str, also: Iterable[Path | str] = ()) -> None:
        self.path = Path(path)
        self.also = [Path(file) for file in also]

    def rows(self, study: str | None = None) -> list[Row]:
        """Return the latest row of every key, in the order in which the keys first appeared."""
        latest: dict[str, Row] = {}
        for file in [*self.also, self.path]:
            for row in read_lines(file):
                if study is None or row["study"] == study:
                    latest[Job.from_row(row).key] = row
        return list(latest.values())

    def append(self, row: Row) -> None:
        """Add a row; it is on the disk when this returns."""
        if self.path.suffix == ".gz":
            raise ValueError(f"{self.path} is compressed and read only; name a .jsonl file to write to")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(row, sort_keys=True, allow_nan=False).encode() + b"\n"
        with self.path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _cut_torn_line(file)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def read_lines(path: Path) -> Iterator[Row]:
    """Yield the rows of a file; nothing if it does not exist. A last line without its end is not a row."""
    if not path.exists():
        return
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def pack(source: Path, target: Path) -> None:
    """Compress a store; equal rows give equal bytes."""
    partial = target.with_suffix(".partial")
    with source.open("rb") as rows, partial.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        shutil.copyfileobj(rows, packed)
    partial.replace(target)


def _cut_torn_line(file: Any) -> None:
    """Remove what a killed writer left after the last line end. The lock is held, so nobody is still writing it."""
    end = file.seek(0, os.SEEK_END)
    position = end
    while position > 0:
        step = min(4096, position)
        file.seek(position - step)
        newline = file.read(step).rfind(b"\n")
        if newline >= 0:
            position += newline + 1 - step
            break
        position -= step
    if position < end:
        file.truncate(position)
    file.seek(0, os.SEEK_END)
