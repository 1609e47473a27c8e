"""Threads: a pool of our own that calls serial kernels, survives a fork and starts nothing until it is needed."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

import joblib

_lock = threading.Lock()
_helpers: SimpleQueue[_Helper] = SimpleQueue()
_n_workers = 0


class _Helper:
    """Work that a worker may do, unless its end comes before a worker does."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        self._claim = threading.Lock()
        # a queue of the standard library's C code: a third of the cost of an executor and its futures
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()

    def begin(self) -> None:
        """Do the work; called by a worker."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            if self._work is not None:
                self._work()
        except BaseException as error:
            self._done.put(error)
        else:
            self._done.put(None)

    def end(self) -> BaseException | None:
        """Call the work off, or, if it has begun, wait for its end; returns its error."""
        if self._claim.acquire(blocking=False):
            # it may stand in the queue for long; nothing of a fit must live on in it
            self._work = None
            return None
        return self._done.get()


def _forget() -> None:
    """In a forked child the parent's threads do not exist: start anew."""
    global _lock, _helpers, _n_workers
    _lock = threading.Lock()
    _helpers = SimpleQueue()
    _n_workers = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def effective_n_jobs(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``, as scikit-learn counts them.

    None means the cores that this process may use: affinity, container limits and the limit that joblib sets in its
    workers (OMP_NUM_THREADS) are respected. Negative numbers count from the end: −1 is all cores.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 has no meaning; use None, a positive number, or -1 for all cores.")
    if n_jobs is not None and n_jobs > 0:
        return n_jobs
    cores = int(joblib.cpu_count())
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        if limit.isdigit() and int(limit) > 0:
            cores = min(cores, int(limit))
        return max(1, cores)
    return max(1, cores + 1 + n_jobs)


def _serve(helpers: SimpleQueue[_Helper]) -> None:
    """What a worker does all its life."""
    while True:
        helper = helpers.get()
        helper.begin()
        # nothing of a fit must live on in a thread that waits for the next one
        del helper


def _send(works: Sequence[Callable[[], Any]], sent: list[_Helper], n_workers: int) -> None:
    """Offer works to the workers, of which there are at least ``n_workers``; each is entered in ``sent``."""
    global _n_workers
    with _lock:
        while _n_workers < n_workers:
            threading.Thread(target=_serve, args=(_helpers,), name=f"unbiasedgbm-{_n_workers}", daemon=True).start()
            _n_workers += 1
    for work in works:
        sent.append(_Helper(work))
        _helpers.put(sent[-1])


class Pool:
    """Runs a list of calls on up to ``n_threads`` threads, the calling one included.

    Parameters
    ----------
    n_threads : int
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads

    def run(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call ``function(*a)`` for every a; results in the order of ``arguments``.

        Tasks wait for none that has not begun, so pools of several fits, and a pool in a task of another, may share the
        threads.
        """
        if self.n_threads == 1 or len(arguments) <= 1:
            return [function(*a) for a in arguments]
        todo = deque(range(len(arguments)))
        results: list[Any] = [None] * len(arguments)

        def work() -> None:
            while True:
                try:
                    k = todo.popleft()
                except IndexError:
                    return
                results[k] = function(*arguments[k])

        helpers: list[_Helper] = []
        try:
            # all of the pool's workers: tasks may have pools of their own, with a part of the threads each
            _send([work] * (min(self.n_threads, len(arguments)) - 1), helpers, self.n_threads - 1)
            work()
        finally:
            errors = [helper.end() for helper in helpers]
        for error in errors:
            if error is not None:
                raise error
        return results

    def run_team(self, lead: Callable[[], Any], others: Sequence[Callable[[], Any]], stop: Callable[[], None]) -> Any:
        """Call ``lead`` here, and meanwhile ``others`` on other threads, as far as there are any to spare.

        Parameters
        ----------
        lead : callable
            Must come to an end without the others.
        others : sequence of callables
            Work until ``stop`` was called.
        stop : callable
        """
        helpers: list[_Helper] = []
        try:
            _send(others, helpers, len(others))
            return lead()
        finally:
            stop()
            for helper in helpers:
                helper.end()

    def blocks(self, n: int, smallest: int) -> list[tuple[int, int]]:
        """Cut 0..n into blocks of at least ``smallest``, a few to a thread."""
        n_blocks = max(1, min(self.n_threads * 4 if self.n_threads > 1 else 1, n // max(smallest, 1)))
        edges = [n * k // n_blocks for k in range(n_blocks + 1)]
        return list(pairwise(edges))
