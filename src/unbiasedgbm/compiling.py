"""What happens while kernels are compiled: a notice on the terminal, and no garbage collection.

numba makes millions of small objects that refer to each other, and nearly all of them live until a kernel is done: the
collector looks through them again and again and finds nothing.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from numba.core import event

_NOTICE = "[unbiasedgbm] compiling kernels, once on this machine: a few seconds"


class WhileCompiling(event.Listener):
    """Hears of every compilation of numba's in this process, and minds those of our own kernels.

    numba compiles under one lock, so the calls never overlap; a kernel that calls others is compiled around them.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._collects = False
        self._said = False

    def on_start(self, event: Any) -> None:
        """Say so, if this is the first, and stop the collector."""
        if not _is_ours(event):
            return
        self._depth += 1
        if self._depth > 1:
            return
        if not self._said and sys.stderr is not None and sys.stderr.isatty():
            print(_NOTICE, file=sys.stderr)
        self._said = True
        self._collects = gc.isenabled()
        gc.disable()

    def on_end(self, event: Any) -> None:
        """Leave the collector as it was found."""
        if not _is_ours(event):
            return
        self._depth -= 1
        if self._depth == 0 and self._collects:
            gc.enable()


def _is_ours(event: Any) -> bool:
    # functions that others make at run time may have no module
    module = getattr(getattr(event.data.get("dispatcher"), "py_func", None), "__module__", None) or ""
    return bool(module.partition(".")[0] == "unbiasedgbm")


def listen() -> None:
    """Register with numba; once, when the first module with kernels is imported."""
    event.register("numba:compile", WhileCompiling())
