"""Eight words at a time: what numba's loops leave to LLVM's guess, said as vectors.

Short loops over a few dozen rows are where a guess costs most: a vector loop that LLVM makes of one handles 32 rows in
a turn and the rest one by one. These handle eight, whatever the processor's own width, and round up to the next eight.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8

_WORD = ir.IntType(64)
_WORDS = ir.VectorType(_WORD, LANES)
_NONE = ir.Constant(_WORDS, [0] * LANES)


def _word(value: int) -> Any:
    return ir.Constant(_WORD, value)


def _data(context: Any, builder: Any, signature: Any, arguments: Any, index: int) -> Any:
    """Where an array's first element is."""
    return context.make_array(signature.args[index])(context, builder, arguments[index]).data


def _block(builder: Any, pointer: Any, index: Any) -> Any:
    """Where the eight words from ``index`` on are."""
    return builder.bitcast(builder.gep(pointer, [index]), _WORDS.as_pointer())


def _spread(builder: Any, value: Any) -> Any:
    """Eight times the same word."""
    nothing = ir.Constant(_WORDS, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _n_blocks(builder: Any, n: Any) -> Any:
    return builder.udiv(builder.add(n, _word(LANES - 1)), _word(LANES))


@intrinsic
def sums_up_to(typing_context: Any, keys: Any, values: Any, n: Any, sums: Any) -> Any:
    """Fill ``sums[i]`` with the sum of ``values[j]``, j < n, over ``keys[j]`` ≤ ``keys[i]``.

    Parameters
    ----------
    keys, values, sums : ndarrays, int64
        ``keys`` is read and ``sums`` written up to the next multiple of eight.
    n : int64
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        key, value, total = (_data(context, builder, signature, arguments, i) for i in (0, 1, 3))
        sum_at = cgutils.alloca_once(builder, _WORDS)
        with cgutils.for_range(builder, _n_blocks(builder, arguments[2])) as blocks:
            at = builder.mul(blocks.index, _word(LANES))
            cut = builder.load(_block(builder, key, at), align=8)
            builder.store(_NONE, sum_at)
            with cgutils.for_range(builder, arguments[2]) as others:
                other, part = (builder.load(builder.gep(array, [others.index])) for array in (key, value))
                left = builder.icmp_signed("<=", _spread(builder, other), cut)
                part = builder.select(left, _spread(builder, part), _NONE)
                builder.store(builder.add(builder.load(sum_at), part), sum_at)
            builder.store(builder.load(sum_at), _block(builder, total, at), align=8)
        return context.get_dummy_value()

    return types.void(keys, values, n, sums), generate


@intrinsic
def sum_up_to(typing_context: Any, words: Any, values: Any, begin: Any, end: Any, shift: Any, cut: Any) -> Any:
    """Sum of ``values[begin:end]`` over the bins up to ``cut``, each a byte of its word.

    Parameters
    ----------
    words : ndarray, uint64
    values : ndarray, int64
    begin, end : uint64
        Multiples of eight.
    shift : uint64
        Where in its word the byte is.
    cut : uint64
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, value = (_data(context, builder, signature, arguments, i) for i in (0, 1))
        begin, end = arguments[2:4]
        shift, cut = (_spread(builder, argument) for argument in arguments[4:])
        byte = ir.Constant(_WORDS, [255] * LANES)
        sum_at = cgutils.alloca_once(builder, _WORDS)
        builder.store(_NONE, sum_at)
        with cgutils.for_range(builder, _n_blocks(builder, builder.sub(end, begin))) as blocks:
            at = builder.add(begin, builder.mul(blocks.index, _word(LANES)))
            bins = builder.and_(builder.lshr(builder.load(_block(builder, word, at), align=8), shift), byte)
            part = builder.load(_block(builder, value, at), align=8)
            part = builder.select(builder.icmp_unsigned("<=", bins, cut), part, _NONE)
            builder.store(builder.add(builder.load(sum_at), part), sum_at)
        add_up = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_WORD, [_WORDS]), "llvm.vector.reduce.add.v8i64"
        )
        return builder.call(add_up, [builder.load(sum_at)])

    return types.int64(words, values, begin, end, shift, cut), generate


@intrinsic
def ranks(typing_context: Any, keys: Any, n: Any, rank: Any) -> Any:
    """Fill ``rank[i]`` with the place of ``keys[i]`` among the first n in order; of equal ones the first is first.

    Parameters
    ----------
    keys, rank : ndarrays, int64
        ``keys`` is read and ``rank`` written up to the next multiple of eight.
    n : int64
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        key, place = (_data(context, builder, signature, arguments, i) for i in (0, 2))
        sum_at = cgutils.alloca_once(builder, _WORDS)
        with cgutils.for_range(builder, _n_blocks(builder, arguments[1])) as blocks:
            at = builder.mul(blocks.index, _word(LANES))
            own = builder.load(_block(builder, key, at), align=8)
            builder.store(_NONE, sum_at)

            def count(begin: Any, end: Any, relation: str, own: Any = own) -> None:
                with cgutils.for_range_slice(builder, begin, end, _word(1), _WORD) as (index, _):
                    other = _spread(builder, builder.load(builder.gep(key, [index])))
                    before = builder.zext(builder.icmp_signed(relation, other, own), _WORDS)
                    builder.store(builder.add(builder.load(sum_at), before), sum_at)

            # of equal keys, those of earlier blocks are before this one's, those of later ones are not
            count(_word(0), at, "<=")
            count(at, arguments[1], "<")
            total = builder.load(sum_at)
            # nor are those of the same block, but for earlier ones
            for lane in range(LANES - 1):
                other = _spread(builder, builder.load(builder.gep(key, [builder.add(at, _word(lane))])))
                later = ir.Constant(
                    ir.VectorType(ir.IntType(1), LANES), [other_lane > lane for other_lane in range(LANES)]
                )
                tie = builder.and_(builder.icmp_signed("==", other, own), later)
                total = builder.add(total, builder.zext(tie, _WORDS))
            builder.store(total, _block(builder, place, at), align=8)
        return context.get_dummy_value()

    return types.void(keys, n, rank), generate
