"""Where compiled kernels are cached if the package's own folder cannot be written.

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
from typing import Any

from numba.core import caching, config

from lakesweep.private_folders import cache_home, is_writable, make_private


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
