"""A limit on the time of a job, so that one that hangs is a failure like any other."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class OutOfPatience(Exception):
    """A job took longer than its time limit."""


@contextmanager
def patience(seconds: float | None) -> Iterator[None]:
    """Raise :class:`OutOfPatience` in the block when the time is up.

    The alarm is heard between two steps of Python code: a single call of compiled code is not interrupted, but given
    up as soon as it returns. Only the main thread of a process can set an alarm; elsewhere (threads of a Dask worker)
    there is no limit.

    Parameters
    ----------
    seconds : float or None
        None for no limit.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(*_: Any) -> None:
        raise OutOfPatience(f"not done after {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
