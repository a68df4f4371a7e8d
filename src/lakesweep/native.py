"""Compile hot loops over bytes: numba, with the few machine instructions that it lacks.

Inside a kernel, memory is an address, as a number: arrays passed from function to function would be
reference-counted on the way, at many times the price of the work itself. Nothing is checked here:
the kernels check before they read or write.

Importing this module imports numba, which takes about a second, so modules with kernels are
imported inside the functions that run them. Compiled kernels are cached beside their source, or
elsewhere if that folder is not writable. `NUMBA_CACHE_DIR` overrides both. Without a cache each
process compiles for itself, which takes some seconds. So does each new set of argument types:
arrays that kernels read are passed as read-only and contiguous. A kernel is recompiled when its own
file changes; after changing this file, touch the others.

On executors the package is a zip in the folder of one job, and users without a home are common.
numba would then keep a cache for each location of the zip, or fail. Here the cache key is the code
itself: the same zip finds what was compiled from it before, in the first of these folders that is
writable: `NUMBA_CACHE_DIR`, the user's cache folder, a folder of this user among the temporary
ones.

numba numbers the cached variants of a kernel, so processes that compile it at the same time, for
other arguments or from another version of its source, may load each other's code. Here file names
are derived from the content.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import caching, cgutils, config
from numba.extending import intrinsic

from lakesweep.private_folders import cache_home, is_writable, make_private

Function = TypeVar("Function", bound=Callable[..., Any])
Load = Callable[[int], Any]
Store = Callable[[int, int], None]
Copy = Callable[[int, int, int], None]
Count = Callable[[Any], int]
Prefetch = Callable[[int], None]
Checksum = Callable[[Any, Any], Any]


class OwnLocator(caching._CacheLocator):  # type: ignore[misc]  # noqa: SLF001
    """Tells numba where to cache a kernel of ours, if its own folder is unsuitable."""

    def __init__(self, function: Callable[..., Any], folder: Path, stamp: str) -> None:
        self._place = f"{function.__module__}-{function.__code__.co_firstlineno}"
        self._folder = folder
        self._stamp = stamp

    def get_cache_path(self) -> str:
        return str(self._folder / self._stamp[:16])

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return self._place

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> OwnLocator | None:
        source = _archive(path) or path
        if not function.__module__.startswith("lakesweep.") or is_writable(Path(path).parent):
            return None
        folder = _first_folder()
        return None if folder is None else cls(function, folder, _hash(source))


class OwnCacheFile(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Stores code under names derived from its source and its argument types."""

    def save(self, key: object, data: object) -> None:
        overloads = self._load_index()
        overloads[key] = self._name(key)
        # Data before index: a process that finds the name in the index also finds the code.
        self._save_data(overloads[key], data)
        self._save_index(overloads)

    def load(self, key: object) -> object:
        # An index written by numba itself may name code of another source version.
        is_own = self._load_index().get(key) == self._name(key)
        return super().load(key) if is_own else None

    def _name(self, key: object) -> str:
        meaning = hashlib.sha256(repr((self._version, self._source_stamp, key)).encode())
        return str(self._data_name(int(meaning.hexdigest()[:16], 16)))


def keep_apart(kernel: Any) -> None:
    """Make a cached kernel use file names of its own."""
    cache, file = kernel._cache, kernel._cache._cache_file  # noqa: SLF001
    name = file._index_name.removesuffix(".nbi")  # noqa: SLF001
    cache._cache_file = OwnCacheFile(file._cache_path, name, file._source_stamp)  # noqa: SLF001


def can_be_cached(function: Callable[..., Any]) -> bool:
    """Whether numba can cache this kernel; for one inside a zip it would find out too late."""
    return _archive(function.__code__.co_filename) is None or _first_folder() is not None


def install() -> None:
    """Make numba ask here first."""
    if OwnLocator not in caching.CacheImpl._locator_classes:  # noqa: SLF001
        caching.CacheImpl._locator_classes.insert(0, OwnLocator)  # noqa: SLF001


def _archive(path: str) -> str | None:
    """The file that a path leads through, such as the zip of a module."""
    return next((str(parent) for parent in Path(path).parents if parent.is_file()), None)


