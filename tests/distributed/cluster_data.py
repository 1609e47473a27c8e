"""Tables, ways to cut them, and how models are compared."""

import time
from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pandas as pd
from distributed import LocalCluster

from unbiasedgbm import UnbiasedGBMClassifier, UnbiasedGBMRegressor
from unbiasedgbm.distributed import DaskUnbiasedGBMClassifier, DaskUnbiasedGBMRegressor, remote, station
from unbiasedgbm.distributed.shelf import Shelf

N = 420

# sizes of partitions: one, two, seven, empty ones, one-row ones
CUTS = {
    "one": (420,),
    "two": (300, 120),
    "seven": (60,) * 7,
    "empty": (0, 200, 0, 220, 0),
    "one row": (1, 1, 200, 1, 216, 1),
}
UGLY = (1, 0, 150, 1, 0, 218, 50)


def cut(table, sizes):
    """The table as a list of delayed partitions."""
    assert sum(sizes) == len(table)
    edges = np.cumsum([0, *sizes])
    rows = table.iloc if hasattr(table, "iloc") else table
    return [dask.delayed(rows[begin:end]) for begin, end in pairwise(edges.tolist())]


def as_array(table, sizes):
    """The table as a Dask array of such chunks."""
    rest = ((table.shape[1],),) if table.ndim > 1 else ()
    return da.from_array(table, chunks=(tuple(sizes), *rest))


def numbers(n=N, p=5, seed=0):
    """Numeric features, some missing, and a target that needs three of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X[:, -1] = rng.integers(0, 4, n)
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=n)
    X[rng.random(n) < 0.1, 1] = np.nan
    return X, y


def frame(n=N, seed=1):
    """Text with missing values, a category type, many levels, numbers; levels are not spread evenly over the rows."""
    rng = np.random.default_rng(seed)
    X, y = numbers(n, 3, seed)
    place = np.arange(n) * 12 // n
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["town"] = pd.Series(np.array(list("zyxwvutsrqpo"))[place], dtype=object).where(rng.random(n) > 0.1, None)
    table["kind"] = pd.Categorical(np.array(["low", "high", "never"])[rng.integers(0, 2, n)], ["never", "low", "high"])
    table["code"] = [f"id{k}" for k in rng.integers(0, 290, n)]
    return table, y + (place % 5)


def model_bytes(model, folder, name):
    path = folder / name
    model.save_model(path)
    return path.read_bytes()


def assert_same_file(local, remote, folder):
    """The model files are equal, byte for byte, and say something."""
    assert local.ensemble_.n_nodes > local.ensemble_.n_trees
    assert model_bytes(local, folder, "local.json") == model_bytes(remote, folder, "remote.json")


SMALL = {"n_estimators": 4, "n_bags": 2, "num_leaves": 8, "learning_rate": 0.2, "min_samples_leaf": 3}


def pair(kind, **parameters):
    """A local estimator and a distributed one."""
    classes = {
        "classifier": (UnbiasedGBMClassifier, DaskUnbiasedGBMClassifier),
        "regressor": (UnbiasedGBMRegressor, DaskUnbiasedGBMRegressor),
    }[kind]
    return tuple(cls(**{**SMALL, **parameters}) for cls in classes)


def compile_kernels():
    """Use every kernel that the tests use."""
    X, y = numbers()
    table, target = frame()
    for options in ({}, {"role_draw": "node", "early_stopping": True}):
        local, remote = pair("regressor", **options)
        local.fit(table, target)
        remote.fit(cut(table, UGLY), cut(target, UGLY)).predict(cut(table, UGLY)).compute()
    local, remote = pair("classifier")
    local.fit(X, y > 0)
    remote.fit(cut(X, UGLY), cut(y > 0, UGLY)).predict_proba(cut(X, UGLY)).compute()


def start(n_workers):
    """A cluster of single-threaded processes."""
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")


def set_quick(pairs):
    """Tell a worker up to which size its stations answer in the event loop; returns what it was."""
    previous, station._QUICK_PAIRS = station._QUICK_PAIRS, pairs
    return previous


def set_shelf(room):
    """Tell a worker how many histograms its leaders may keep, None for all; returns how many shelves it has had."""
    n_made = getattr(remote.Shelf, "n_made", 0)

    class ShortShelf(Shelf):
        n_made = 0

        def __init__(self, n, *more):
            ShortShelf.n_made += 1
            super().__init__(room + 2, *more)

    remote.Shelf = Shelf if room is None else ShortShelf
    return n_made


def assert_nothing_left(client):
    """No task, no actor of ours is left on the cluster."""
    deadline = time.monotonic() + 20
    while True:
        left = client.run(_ours)
        if not any(left.values()):
            return
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _ours(dask_worker):
    state = dask_worker.state
    return [str(key) for key in [*state.actors, *state.tasks] if "unbiasedgbm" in str(key)]
