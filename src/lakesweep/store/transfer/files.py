"""Files of exports: there with all that they say, or not at all."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from lakesweep.errors import MissingError, StorageError, UsageError
from lakesweep.store.transfer.compression import compressing
from lakesweep.store.transfer.reader import ExportReader

_BUFFER_BYTES = 2**20


@contextmanager
def new_file(path: Path, *, replace: bool = False) -> Iterator[IO[bytes]]:
    """A file that gets its name when everything is written, and leaves nothing behind otherwise.

    It is compressed if its name ends with .gz or .zst. UsageError if the name is taken, unless it
    may be replaced.
    """
    if not replace and path.exists():
        raise UsageError(f"{path} is there already", hint="name another file, or add --force")
    unfinished = path.with_name(f".lakesweep-{secrets.token_hex(8)}.part")
    try:
        yield from _written(unfinished, path.name)
        _sync(unfinished)
        unfinished.replace(path)
        _sync(path.parent)
    except OSError as error:
        reason = f"cannot be written: {error.strerror or error}"
        raise StorageError(
            str(path), reason, hint="free some space, or name a file elsewhere"
        ) from error
    finally:
        # Whatever went wrong before says more than that nothing can be deleted here either.
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _written(unfinished: Path, name: str) -> Iterator[IO[bytes]]:
    with unfinished.open("xb", _BUFFER_BYTES) as file, compressing(file, name) as sink:
        yield sink


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_export(source: Path | io.BufferedReader[Any]) -> Iterator[ExportReader]:
    """An export in a file, or one that comes through a pipe."""
    if not isinstance(source, Path):
        yield ExportReader(source, "the standard input")
        return
    try:
        file = io.BufferedReader(source.open("rb", 0), _BUFFER_BYTES)
    except FileNotFoundError:
        raise MissingError(str(source)) from None
    except OSError as error:
        raise StorageError(str(source), f"cannot be read: {error.strerror}") from error
    with file:
        yield ExportReader(file, str(source))
