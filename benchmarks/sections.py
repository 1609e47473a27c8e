"""The sections of the benchmark; each returns a list of rows for the results file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.distributed import distributed
from benchmarks.peers import OURS, PEERS, Size, at_defaults, make_table
from benchmarks.timing import alternate, ratios, thread_limit

Row = dict[str, Any]

# What must hold against LightGBM, by the issue that asked for it.
FIT_SIZES = {
    Size(1_000_000, 28, leaves=31, trees=30, threads=2): 0.6,
    Size(1_000_000, 28, leaves=255, trees=15, threads=2): 0.7,
    Size(100_000, 100, leaves=31, trees=50, threads=2): 0.7,
    Size(10_000, 20, leaves=31, trees=300): 0.7,
    Size(1_000, 20, leaves=31, trees=300): 0.9,
}


def _fit(make: Any, size: Size, X: np.ndarray, y: np.ndarray) -> Any:
    return make(size).fit(X, y)


def fit(repeats: int, peers: list[str]) -> Iterator[Row]:
    """Time to fit, binning included, as a ratio to each peer."""
    for size, goal in FIT_SIZES.items():
        X, y = make_table(size.rows, size.features)
        makers = {**OURS, **{name: PEERS[name] for name in peers}}
        with thread_limit(size.threads):
            for make in makers.values():  # compiles kernels, loads libraries, wakes threads
                make(Size(2_000, size.features, size.leaves, 2, size.threads)).fit(X[:2_000], y[:2_000])
            calls = {name: partial(_fit, make, size, X, y) for name, make in makers.items()}
            # fits of less than a second need more of them
            seconds = alternate(calls, repeats * (3 if size.rows <= 10_000 else 1))
        for ours in OURS:
            others = {name: times for name, times in seconds.items() if name in peers or name == ours}
            yield {**vars(size), "section": "fit", "model": ours, "goal": goal, "ratio": ratios(others, ours)}


def defaults(repeats: int, peers: list[str]) -> Iterator[Row]:
    """Time to fit with every library's own defaults, whatever they mean, as a ratio to each peer."""
    for rows, features, threads in ((1_000, 20, 1), (10_000, 20, 1), (1_000, 20, 2), (10_000, 20, 2), (100_000, 20, 2)):
        X, y = make_table(rows, features)
        with thread_limit(threads):
            calls = {
                name: (lambda name=name, X=X, y=y, threads=threads: at_defaults(name, threads).fit(X, y))
                for name in ("UnbiasedGBM", *peers)
            }
            alternate(calls, 1)
            found = ratios(alternate(calls, repeats), "UnbiasedGBM")
        yield {
            "rows": rows,
            "features": features,
            "threads": threads,
            "section": "defaults",
            "model": "UnbiasedGBM",
            "goal": 3.0,
            "ratio": found,
        }


def predict(repeats: int, peers: list[str]) -> Iterator[Row]:
    """Time to predict many rows, and one row, as a ratio to each peer."""
    size = Size(1_000_000, 28, trees=300, threads=2)
    X, y = make_table(size.rows, size.features)
    makers = {"UnbiasedGBM": OURS["UnbiasedGBM"], **{name: PEERS[name] for name in peers}}
    with thread_limit(size.threads):
        models = {name: make(size).fit(X[:20_000], y[:20_000]) for name, make in makers.items()}
        for rows, times, goal in ((X, 1, 0.7), (X[:1], 200, 1.0)):
            calls = {
                name: (lambda model=model, rows=rows, times=times: [model.predict_proba(rows) for _ in range(times)])
                for name, model in models.items()
            }
            alternate(calls, 1)
            found = ratios(alternate(calls, repeats), "UnbiasedGBM")
            yield {
                **vars(size),
                "section": "predict",
                "rows": len(rows),
                "model": "UnbiasedGBM",
                "goal": goal,
                "ratio": found,
            }


_PEAK = """
import json, sys, threading, time, psutil
from benchmarks.peers import OURS, PEERS, Size, make_table
name, size = sys.argv[1], Size(**json.loads(sys.argv[2]))
X, y = make_table(size.rows, size.features)
make = {**OURS, **PEERS}[name]
make(Size(2_000, size.features, trees=2, threads=size.threads)).fit(X[:2_000], y[:2_000])
process, peak, done = psutil.Process(), [0], threading.Event()
def watch():
    while not done.is_set():
        peak[0] = max(peak[0], process.memory_info().rss)
        time.sleep(0.002)
before = process.memory_info().rss
thread = threading.Thread(target=watch); thread.start()
model = make(size).fit(X, y)
done.set(); thread.join()
print(peak[0] - before)
"""


