"""Lockstep: pieces of work that ask questions go on by turns, and what they ask is asked at once.

Each has a thread of its own, of which one runs at a time: until it asks, then the next one. So their order is always
the same, and they need not know of each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from unbiasedgbm.distributed.station import Step
from unbiasedgbm.distributed.statistics import Ask

T = TypeVar("T")
Work = Callable[[Ask], T]


class _Stopped(BaseException):
    """Nobody will answer."""


class _Voice(Generic[T]):
    """A piece of work in its thread."""

    result: T

    def __init__(self, work: Work[T]) -> None:
        self._answers: SimpleQueue[list[Any] | None] = SimpleQueue()
        # what it asks next; None when it is done
        self._questions: SimpleQueue[list[Step] | BaseException | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(work,), name="unbiasedgbm-lockstep", daemon=True)

    def _run(self, work: Work[T]) -> None:
        try:
            self.result = work(self._ask)
        except _Stopped:
            return
        except BaseException as error:
            self._questions.put(error)
        else:
            self._questions.put(None)

    def _ask(self, *steps: Step) -> list[Any]:
        self._questions.put(list(steps))
        answers = self._answers.get()
        if answers is None:
            raise _Stopped
        return answers

    def start(self) -> list[Step] | None:
        """Its first question."""
        self._thread.start()
        return self._next()

    def go_on(self, answers: list[Any]) -> list[Step] | None:
        """Its next question."""
        self._answers.put(answers)
        return self._next()

    def _next(self) -> list[Step] | None:
        question = self._questions.get()
        if isinstance(question, BaseException):
            raise question
        return question

    def stop(self) -> None:
        """Have it end when it asks next."""
        self._answers.put(None)

    def join(self) -> None:
        """Wait for its end."""
        if self._thread.is_alive():
            self._thread.join()


def in_lockstep(works: Sequence[Work[T]], send: Callable[[list[list[Step]]], list[list[Any]]]) -> list[T]:
    """Do all works; returns their results.

    Parameters
    ----------
    works : sequence of callables
        Each is given a function to ask with.
    send : callable
        Takes the questions of all works that are not done, each a list of steps; returns their answers.
    """
    if len(works) == 1:
        return [works[0](lambda *steps: send([list(steps)])[0])]
    voices = [_Voice(work) for work in works]
    try:
        asked = [(voice, voice.start()) for voice in voices]
        while waiting := [(voice, question) for voice, question in asked if question is not None]:
            answers = send([question for _, question in waiting])
            asked = [(voice, voice.go_on(answer)) for (voice, _), answer in zip(waiting, answers, strict=True)]
    finally:
        # all are told before any is waited for: a second Ctrl-C may end the wait
        for voice in voices:
            voice.stop()
        for voice in voices:
            voice.join()
    return [voice.result for voice in voices]
