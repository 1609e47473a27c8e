"""Who measures the jobs: this process, several processes, or a Dask cluster, all behind one executor."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Any


class InThisProcess(Executor):
    """An executor that runs a call when it is submitted."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call `function` now and return its result as a finished future."""
        future: Future[Any] = Future()
        future.set_result(function(*args, **kwargs))
        return future


class Workers:
    """A context that owns the executor.

    Parameters
    ----------
    processes : int
        1 runs in this process. More start that many, fresh ones rather than forks, since the boosters' threads do not
        survive a fork.
    dask : str or None
        Address of a Dask scheduler; then `processes` is how many jobs are handed out at a time (0: all its threads).
    """

    def __init__(self, processes: int = 1, dask: str | None = None) -> None:
        self.slots = processes
        self.dask = dask
        self.executor: Executor = InThisProcess()
        self._client: Any = None

    def __enter__(self) -> Workers:
        if self.dask is not None:
            from distributed import Client

            self._client = Client(self.dask)
            self.executor = self._client.get_executor()
            self.slots = self.slots or sum(self._client.nthreads().values())
        else:
            self.restart()
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self.executor.shutdown()
            self._client.close()
        else:
            self.executor.shutdown(cancel_futures=True)

    def restart(self) -> None:
        """Replace a pool whose worker died."""
        if self.dask is None and self.slots > 1:
            self.executor.shutdown(wait=False, cancel_futures=True)
            self.executor = ProcessPoolExecutor(self.slots, get_context("spawn"), _leave_with_parent)


def _leave_with_parent() -> None:
    """Watch the process that started this worker: when it is killed, nobody else would tell its workers."""

    def watch() -> None:
        parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
