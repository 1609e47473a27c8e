"""Where a row comes from: versions of the libraries and the state of our own sources."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
from functools import cache
from pathlib import Path


@cache
def source_digest(package: str) -> str:
    """Eight hex digits of a hash over the Python files of a package, or ``"absent"``."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return "absent"
    digest = hashlib.sha256()
    root = Path(next(iter(spec.submodule_search_locations)))
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:8]


def python_version() -> str:
    """The version of the interpreter."""
    return platform.python_version()
