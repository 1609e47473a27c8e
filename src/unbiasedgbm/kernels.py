"""How kernels are compiled: one decorator, one hash, one prefetch.

A kernel is a free function on contiguous arrays that allocates nothing, releases the interpreter lock and runs on one
thread. Threads come from `threads.Pool`, never from numba (`parallel=True` aborts the process when two Python threads
meet in it, and does not survive a fork).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from unbiasedgbm import compiling

compiling.listen()

# Kernels allocate nothing, so numba's reference counting is off: less to compile.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on first use; keep the machine code on disk where a folder for it can be written."""
    try:
        compiled = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        # numba found no writable place beside the package, in the user's cache folder or in NUMBA_CACHE_DIR.
        return numba.njit(**_OPTIONS)(function)
    # numba only asks whether the file of this function has changed, but what it calls is part of the machine code
    on_disk = getattr(compiled._cache, "_cache_file", None)
    if on_disk is not None:
        on_disk._source_stamp = (on_disk._source_stamp, _sources_digest())
    return compiled


@lru_cache(maxsize=1)
def _sources_digest() -> str:
    """Digest of all modules that have to do with kernels."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        source = path.read_bytes()
        if b"kernels import" in source or b"numba" in source:
            digest.update(source)
    return digest.hexdigest()


def code_for(kernel: Any, *arguments: Any) -> Callable[..., Any]:
    """The machine code of a kernel for arguments like these, which is compiled if there is none yet.

    A call of it does not look at the arguments' types, which takes longer than a small tree where they are many. So it
    is for kernels that are called again and again with arguments of the same types, and arrays of the same layout.
    """
    code: Callable[..., Any] = kernel.compile(tuple(numba.typeof(argument) for argument in arguments))
    return code


def inline_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that only other kernels call: without a wrapper for Python there is less to compile."""
    return numba.njit(no_cpython_wrapper=True, **_OPTIONS)(function)


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask the processor to load ``array[index]`` for reading; no effect on any value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        base = context.make_array(array_type)(context, builder, arguments[0])
        address = builder.gep(base.data, [arguments[1]])
        pointer = builder.bitcast(address, cgutils.voidptr_t)
        i32 = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32]),
            "llvm.prefetch.p0",
        )
        # read access, high locality, data cache
        builder.call(function, [pointer, ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)


@inline_kernel
def hash64(key: np.uint64, counter: np.uint64) -> np.uint64:
    """Counter-based random bits (splitmix64's finaliser): the same for any order of the rows and any thread.

    Parameters
    ----------
    key, counter : uint64

    Returns
    -------
    uint64
    """
    x = key + (counter + np.uint64(1)) * _STEP
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@kernel
def hash_rows(key: np.uint64, first: np.uint64, out: Any) -> None:
    """Fill ``out`` (uint64) with the hashes of the rows from number ``first`` on."""
    for i in range(out.size):
        out[i] = hash64(key, first + np.uint64(i))


_MASK = 0xFFFFFFFFFFFFFFFF


def _mix(key: int, part: int) -> int:
    x = (key + (part + 1) * 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def hash_key(*parts: int) -> np.uint64:
    """Key for `hash64` from a seed and whatever tells one stream of random bits from another."""
    return np.uint64(_mix(_prefix(*parts[:-1]), parts[-1]))


@lru_cache(maxsize=256)
def _prefix(*parts: int) -> int:
    """What the keys of a stream, whose parts differ in the last one, have in common."""
    key = 0
    for part in parts:
        key = _mix(key, part)
    return key
