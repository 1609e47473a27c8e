"""Unbiased gain against permutation importance and SHAP on one LightGBM model, in one run.

    python benchmarks/importance_speed.py [--trees 500] [--rows 100000] [--held-out 50000] [--threads 1]

Each rival is measured between two runs of unbiased gain and compared with their mean. Times are processor seconds,
which on one thread are the seconds of an idle machine; wall seconds of a shared machine are noted beside them. Unbiased
gain reads training and held-out rows; the rivals read the held-out rows only. Writes results/importance_speed.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import tracemalloc
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import lightgbm
import numpy as np
import shap
from sklearn.inspection import permutation_importance

from unbiasedgbm.importance import unbiased_gain

N_FEATURES = 28


def seconds(work: Callable[[], object]) -> dict[str, float]:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return {
        "processor_seconds": round(time.process_time() - processor, 2),
        "wall_seconds": round(time.perf_counter() - wall, 2),
    }


def make_table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_FEATURES))
    score = X[:, :8].sum(axis=1) + X[:, 0] * X[:, 1] + 2.0 * rng.normal(size=n_rows)
    return X, (score > 0).astype(int)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--held-out", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    n = options.rows
    X, y = make_table(n + options.held_out)
    model = lightgbm.LGBMClassifier(n_estimators=options.trees, num_leaves=31, n_jobs=options.threads, verbose=-1)
    model.fit(X[:n], y[:n])
    warnings.simplefilter("ignore")

    def ours() -> object:
        return unbiased_gain(model, X[:n], y[:n], X[n:], y[n:], n_jobs=options.threads)

    rivals: dict[str, Callable[[], object]] = {
        "permutation_importance": lambda: permutation_importance(
            model, X[n:], y[n:], scoring="neg_log_loss", n_repeats=5, random_state=0, n_jobs=1
        ),
        "shap_tree_explainer": lambda: shap.TreeExplainer(model).shap_values(X[n:]),
    }
    # Kernels are compiled, and the library is warm, before the clock starts.
    unbiased_gain(model, X[:1000], y[:1000], X[n : n + 1000], y[n : n + 1000], n_jobs=options.threads)
    own = [seconds(ours)]
    results: dict[str, dict[str, float]] = {}
    for name, rival in rivals.items():
        taken = seconds(rival)
        own.append(seconds(ours))
        mean = (own[-2]["processor_seconds"] + own[-1]["processor_seconds"]) / 2
        results[name] = {**taken, "times_unbiased_gain": round(taken["processor_seconds"] / mean, 1)}
        print(name, results[name], flush=True)
    tracemalloc.start()
    ours()
    peak = tracemalloc.get_traced_memory()[1]
    report = {
        "model": f"{options.trees} trees × 31 leaves, {N_FEATURES} features",
        "rows": {"training": n, "held_out": options.held_out},
        "threads": options.threads,
        "unbiased_gain": {
            "runs": own,
            "peak_mib": round(peak / 2**20, 1),
            "rows_times_splits_mib": round(options.held_out * options.trees * 30 * 8 / 2**20, 1),
        },
        **results,
        "versions": {name: version(name) for name in ("lightgbm", "scikit-learn", "shap", "numpy", "numba")},
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }
    path = Path(__file__).parent / "results" / "importance_speed.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(report["unbiased_gain"]))


if __name__ == "__main__":
    main()
