"""Parcels: what stations are asked and what they answer, as bytes.

Dask can send any object, but looks at every part of it by itself, in the event loop that the other stations wait for.
It passes bytes on as they are; so a question is packed once for all stations, and an answer by whoever found it.
"""

from __future__ import annotations

from typing import Any

from distributed.protocol import pickle

Parcel = tuple[bytes | memoryview, ...]
"""Pickled object, and the arrays in it."""


def pack(thing: Any) -> Parcel:
    """Pickle something as Dask does, functions of ``__main__`` by their code; arrays are not copied."""
    arrays: list[Any] = []
    pickled = pickle.dumps(thing, buffer_callback=arrays.append)
    return (pickled, *(array.raw() for array in arrays))


def unpack(parcel: Parcel) -> Any:
    """What was packed."""
    pickled, *arrays = parcel
    return pickle.loads(pickled, buffers=arrays)
