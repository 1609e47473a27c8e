"""Freed memory: what a worker frees stays with it as long as it has a station, to be used again.

Dask's nannies have glibc give every freed block of more than 128 kB back to the system at once. Messages and binned
blocks are such blocks, there are thousands of them in a fit, and memory that is new to a process takes longer to fill
than to add up. What is kept is bounded, and the worker's own setting comes back with the end of its last station.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from functools import cache
from typing import Any

from distributed import Worker

# Numbers of glibc's settings: freed memory that stays at the end of a heap, and the block that is no part of one.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3

# What Dask's nannies set; a block of so many bytes is no part of a heap then.
_TRIM_VARIABLE, _MMAP_VARIABLE = "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"
_DASK_MMAP_BYTES = 1 << 17

# Freed memory that stays at the end of a heap; blocks of more are the system's again as soon as they are freed.
KEPT_BYTES = 1 << 27
_MOST_BYTES = 1 << 25

# Seconds from the end of a station until the memory of its rows is free, too.
_LATER_S = 1.0

_lock = threading.Lock()
_n_stations = 0
_before = 0


@cache
def _glibc() -> Any:
    """The C library, if it has the settings."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


def _dask_bytes(worker: Worker) -> int | None:
    """Freed memory that stays by the setting of Dask's nanny; None if there is none, or somebody keeps more already.

    A nanny also leaves its setting in the environment of its own process, which takes no notice: it has long begun.
    """
    value = os.environ.get(_TRIM_VARIABLE, "")
    if worker.nanny is None or not value.isdecimal() or int(value) >= KEPT_BYTES or _MMAP_VARIABLE in os.environ:
        return None
    return int(value)


def keep_freed_memory(station: Any, worker: Worker) -> None:
    """Have a worker keep what it frees until a station, and all others that asked for it, are gone."""
    global _n_stations, _before
    before = _dask_bytes(worker)
    if before is None or _glibc() is None:
        return
    with _lock:
        _before = _before if _n_stations else before
        _n_stations += 1
        _set(KEPT_BYTES, _MOST_BYTES)
    # the memory of its rows is freed after it, and nobody may wait for that here
    loop = worker.loop
    weakref.finalize(station, loop.add_callback, loop.call_later, _LATER_S, _release).atexit = False


def give_back() -> None:
    """Give back what is free at this moment."""
    if _n_stations > 0:
        _glibc().malloc_trim(0)


def _release() -> None:
    """One station less; with the last one goes all that is free."""
    global _n_stations
    with _lock:
        _n_stations -= 1
        if _n_stations == 0:
            _set(_before, _DASK_MMAP_BYTES)
            _glibc().malloc_trim(0)


def _set(trim: int, mmap: int) -> None:
    _glibc().mallopt(_TRIM_THRESHOLD, trim)
    _glibc().mallopt(_MMAP_THRESHOLD, mmap)