def memory(repeats: int, peers: list[str]) -> Iterator[Row]:
    """Peak resident memory of fit above what the process held before, as a ratio to LightGBM's."""
    size = Size(1_000_000, 28, trees=10, threads=2)
    peaks: dict[str, list[int]] = {}
    for _ in range(min(repeats, 3)):
        for name in ("UnbiasedGBM", "LightGBM"):
            call = [sys.executable, "-c", _PEAK, name, json.dumps(vars(size))]
            out = subprocess.run(call, capture_output=True, text=True, check=True).stdout
            peaks.setdefault(name, []).append(int(out.strip().splitlines()[-1]))
    medians = {name: float(np.median(values)) for name, values in peaks.items()}
    yield {
        **vars(size), "section": "memory", "model": "UnbiasedGBM", "goal": 1.0,
        "ratio": {"LightGBM": medians["UnbiasedGBM"] / medians["LightGBM"]},
        "mebibytes": {name: round(value / 2**20) for name, value in medians.items()},
    }  # fmt: skip


_COLD = """
import json, time
a = time.perf_counter(); import unbiasedgbm
b = time.perf_counter(); from unbiasedgbm import UnbiasedGBMClassifier
import numpy as np
X = np.random.default_rng(0).normal(size=(300, 5)); y = (X[:, 0] > 0).astype(int)
c = time.perf_counter(); model = UnbiasedGBMClassifier(n_estimators=5, n_jobs=1).fit(X, y); model.predict(X)
d = time.perf_counter()
print(json.dumps({"import": b - a, "estimators": c - b, "fit and predict": d - c}))
"""


def cold(repeats: int, peers: list[str]) -> Iterator[Row]:
    """Seconds to import, and to fit and predict for the first time: kernels compiled, then read from the disk."""
    first, second = [], []
    for _ in range(min(repeats, 3)):
        with tempfile.TemporaryDirectory() as folder:
            for found in (first, second):
                run = subprocess.run(
                    [sys.executable, "-c", _COLD], capture_output=True, text=True, check=True,
                    env={**os.environ, "NUMBA_CACHE_DIR": folder},
                )  # fmt: skip
                found.append(json.loads(run.stdout))
    for name, runs, goal in (("nothing compiled", first, 6.0), ("compiled before", second, 1.0)):
        medians = {step: round(float(np.median([run[step] for run in runs])), 2) for step in runs[0]}
        yield {"section": "cold", "model": name, "goal": goal, "seconds": medians}


def scaling(repeats: int, peers: list[str]) -> Iterator[Row]:
    """How the time of a fit grows with rows, features and leaves, relative to the smallest of each."""
    rows = [Size(n, 20, trees=10) for n in (10_000, 31_600, 100_000, 316_000, 1_000_000)]
    features = [Size(20_000, p, trees=10) for p in (10, 30, 100, 300)]
    leaves = [Size(100_000, 20, leaves=k, trees=10) for k in (8, 31, 127, 511)]
    for axis, sizes in (("rows", rows), ("features", features), ("leaves", leaves)):
        tables = [make_table(size.rows, size.features) for size in sizes]
        for name in ("UnbiasedGBM", "LightGBM"):
            make = {**OURS, **PEERS}[name]
            calls = {
                str(getattr(size, axis)): partial(_fit, make, size, *table)
                for size, table in zip(sizes, tables, strict=True)
            }
            alternate({"warm": next(iter(calls.values()))}, 1)
            seconds = alternate(calls, min(repeats, 3))
            smallest = float(np.median(next(iter(seconds.values()))))
            growth = {at: round(float(np.median(times)) / smallest, 2) for at, times in seconds.items()}
            yield {"section": "scaling", "axis": axis, "model": name, "growth": growth}


SECTIONS = {
    "fit": fit,
    "defaults": defaults,
    "predict": predict,
    "memory": memory,
    "cold": cold,
    "scaling": scaling,
    "distributed": distributed,
}
