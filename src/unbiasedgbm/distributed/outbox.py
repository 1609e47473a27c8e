"""Outbox: questions on their way, and steps that need no answer, which wait for one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from unbiasedgbm.distributed.station import Step

Send = Callable[[list[Step]], list[Any]]
"""Takes steps, returns the merged answers of all stations."""


@dataclass
class Outbox:
    """What all stations are asked.

    Attributes
    ----------
    send : callable
    waiting : list of Step
        Sent before the next question.
    """

    send: Send
    waiting: list[Step] = field(default_factory=list)

    def ask(self, *steps: Step) -> list[Any]:
        """Send the steps that wait, then these; returns the answers to these."""
        return self.ask_together([list(steps)])[0]

    def ask_together(self, questions: list[list[Step]]) -> list[list[Any]]:
        """Send the steps that wait, then those of several questions; returns the answers to each of these."""
        steps = [*self.waiting, *chain.from_iterable(questions)]
        answers = iter(self.send(steps)[len(self.waiting) :])
        self.waiting = []
        return [list(islice(answers, len(steps))) for steps in questions]
