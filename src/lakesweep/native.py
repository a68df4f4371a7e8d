"""How hot loops over bytes are compiled: numba, with the few machine words that it lacks.

Importing this module imports numba, which takes about a second. Modules with kernels are therefore
imported inside the functions that run them. Compiled kernels are cached beside their source or,
where that folder cannot be written, in the user's cache folder; `NUMBA_CACHE_DIR` names another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

_WORD = ir.IntType(64)


def kernel(function: Function) -> Function:
    """Compile a function that Python calls; the result is cached on disk."""
    return cast(Function, njit(cache=True, nogil=True, boundscheck=False)(function))


def inlined(function: Function) -> Function:
    """Compile a function that only kernels call, into its callers."""
    return cast(Function, njit(nogil=True, boundscheck=False, forceinline=True)(function))


def _pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


@intrinsic
def _at(_typing: Any, array: Any, index: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        pointer = _pointer(context, builder, signature, args)
        return context.unpack_value(builder, signature.args[0].dtype, pointer)

    return array.dtype(array, index), generate


@intrinsic
def _load64(_typing: Any, array: Any, index: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        pointer = _pointer(context, builder, signature, args)
        word = builder.bitcast(pointer, ir.PointerType(_WORD))
        return builder.load(word, align=1, typ=_WORD)

    return types.uint64(array, index), generate


@intrinsic
def _copy_bytes(_typing: Any, target: Any, to: Any, source: Any, begin: Any, size: Any) -> Any:  # noqa: ANN401, PLR0913
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        into = context.make_array(signature.args[0])(context, builder, args[0])
        out = context.make_array(signature.args[2])(context, builder, args[2])
        cgutils.raw_memcpy(
            builder,
            builder.gep(into.data, [args[1]]),
            builder.gep(out.data, [args[3]]),
            args[4],
            1,
        )
        return context.get_dummy_value()

    return types.void(target, to, source, begin, size), generate


@intrinsic
def _count_ones(_typing: Any, word: Any) -> Any:  # noqa: ANN401
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.ctpop(args[0])

    return types.int64(word), generate


@intrinsic
def _leading_zeros(_typing: Any, word: Any) -> Any:  # noqa: ANN401
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(word), generate


@intrinsic
def _trailing_zeros(_typing: Any, word: Any) -> Any:  # noqa: ANN401
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(word), generate


#: `at(array, i)`: one item of a contiguous array; the caller has checked 0 <= i < len.
at: Callable[..., Any] = _at
#: `load64(data, i)`: bytes i to i + 7, little-endian; the caller has checked that they are there.
load64: Callable[..., Any] = _load64
#: `copy_bytes(target, to, source, begin, size)`; the caller has checked both ranges.
copy_bytes: Callable[..., None] = _copy_bytes
#: Bits of a uint64 word.
count_ones: Callable[..., int] = _count_ones
leading_zeros: Callable[..., int] = _leading_zeros
trailing_zeros: Callable[..., int] = _trailing_zeros
