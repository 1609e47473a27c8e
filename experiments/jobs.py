"""A job is what one row of the store measures; a chain is a sequence of jobs that must run one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

FIELDS = ("study", "table", "method", "seed", "number", "options")


@dataclass(frozen=True)
class Job:
    """One measurement to be made.

    Parameters
    ----------
    study : str
        Which study's function measures it, see :data:`experiments.studies.MEASURES`.
    table, method : str
        What is measured; `method` is a label, which for variants of our own defaults is chosen on the command line.
    seed : int
        Decides the split and the method's random numbers.
    number : int
        Place in its chain, e.g. the tuning iteration.
    options : mapping
        Everything else that decides the outcome; plain JSON values.
    """

    study: str
    table: str
    method: str
    seed: int
    number: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The identity of the job as canonical JSON."""
        return json.dumps(self.fields(), sort_keys=True)

    def fields(self) -> dict[str, Any]:
        """The job as the first columns of its row."""
        return {name: getattr(self, name) for name in FIELDS}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Job:
        """Return the job that a row measured."""
        return cls(**{name: row[name] for name in FIELDS})


@dataclass(frozen=True)
class Chain:
    """Jobs 0 to `length` − 1 of the same kind, in order, each of which may depend on the rows before it.

    Parameters
    ----------
    start : Job
        The first job.
    length : int
    cost : float
        Rough size of one job, for the display of the time left.
    """

    start: Job
    length: int = 1
    cost: float = 1.0

    def job(self, number: int) -> Job:
        """Return the job at a place of the chain."""
        return Job(**{**self.start.fields(), "number": number})


Measure = Callable[[Job, list[dict[str, Any]], Any], dict[str, Any]]
"""``measure(job, rows of the chain so far, bench) → columns of the new row``."""
