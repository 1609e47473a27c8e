"""Alternating measurements: everything is run once, then again, so that a noisy moment hits all of it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits


@contextmanager
def thread_limit(threads: int) -> Any:
    """Bound the threads of libraries that take no argument for it."""
    with threadpool_limits(threads):
        yield


def alternate(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Wall-clock seconds of each call, one after another, ``repeats`` times, there and back.

    What a call leaves behind, in caches and in the memory of the process, meets not always the same call.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for k in range(repeats):
        for name in list(calls)[:: 1 if k % 2 == 0 else -1]:
            start = time.perf_counter()
            calls[name]()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratios(seconds: Mapping[str, list[float]], ours: str) -> dict[str, float]:
    """Median over the repeats of our time divided by each other's."""
    mine = np.array(seconds[ours])
    return {name: float(np.median(mine / np.array(times))) for name, times in seconds.items() if name != ours}


def setting() -> dict[str, Any]:
    """What the numbers were measured with."""
    packages = ("unbiasedgbm", "lightgbm", "xgboost", "catboost", "scikit-learn", "numba", "numpy", "dask")
    versions = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
    }