@cache
def _hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@cache
def _first_folder() -> Path | None:
    # Cached code is executed, so no one else may be able to write there.
    return next((folder for folder in _folders() if make_private(folder)), None)


def _folders() -> Iterator[Path]:
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR) / "lakesweep"
    yield cache_home() / "numba"
    yield Path(tempfile.gettempdir()) / f"lakesweep-numba-{os.geteuid()}"


install()


def kernel(function: Function) -> Function:
    """Compile a function that Python calls; the result is cached on disk if possible."""
    try:
        cached = can_be_cached(function)
        compiled = njit(cache=cached, nogil=True, boundscheck=False)(function)
        if cached:
            keep_apart(compiled)
    except RuntimeError:  # no writable folder for the cache
        compiled = njit(nogil=True, boundscheck=False)(function)
    return cast("Function", compiled)


def inlined(function: Function) -> Function:
    """Compile a function that only kernels call, inlined into its callers."""
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    return cast("Function", njit(nogil=True, boundscheck=False, **options)(function))


@inlined
def address(array: Any) -> Any:
    """The address of an array's first item."""
    return np.int64(array.ctypes.data)


def _pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.PointerType(ir.IntType(bits)))


def _make_load(bits: int, answer: Any) -> Load:
    def load(_typing: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            word = builder.load(_pointer(builder, args[0], bits), align=1, typ=ir.IntType(bits))
            return word if bits == answer.bitwidth else builder.zext(word, ir.IntType(64))

        return answer(address), generate

    return cast("Load", intrinsic(load))


def _make_store(bits: int) -> Store:
    def store(_typing: Any, address: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            word = args[1] if bits == 64 else builder.trunc(args[1], ir.IntType(bits))
            builder.store(word, _pointer(builder, args[0], bits), align=1)
            return context.get_dummy_value()

        return types.void(address, types.int64), generate

    return cast("Store", intrinsic(store))


def _make_count(name: str, *rest: Any) -> Count:
    def count(_typing: Any, _word: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return getattr(builder, name)(args[0], *rest)

        return types.int64(types.uint64), generate

    return cast("Count", intrinsic(count))


def _copy(_typing: Any, to: Any, source: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        target, origin = (_pointer(builder, each, 8) for each in args[:2])
        cgutils.raw_memcpy(builder, target, origin, args[2], 1)
        return context.get_dummy_value()

    return types.void(to, source, size), generate


def _prefetch(_typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer, hint = ir.PointerType(ir.IntType(8)), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, hint, hint, hint])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        # To read, to keep in all caches, as data.
        builder.call(function, [_pointer(builder, args[0], 8), hint(0), hint(3), hint(1)])
        return context.get_dummy_value()

    return types.void(address), generate


def _crc32c(_typing: Any, _crc: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word, word])
        function = cgutils.get_or_insert_function(
            builder.module, kind, "llvm.x86.sse42.crc32.64.64"
        )
        return builder.call(function, args)

    return types.uint64(types.uint64, types.uint64), generate


def _has_crc32c() -> bool:
    """Whether kernels are compiled for this machine, and it has the instruction."""
    is_own = not config.CPU_NAME and not config.CPU_FEATURES
    return is_own and bool(binding.get_host_cpu_features().get("sse4.2", False))


_DEFINED_FOR_ZERO = ir.Constant(ir.IntType(1), 0)
# Load from an address: one byte; four bytes, unsigned; eight bytes, signed and unsigned.
load8 = _make_load(8, types.int64)
load32 = _make_load(32, types.int64)
load64 = _make_load(64, types.int64)
load_word = _make_load(64, types.uint64)
# Store the low bits of a number at an address.
store8 = _make_store(8)
store32 = _make_store(32)
store64 = _make_store(64)
# Copy bytes to an address from an address; the two ranges must not overlap.
copy: Copy = intrinsic(_copy)
# Hint that the bytes at an address will be needed soon. Any address is valid.
prefetch: Prefetch = intrinsic(_prefetch)
# Bit counts of an unsigned word.
count_ones = _make_count("ctpop")
trailing_zeros = _make_count("cttz", _DEFINED_FOR_ZERO)
# Add eight bytes to a checksum (CRC-32C) with an instruction, only if the machine has it.
HAS_CRC32C = _has_crc32c()
crc32c_word: Checksum = intrinsic(_crc32c)
