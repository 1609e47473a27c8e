"""Progress with time left: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LINE_EVERY_SECONDS = 60.0


class Progress:
    """Shows how far a run is, weighted by the cost of the jobs.

    Parameters
    ----------
    title : str
    terminal : bool or None
        None asks the standard error stream.
    """

    def __init__(self, title: str, terminal: bool | None = None) -> None:
        self.title = title
        self.terminal = sys.stderr.isatty() if terminal is None else terminal
        self._bar: Any = None
        self._done = self._total = 0.0
        self._jobs = 0

    @contextmanager
    def over(self, total: float) -> Iterator[Progress]:
        """Show progress until the context ends; `total` is the cost of all jobs."""
        self._done, self._total, self._jobs = 0.0, total, 0
        self._started = self._shown = time.monotonic()
        if not self.terminal:
            yield self
            self._line()
            return
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = TextColumn(self.title), BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeElapsedColumn()
        with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as self._bar:
            self._task = self._bar.add_task(self.title, total=total)
            yield self
        self._bar = None

    def advance(self, cost: float) -> None:
        """Count a finished job."""
        self._done += cost
        self._jobs += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=cost)
        elif time.monotonic() - self._shown >= LINE_EVERY_SECONDS:
            self._line()

    def report(self, message: str) -> None:
        """Say something without disturbing the bar."""
        if self._bar is not None:
            self._bar.console.print(message, markup=False)
        else:
            print(message, file=sys.stderr, flush=True)

    def _line(self) -> None:
        self._shown = time.monotonic()
        share = self._done / self._total if self._total else 1.0
        left = (self._shown - self._started) * (1 - share) / share if share else float("inf")
        self.report(f"{self.title}: {self._jobs} jobs, {share:.1%} of the work, about {left / 60:.0f} minutes left")
