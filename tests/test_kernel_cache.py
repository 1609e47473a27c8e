"""Machine code on disk: used again as long as no source of it has changed, whichever module it is in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import unbiasedgbm

INNER = """
from unbiasedgbm.kernels import inline_kernel


@inline_kernel
def inner(x):
    return x + {}
"""

OUTER = """
from unbiasedgbm.inner import inner
from unbiasedgbm.kernels import kernel


@kernel
def outer(x):
    return inner(x)
"""

CALL = "from unbiasedgbm.outer import outer; print(outer(10), sum(outer.stats.cache_hits.values()))"


def test_a_change_of_what_a_kernel_calls_is_noticed(tmp_path: Path) -> None:
    package = tmp_path / "unbiasedgbm"
    shutil.copytree(Path(unbiasedgbm.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "outer.py").write_text(OUTER)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def call(added: int) -> tuple[int, int]:
        (package / "inner.py").write_text(INNER.format(added))
        command = [sys.executable, "-B", "-c", CALL]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
        result, hits = map(int, done.stdout.split())
        return result, hits

    assert call(1) == (11, 0)
    assert call(1) == (11, 1)
    assert call(2) == (12, 0)
    assert call(2) == (12, 1)
