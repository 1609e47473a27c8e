"""A team of threads inside one kernel call, for as long as a tree grows.

Handing work to a pool and waking its threads takes longer than most nodes of a tree. Here the members of the team
watch a *board*, an array in shared memory, instead of sleeping: a task on it is cut into chunks, every member takes
chunks until there are none left, and the one who put it there helps, then waits for the chunks that others have taken.
A member that comes late, or never, is not missed.

    NEXT     number of the next chunk that is free; chunks of all tasks are numbered through
    LIMIT    number behind the last chunk of the task
    FINISHED chunks of all tasks that are finished
    STOP     not 0 when there will be no more tasks

Whoever holds a chunk reads the task, which was written before `LIMIT` and stays until the chunk is finished.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from unbiasedgbm.kernels import inline_kernel

# Places on the board, a line of the cache apart.
NEXT, LIMIT, FINISHED, STOP, TASK, NODE, OTHER, N_CHUNKS = range(0, 64, 8)
BOARD_SIZE = 64

# Looks at the board after which a thread lets others have the processor between looks.
_LOOKS = 4000


def new_board() -> npt.NDArray[np.int64]:
    """A board without a task."""
    return np.zeros(BOARD_SIZE, np.int64)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


@intrinsic
def look(typing_context: Any, board: Any, index: Any) -> Any:
    """``board[index]``, and after it everything that was written before it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_address(context, builder, signature.args[0], *arguments), "seq_cst", 8)

    return types.int64(board, index), generate


@intrinsic
def show(typing_context: Any, board: Any, index: Any, value: Any) -> Any:
    """Set ``board[index]``, after everything that was written before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index, value = arguments
        builder.store_atomic(value, _address(context, builder, signature.args[0], array, index), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(board, index, types.int64), generate


@intrinsic
def count(typing_context: Any, board: Any, index: Any) -> Any:
    """Add one to ``board[index]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.atomic_rmw("add", address, ir.Constant(ir.IntType(64), 1), "seq_cst")

    return types.int64(board, index), generate


@intrinsic
def take(typing_context: Any, board: Any, index: Any, value: Any) -> Any:
    """Add one to ``board[index]`` if it is ``value``; whether it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index, value = arguments
        address = _address(context, builder, signature.args[0], array, index)
        more = builder.add(value, ir.Constant(ir.IntType(64), 1))
        return builder.extract_value(builder.cmpxchg(address, value, more, "seq_cst", "seq_cst"), 1)

    return types.boolean(board, index, types.int64), generate


@intrinsic
def give_way(typing_context: Any) -> Any:
    """Let another thread have the processor, if one waits for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        name = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), []), name)
        builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


@inline_kernel
def post(board, task, node, other, n_chunks):
    """Put a task on the board; its first chunk belongs to the caller."""
    board[TASK] = task
    board[NODE] = node
    board[OTHER] = other
    board[N_CHUNKS] = n_chunks
    first = look(board, NEXT)
    show(board, NEXT, first + 1)
    show(board, LIMIT, first + n_chunks)


@inline_kernel
def next_chunk(board):
    """A chunk of the task that nobody else has, counted from 0, or −1."""
    number = look(board, NEXT)
    limit = look(board, LIMIT)
    if number < limit and take(board, NEXT, number):
        return number - limit + board[N_CHUNKS]
    return np.int64(-1)


@inline_kernel
def wait(looks):
    """What to do between two looks at the board."""
    if looks > _LOOKS:
        give_way()
    return looks + 1
