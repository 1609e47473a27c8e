"""A fit on a cluster of this machine's own processes: against a local fit with as many threads, and at larger sizes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers import Size, make_table
from benchmarks.timing import alternate, ratios

Row = dict[str, Any]

_WORKERS = 2
_PARTS = 8

# What must hold of the first two against a local fit with the same total threads; the third one shows how it changes.
_COMPARED = (
    (Size(1_000_000, 28, leaves=31, trees=30, threads=_WORKERS), 1),
    (Size(1_000_000, 28, leaves=127, trees=30, threads=_WORKERS), 3),
    (Size(4_000_000, 28, leaves=31, trees=30, threads=_WORKERS), 1),
)
_GOAL = 1.5
_LARGER = ((Size(10_000_000, 28, trees=10, threads=_WORKERS), 1),)


def _part(rows: int, features: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """One partition: so many rows, with a seed of its own."""
    return make_table(rows, features, seed=k)


def _cpu() -> float:
    """Processor seconds of this process so far."""
    times = os.times()
    return times.user + times.system


def _collections(client: Any, size: Size) -> tuple[Any, Any]:
    """Table and target on the workers, in partitions that were made there."""
    import dask.array as da
    from dask import delayed

    n = size.rows // _PARTS
    parts = [delayed(_part)(n, size.features, k) for k in range(_PARTS)]
    X = [da.from_delayed(part[0], (n, size.features), np.float64) for part in parts]
    y = [da.from_delayed(part[1], (n,), np.int64) for part in parts]
    return client.persist([da.concatenate(X), da.concatenate(y)])


def distributed(repeats: int, peers: list[str]) -> Iterator[Row]:
    """Time, processor time, round trips, traffic and memory of distributed fits."""
    from distributed import Client, LocalCluster, wait

    from unbiasedgbm import UnbiasedGBMClassifier
    from unbiasedgbm.distributed import DaskUnbiasedGBMClassifier

    def parameters(size: Size, n_bags: int) -> Row:
        return {
            "n_estimators": size.trees // n_bags, "num_leaves": size.leaves, "max_bins": size.bins,
            "learning_rate": 0.1, "min_split_gain": -np.inf, "n_bags": n_bags,
        }  # fmt: skip

    with (
        LocalCluster(n_workers=_WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        for size, n_bags in (*_COMPARED, *_LARGER):
            compared = (size, n_bags) in _COMPARED
            X, y = _collections(client, size)
            wait([X, y])
            remote = DaskUnbiasedGBMClassifier(**parameters(size, n_bags))
            # every worker has rows, compiles and wakes; and so does this process
            DaskUnbiasedGBMClassifier(n_estimators=2).fit(X, y)
            calls = {"distributed": partial(remote.fit, X, y)}
            if compared:
                table = (X.compute(), y.compute())
                local = UnbiasedGBMClassifier(**parameters(size, n_bags), n_jobs=size.threads)
                UnbiasedGBMClassifier(n_estimators=2, n_jobs=size.threads).fit(*table)
                calls["local"] = partial(local.fit, *table)
            cpu: dict[str, list[float]] = {}

            def counted(name: str, call: Any, cpu: Any = cpu) -> Any:
                workers, own = sum(client.run(_cpu).values()), _cpu()
                call()
                cpu.setdefault("local" if name == "local" else "client", []).append(_cpu() - own)
                if name != "local":
                    cpu.setdefault("workers", []).append(sum(client.run(_cpu).values()) - workers)

            seconds = alternate(
                {name: partial(counted, name, call) for name, call in calls.items()},
                repeats if compared else 1,
            )
            row = {
                **vars(size),
                "section": "distributed",
                "model": "DaskUnbiasedGBM",
                "workers": _WORKERS,
                "bags": n_bags,
                "seconds": {name: float(np.median(times)) for name, times in seconds.items()},
                "cpu_seconds": {name: float(np.median(times)) for name, times in cpu.items()},
                "rounds_a_tree": remote.traffic_.questions / size.trees,
                # all that do not lead send the same
                "bytes_a_tree_and_worker": remote.traffic_.n_bytes / size.trees / (_WORKERS - 1),
                "bytes_a_row": sum(remote.traffic_.kept) / size.rows,
                "largest_share": max(remote.traffic_.kept) / sum(remote.traffic_.kept),
                "load": os.getloadavg()[0],
            }
            if "local" in calls:
                row |= {"goal": _GOAL, "against": "local", "ratio": ratios(seconds, "distributed")}
                row["same_model"] = bool(np.array_equal(local.ensemble_.value, remote.ensemble_.value))
            yield row
            del X, y, calls
