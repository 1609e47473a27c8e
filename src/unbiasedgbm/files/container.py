"""The container of a model file: strict JSON that ends with a checksum of itself, plain or gzipped.

The checksum is the SHA-256 of all bytes before ``,"checksum":"…"}``. It finds damage; it proves nothing about who wrote
the file, so that everything inside is checked as well.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from typing import Any

from unbiasedgbm.exceptions import ModelFileError
from unbiasedgbm.files.atomic import write_atomically

# What every model file begins with.
FIRST_BYTES = b'{"format":"unbiasedgbm-model"'

_SEAL = b',"checksum":"'
_END = b'"}'

# Gzip can blow a byte up to a thousand; a model does not come near the ratio, so a file beyond it is a trap.
_MAX_RATIO = 200
_FREE_BYTES = 16 << 20


def write(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a document; gzipped if the name ends with ``.gz``."""
    data = seal(_to_json(content))
    if os.fspath(path).endswith(".gz"):
        # no time and no name inside: equal models are equal files
        data = gzip.compress(data, compresslevel=6, mtime=0)
    write_atomically(path, data)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a document, plain or gzipped whatever its name.

    Raises
    ------
    ModelFileError
        If it is damaged or is no model file.
    """
    with open(path, "rb") as file:
        data = file.read()
    return parse(data)


def parse(data: bytes) -> dict[str, Any]:
    """Document from the bytes of a file."""
    if data[:2] == b"\x1f\x8b":
        data = _unzip(data)
    body = _unseal(data)
    try:
        content = json.loads(body.decode(), object_pairs_hook=_distinct, parse_constant=_no_constant)
    except RecursionError:
        raise ModelFileError("it is nested too deeply") from None
    except ValueError as error:
        raise ModelFileError(f"it is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise ModelFileError("it is not a JSON object")
    return content


def _to_json(content: dict[str, Any]) -> bytes:
    try:
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        # half a surrogate pair in a column name: only an escape can hold it
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def seal(body: bytes) -> bytes:
    """Add the checksum to a JSON object."""
    open_object = body[:-1]
    return open_object + _SEAL + hashlib.sha256(open_object).hexdigest().encode() + _END


def _unseal(data: bytes) -> bytes:
    """The JSON object without its checksum, which must match."""
    data = data.rstrip(b"\n")
    open_object, seal_found, rest = data.rpartition(_SEAL)
    if not seal_found or not data.startswith(b"{"):
        raise ModelFileError("it is cut off, or is no model file of UnbiasedGBM")
    if rest != hashlib.sha256(open_object).hexdigest().encode() + _END:
        raise ModelFileError("its checksum does not match: the file is damaged or was changed by hand")
    return open_object + b"}"


def _unzip(data: bytes) -> bytes:
    limit = _MAX_RATIO * len(data) + _FREE_BYTES
    unzip = zlib.decompressobj(wbits=31)
    try:
        text = unzip.decompress(data, limit)
    except zlib.error as error:
        raise ModelFileError(f"it is gzipped, but damaged: {error}") from None
    if unzip.unconsumed_tail:
        raise ModelFileError("it is gzipped and unpacks to far more than a model of its size can hold")
    if not unzip.eof or unzip.unused_data:
        raise ModelFileError("it is gzipped, but cut off or followed by something else")
    return text


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in an object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
