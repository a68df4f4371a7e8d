"""Where the manifest lists and manifests of a table are read, and the rows of manifests are kept.

The rows of one file are always seen together, so a kernel that compares the manifests of a file
works the same on a part of the rows here as on a partition of them on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import pyarrow as pa

from lakesweep.iceberg.mark_levels import IcebergListLevel, IcebergManifestLevel
from lakesweep.marks.columns import POINTERS
from lakesweep.marks.file_level import map_sources
from lakesweep.marks.pointers import Pointer
from lakesweep.marks.unreadable import Problem
from lakesweep.marks.walk import SourceFiles, read_source
from lakesweep.storage.stores import Keyring
from lakesweep.upkeep.hashed_rows import HashedRows

#: Compares the manifests that name a file: ROWS in, all of each file; picklable.
PartKernel = Callable[[pa.Table], Iterator[pa.RecordBatch]]
#: The number in place of a manifest's in rows that a caller asks about.
ASKED = -1


class ListedManifests(NamedTuple):
    """The manifests of a list, or some of them, as POINTERS. Lists are numbered as asked for."""

    number: int
    manifests: Sequence[pa.RecordBatch] = ()
    size_bytes: int | None = None
    problems: tuple[Problem, ...] = ()


class ManifestSource(Protocol):
    """Reads the lists and manifests of one table, each once, and keeps what manifests name.

    A file that cannot be read to its end names nothing, and is a problem.
    """

    def lists(self, pointers: Sequence[Pointer]) -> Iterator[ListedManifests]:
        """What lists name, in any order. Sizes and problems of a list may come by themselves."""
        ...

    def read(
        self, manifests: Sequence[tuple[int, Pointer]]
    ) -> Iterator[tuple[int, tuple[Problem, ...]]]:
        """Read numbered manifests, and keep the files that they name. Yields each number."""
        ...

    def map(
        self, kernel: PartKernel, schema: pa.Schema, asked: Iterable[pa.RecordBatch] = ()
    ) -> Iterator[pa.RecordBatch]:
        """What a kernel yields for all rows, with those of `asked` files (FILE_SCHEMA)."""
        ...

    def close(self) -> None:
        """Remove what is on disk."""
        ...


class LocalManifests:
    """Reads on threads of this process; many rows are kept on disk."""

    def __init__(self, keyring: Keyring, workers: int) -> None:
        self._keyring = keyring
        self._workers = workers
        self._rows = HashedRows()

    def lists(self, pointers: Sequence[Pointer]) -> Iterator[ListedManifests]:
        read = partial(read_source, IcebergListLevel(self._keyring))
        for number, found in enumerate(map_sources(read, pointers, self._workers)):
            yield listed_manifests(number, found)

    def read(
        self, manifests: Sequence[tuple[int, Pointer]]
    ) -> Iterator[tuple[int, tuple[Problem, ...]]]:
        read = partial(read_source, IcebergManifestLevel(self._keyring))
        pointers = [pointer for _, pointer in manifests]
        sources = map_sources(read, pointers, self._workers)
        for (number, _), found in zip(manifests, sources, strict=True):
            for batch in named_files(found):
                self._rows.add(number, batch)
            yield number, tuple(found.problems)

    def map(
        self, kernel: PartKernel, schema: pa.Schema, asked: Iterable[pa.RecordBatch] = ()
    ) -> Iterator[pa.RecordBatch]:
        del schema  # the batches have it
        with HashedRows() as others:
            for batch in asked:
                others.add(ASKED, batch)
            for part in self._rows.parts(others):
                yield from kernel(part)

    def close(self) -> None:
        self._rows.close()


def listed_manifests(number: int, found: SourceFiles) -> ListedManifests:
    """What was read of a list."""
    (size,) = found.files[-1]["size_bytes"].to_pylist()
    manifests = [batch.select(POINTERS.names) for batch in found.children]
    return ListedManifests(number, manifests, size, tuple(found.problems))


def named_files(found: SourceFiles) -> list[pa.RecordBatch]:
    """The files that a manifest names, without itself."""
    return found.files[:-1]
