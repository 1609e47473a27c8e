"""The runner: jobs in, rows out; safe to kill at any time, and to start again.

Only this process writes to the store. Workers (none, processes on this machine, or a Dask cluster) measure single
jobs; the next job of a chain is handed out when the row before it is on the disk. A job that fails becomes a row with
an ``error`` and ends its chain; everything else goes on.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

from experiments.jobs import Chain, Job
from experiments.patience import patience
from experiments.progress import Progress
from experiments.store import Row, Store
from experiments.studies import get_measure
from experiments.workers import Workers


@dataclass
class Outcome:
    """What a run did: how many jobs were measured, and the rows of those that failed."""

    measured: int = 0
    failures: list[Row] = field(default_factory=list)


@dataclass
class _Task:
    """A chain under way: the rows it has and, while it is out, its next job."""

    chain: Chain
    rows: list[Row]

    @property
    def next_job(self) -> Job | None:
        if len(self.rows) >= self.chain.length or any("error" in row for row in self.rows):
            return None
        return self.chain.job(len(self.rows))

    @property
    def jobs_left(self) -> int:
        return self.chain.length - len(self.rows)


def execute(job: Job, history: list[Row], bench: Any) -> Row:
    """Measure a job; in a worker. A failure is a row too."""
    try:
        with patience(bench.time_limit):
            return {**job.fields(), **get_measure(job.study)(job, history, bench)}
    except Exception as error:
        return failure(job, error)


def failure(job: Job, error: BaseException) -> Row:
    """Return the row of a failed job."""
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" (in {place[0].name})" if place else ""
    return {**job.fields(), "error": f"{type(error).__name__}: {str(error)[:500]}{where}"}


def run(
    chains: Iterable[Chain],
    store: Store,
    workers: Workers,
    bench: Any,
    progress: Progress,
    *,
    retry_failed: bool = False,
    redo: Iterable[str] = (),
) -> Outcome:
    """Measure every job that the store does not have yet.

    Parameters
    ----------
    chains : iterable of Chain
        In the order in which they should be started.
    store : Store
    workers : Workers
    bench : Bench
        Handed to every job.
    progress : Progress
    retry_failed : bool
        Measure jobs again whose row is an error.
    redo : iterable of str
        Methods whose rows are measured again, e.g. after their code has changed.

    Returns
    -------
    outcome : Outcome
    """
    known = {
        Job.from_row(row).key: row
        for row in store.rows()
        if not (retry_failed and "error" in row) and row["method"] not in set(redo)
    }
    tasks = [_resume(chain, known) for chain in chains]
    waiting = deque(task for task in tasks if task.next_job is not None)
    outcome = Outcome()
    running: dict[Future[Row], _Task] = {}
    with workers, progress.over(sum(task.jobs_left * task.chain.cost for task in waiting)):
        while waiting or running:
            while waiting and len(running) < workers.slots:
                task = waiting.popleft()
                running[_submit(workers.executor, task, bench)] = task
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
                suspects = list(running.values())
                running.clear()
                rows = [(task, _alone(workers, task, bench)) for task in suspects]
                workers.restart()
            else:
                rows = [(task := running.pop(future), _result(future, task)) for future in done]
            for task, row in rows:
                store.append(row)
                task.rows.append(row)
                outcome.measured += 1
                if "error" in row:
                    outcome.failures.append(row)
                    progress.report(f"failed: {row['table']} / {row['method']} / seed {row['seed']}: {row['error']}")
                progress.advance(task.chain.cost)
                if task.next_job is not None:
                    waiting.appendleft(task)
    return outcome


def _resume(chain: Chain, known: dict[str, Row]) -> _Task:
    """Return a chain with the rows that it has already, up to the first gap."""
    rows: list[Row] = []
    while len(rows) < chain.length and (row := known.get(chain.job(len(rows)).key)) is not None:
        rows.append(row)
    return _Task(chain, rows)


def _submit(executor: Executor, task: _Task, bench: Any) -> Future[Row]:
    try:
        return executor.submit(execute, task.next_job, task.rows, bench)
    except BrokenProcessPool as error:
        # A worker died since we last looked: the same news, as a future like any other.
        future: Future[Row] = Future()
        future.set_exception(error)
        return future


def _result(future: Future[Row], task: _Task) -> Row:
    error = future.exception()
    return future.result() if error is None else failure(task.next_job, error)


def _alone(workers: Workers, task: _Task, bench: Any) -> Row:
    """Measure a job by itself after a worker died: it was that job's fault only if the worker dies again."""
    workers.restart()
    return _result(_submit(workers.executor, task, bench), task)
