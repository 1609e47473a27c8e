"""Memory that a worker frees: kept while it has a station, and given back after its last one."""

import gc
import os
import resource
import time

import numpy as np
import pytest
from cluster_data import as_array, numbers
from distributed import Client, get_worker

from unbiasedgbm.callbacks import BaseCallback
from unbiasedgbm.distributed import DaskUnbiasedGBMRegressor, freed

BLOCK_BYTES = 1 << 20


class Fake:
    """Whoever asks a worker to keep what it frees."""

    def __init__(self, worker):
        freed.keep_freed_memory(self, worker)


class Nannied:
    """A worker that has a nanny."""

    nanny = "tcp://127.0.0.1:1"
    loop = None


def new_pages(n_blocks=50, block_bytes=BLOCK_BYTES):
    """Pages that are new to the process when a block is filled and freed again and again, for each block."""
    np.empty(block_bytes, np.uint8).fill(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(n_blocks):
        np.empty(block_bytes, np.uint8).fill(1)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / n_blocks


def share_of_new_pages():
    """Share of pages that are new, of the size of blocks that has most: some may lie where huge pages are one each."""
    sizes = [BLOCK_BYTES * k // 8 for k in range(3, 9)]
    return max(new_pages(block_bytes=size) / (size / os.sysconf("SC_PAGE_SIZE")) for size in sizes)


def has_setting(dask_worker):
    return freed._dask_bytes(dask_worker) is not None and freed._glibc() is not None


def wait_for_the_end_of_stations(client):
    deadline = time.monotonic() + 30.0
    while any(client.run(lambda: freed._n_stations).values()):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def workers_give_back(client):
    """Whether all workers give freed memory back, now or in a few seconds: what they did before may just be ending."""
    deadline = time.monotonic() + 10.0
    while not all(share > 0.9 for share in client.run(share_of_new_pages).values()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


class Look(BaseCallback):
    """New pages on the workers that have a station, while a fit goes on."""

    def __init__(self, client):
        self.client, self.pages = client, []

    def before_iteration(self, state):
        found = self.client.run(lambda: new_pages() if freed._n_stations else None)
        self.pages += [pages for pages in found.values() if pages is not None]


def life():
    """Pages before there are any (a share), with two, with one of them, and at last with none (a share)."""
    found = [share_of_new_pages()]
    kept = [Fake(get_worker()), Fake(get_worker())]
    found.append(new_pages())
    kept.pop()
    gc.collect()
    time.sleep(freed._LATER_S + 0.5)
    found.append(new_pages())
    kept.clear()
    gc.collect()
    time.sleep(freed._LATER_S + 0.5)
    found.append(share_of_new_pages())
    return found


def test_freed_memory_stays_while_a_worker_has_a_station(client):
    worker = min(client.nthreads())
    if not client.run(has_setting, workers=[worker])[worker]:
        pytest.skip("the workers' C library has no such setting, or Dask does not use it")
    wait_for_the_end_of_stations(client)
    before, two, one, after = client.submit(life, workers=[worker], pure=False).result()
    whole = BLOCK_BYTES / os.sysconf("SC_PAGE_SIZE")
    assert before > 0.9
    assert two < 0.1 * whole
    assert one < 0.1 * whole
    assert after > 0.9


def test_fits_leave_the_workers_as_they_were(client):
    if not all(client.run(has_setting).values()):
        pytest.skip("the workers' C library has no such setting, or Dask does not use it")
    wait_for_the_end_of_stations(client)
    whole = BLOCK_BYTES / os.sysconf("SC_PAGE_SIZE")
    assert workers_give_back(client)
    X, y = (as_array(one, (210, 210)) for one in numbers())
    look = Look(client)
    DaskUnbiasedGBMRegressor(n_estimators=2).fit(X, y, callbacks=[look])
    assert look.pages
    assert all(pages < 0.1 * whole for pages in look.pages)
    wait_for_the_end_of_stations(client)
    assert workers_give_back(client)


def test_a_process_that_begot_nannies_is_left_alone(monkeypatch):
    """Their setting is in its environment, but not in its C library."""
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.setattr(freed, "_set", None)
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None):
        X, y = (as_array(one, (210, 210)) for one in numbers())
        DaskUnbiasedGBMRegressor(n_estimators=2).fit(X, y)
    assert freed._n_stations == 0


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "1000000"},
        {"MALLOC_TRIM_THRESHOLD_": str(freed.KEPT_BYTES)},
    ],
)
def test_what_somebody_else_has_set_is_left_alone(monkeypatch, environment):
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(freed, "_set", None)
    Fake(Nannied())
    assert freed._n_stations == 0


def test_a_c_library_without_the_setting_is_left_alone(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.setattr(freed, "_glibc", lambda: None)
    monkeypatch.setattr(freed, "_set", None)
    Fake(Nannied())
    assert freed._n_stations == 0
