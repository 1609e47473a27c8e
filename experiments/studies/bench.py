"""What every measurement needs: the tables, the number of threads, and one way to fit, predict and take the time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from threadpoolctl import threadpool_limits

from experiments.catalogue import TableSource
from experiments.methods import Fitted, get_method
from experiments.metrics import measure
from experiments.provenance import python_version
from experiments.splits import Part, Parts


@dataclass(frozen=True)
class Bench:
    """Where a job is measured. Nothing here decides the outcome, apart from the tables themselves.

    Parameters
    ----------
    tables : TableSource
    threads : int
        Threads of a fit.
    time_limit : float or None
        Seconds after which a job is given up, see :func:`~experiments.patience.patience`.
    """

    tables: TableSource = field(default_factory=TableSource)
    threads: int = 1
    time_limit: float | None = None


@contextmanager
def quiet(threads: int) -> Iterator[None]:
    """Limit the threads of libraries that have no argument for it, and keep their warnings off the progress display."""
    with threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def evaluate(
    method: str, task: str, parts: Parts, params: Mapping[str, Any], *, seed: int, threads: int
) -> tuple[dict[str, Any], Fitted]:
    """Fit a method and measure it on the validation rows, if there are any, and on the test rows.

    Returns
    -------
    columns : dict
        ``test_<metric>``, ``valid_<metric>``, ``fit_seconds``, ``fit_cpu_seconds``, the same of ``predict``,
        ``train_rows``, ``test_rows``, ``versions``.
    model : Fitted
    """
    booster = get_method(method)
    train = parts.train
    how = {"seed": seed, "threads": threads, "groups": train.groups}
    with quiet(threads):
        booster.warm_up(task, train.X, train.y, params, **how)
        start = _clocks()
        model = booster.fit(task, train.X, train.y, params, **how)
        fitted = _clocks()
        columns = _scores("test", task, model, parts.test)
        predicted = _clocks()
        if parts.valid is not None:
            columns |= _scores("valid", task, model, parts.valid)
    for step, before, after in (("fit", start, fitted), ("predict", fitted, predicted)):
        columns |= {f"{step}_{clock}": round(after[clock] - before[clock], 4) for clock in after}
    columns |= {
        "train_rows": len(parts.train.y),
        "test_rows": len(parts.test.y),
        "versions": {booster.package: booster.version, "python": python_version()},
    }
    return columns, model


def _clocks() -> dict[str, float]:
    """Time on the wall, and time on processors: the second is what a busy machine leaves comparable."""
    return {"seconds": time.perf_counter(), "cpu_seconds": time.process_time()}


def _scores(prefix: str, task: str, model: Fitted, part: Part) -> dict[str, float]:
    scores = measure(task, part.y, model.predict(part.X))
    return {f"{prefix}_{name}": value for name, value in scores.items()}
