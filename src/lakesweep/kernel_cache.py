"""Where compiled kernels are kept when the package's own folder cannot be written.

On executors the package is a zip in a folder of the one job, and users without a home are common.
numba would then keep a cache for each place of the zip, or fail. Here the code itself decides: the
same zip finds what was compiled from it before, in the first of these folders that can be written:
`NUMBA_CACHE_DIR`, the user's cache folder, a folder of this user among the temporary ones.

numba numbers what it keeps of one kernel, so that processes which compile it at the same time, for
other arguments or from another version of its source, may take each other's code for their own.
Here a name says what it is the name of.
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
    """Tells numba where a kernel of ours is kept, if its own folder is no place for it."""

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
    """Keeps code under names that are made of its source and of what it takes."""

    def save(self, key: object, data: object) -> None:
        overloads = self._load_index()
        overloads[key] = self._name(key)
        # A process that finds the name in the index finds the code.
        self._save_data(overloads[key], data)
        self._save_index(overloads)

    def load(self, key: object) -> object:
        is_own = self._load_index().get(key) == self._name(key)
        return super().load(key) if is_own else None

    def _name(self, key: object) -> str:
        meaning = hashlib.sha256(repr((self._version, self._source_stamp, key)).encode())
        return str(self._data_name(int(meaning.hexdigest()[:16], 16)))


def keep_apart(kernel: Any) -> None:
    """Have a compiled kernel that is cached keep its code under names of its own."""
    cache, file = kernel._cache, kernel._cache._cache_file  # noqa: SLF001
    name = file._index_name.removesuffix(".nbi")  # noqa: SLF001
    cache._cache_file = OwnCacheFile(file._cache_path, name, file._source_stamp)  # noqa: SLF001


def can_be_cached(function: Callable[..., Any]) -> bool:
    """Whether numba can keep this kernel; it would find out too late for one inside a zip."""
    return _archive(function.__code__.co_filename) is None or _first_folder() is not None


def install() -> None:
    """Let numba ask here first."""
    if OwnLocator not in caching.CacheImpl._locator_classes:  # noqa: SLF001
        caching.CacheImpl._locator_classes.insert(0, OwnLocator)  # noqa: SLF001


def _archive(path: str) -> str | None:
    """The file that a path leads through, as of a module inside a zip."""
    return next((str(parent) for parent in Path(path).parents if parent.is_file()), None)


@cache
def _hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@cache
def _first_folder() -> Path | None:
    # What is kept there is run.
    return next((folder for folder in _folders() if make_private(folder)), None)


def _folders() -> Iterator[Path]:
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR) / "lakesweep"
    yield cache_home() / "numba"
    yield Path(tempfile.gettempdir()) / f"lakesweep-numba-{os.geteuid()}"
