"""Lists and manifests of a large table on the executors of an engine.

Executors read them by the kernels of marking, and write what they name as datasets. Files are
compared by the engine, all manifests of one in the same task. What comes back to this process are
numbers of manifests, and the files that a kernel chose, a batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from lakesweep.errors import IncompleteError
from lakesweep.iceberg.mark_levels import IcebergListLevel, IcebergManifestLevel
from lakesweep.marks.columns import POINTERS
from lakesweep.marks.file_level import FileLevel, map_sources
from lakesweep.marks.pointers import Pointer, pointers_of
from lakesweep.marks.unreadable import Problem
from lakesweep.marks.walk import SourceFiles, read_source
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import (
    PART_SCHEMA,
    DatasetWriter,
    commit_dataset,
    parts_of,
    write_dataset,
    write_parts,
)
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.stores import Keyring, Stores
from lakesweep.sweep.engine.protocol import TASK_RESULTS, SweepEngine, results_of, task_result
from lakesweep.upkeep.hashed_rows import ROWS, manifest_rows
from lakesweep.upkeep.manifest_source import ASKED, ListedManifests, PartKernel, named_files

_NUMBER = pa.field("number", pa.int32(), nullable=False)
#: A list or manifest to read, by its own number; or a manifest, by that of a list that names it.
_NUMBERED = pa.schema([_NUMBER, *POINTERS])
_WORKERS = 8
_PART, _SOURCE = "part", "source"
#: A task compares about this many rows in memory.
_ROWS_IN_A_TASK = 500_000


class _ReadSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """A source that a task has read."""

    number: int
    size_bytes: int | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class _ReadStep:
    """Reads numbered sources on an executor, and writes what they name. Yields TASK_RESULTS."""

    stores: Stores
    address: str
    level: FileLevel[Any]
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, self.schema)
        for batch in batches:
            yield task_result(_SOURCE, self._read(batch, writer))
        yield task_result(_PART, writer.finish())

    def _read(self, batch: pa.RecordBatch, writer: DatasetWriter) -> Iterator[_ReadSource]:
        numbers, pointers = batch["number"].to_pylist(), [*pointers_of(batch)]
        sources = map_sources(partial(read_source, self.level), pointers, _WORKERS)
        for number, found in zip(numbers, sources, strict=True):
            for rows in self._rows(number, found):
                writer.add(rows)
            (size,) = found.files[-1]["size_bytes"].to_pylist()
            yield _ReadSource(number, size, tuple(found.problems))

    def _rows(self, number: int, found: SourceFiles) -> Iterator[pa.RecordBatch]:
        if self.schema == ROWS:
            yield from (manifest_rows(number, files) for files in named_files(found))
            return
        for children in found.children:
            numbers = pa.repeat(pa.scalar(number, pa.int32()), children.num_rows)
            columns = [numbers, *(children[name] for name in POINTERS.names)]
            yield pa.RecordBatch.from_arrays(columns, schema=_NUMBERED)


@dataclass(frozen=True)
class _MapStep:
    """Runs a kernel on an executor over all rows of some files. Yields PART_SCHEMA."""

    stores: Stores
    address: str
    kernel: PartKernel
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch.select(ROWS.names).cast(ROWS) for batch in batches]
        found = self.kernel(pa.Table.from_batches(rows, ROWS))
        return write_parts(self.stores, self.address, self.schema, found)


class EngineManifests:
    """Reads on executors, and keeps rows below `address`, which executors must reach too.

    `stores` are those of the work, `keyring` those of the table.
    """

    def __init__(self, engine: SweepEngine, stores: Stores, keyring: Keyring, address: str) -> None:
        self._engine = engine
        self._stores = stores
        self._keyring = keyring
        self._address = address
        self._rows: list[Dataset] = []
        self._steps = count(1)

    def lists(self, pointers: Sequence[Pointer]) -> Iterator[ListedManifests]:
        level = IcebergListLevel(self._keyring)
        found, rows = self._read([*enumerate(pointers)], level, _NUMBERED)
        for each in found:
            yield ListedManifests(each.number, (), each.size_bytes, each.problems)
        for batch in read_dataset(self._stores, rows):
            yield from _by_list(batch)

    def read(
        self, manifests: Sequence[tuple[int, Pointer]]
    ) -> Iterator[tuple[int, tuple[Problem, ...]]]:
        level = IcebergManifestLevel(self._keyring)
        found, rows = self._read(manifests, level, ROWS)
        self._rows.append(rows)
        for each in found:
            yield each.number, each.problems

    def map(
        self, kernel: PartKernel, schema: pa.Schema, asked: Iterable[pa.RecordBatch] = ()
    ) -> Iterator[pa.RecordBatch]:
        others = (manifest_rows(ASKED, batch) for batch in asked)
        beside = write_dataset(self._stores, self._work("asked"), ROWS, others)
        rows = [each for each in (*self._rows, beside) if each.rows]
        if not rows:
            return kernel(pa.Table.from_batches([], ROWS))
        address = self._work("found")
        step = _MapStep(self._stores, address, kernel, schema)
        calls = -(-sum(each.rows for each in rows) // _ROWS_IN_A_TASK)
        answers = self._engine.group(step, rows, PART_SCHEMA, least_calls=calls)
        parts = [part for batch in answers.to_batches() for part in parts_of(batch)]
        return read_dataset(self._stores, commit_dataset(self._stores, address, parts, schema))

    def close(self) -> None:
        remove_folder(self._stores, self._address)

    def _read(
        self, sources: Sequence[tuple[int, Pointer]], level: FileLevel[Any], schema: pa.Schema
    ) -> tuple[list[_ReadSource], Dataset]:
        address = self._work("read")
        asked = write_dataset(self._stores, f"{address}/pointers", _NUMBERED, [_numbered(sources)])
        step = _ReadStep(self._stores, f"{address}/rows", level, schema)
        answers = self._engine.gather(step, asked, TASK_RESULTS)
        found = [*results_of(answers, _SOURCE, _ReadSource)]
        if len(found) != len(sources):  # a table of which a part is unknown must not expire
            raise IncompleteError(
                f"{len(found):,} of {len(sources):,} files were read by executors",
                hint="run the command again",
            )
        parts = results_of(answers, _PART, Part)
        return found, commit_dataset(self._stores, f"{address}/rows", parts, schema)

    def _work(self, name: str) -> str:
        return f"{self._address}/{next(self._steps):03}-{name}"


def _numbered(sources: Sequence[tuple[int, Pointer]]) -> pa.RecordBatch:
    rows = [{"number": number, **pointer._asdict()} for number, pointer in sources]
    return pa.RecordBatch.from_pylist(rows, schema=_NUMBERED)


def _by_list(batch: pa.RecordBatch) -> Iterator[ListedManifests]:
    """Rows of _NUMBERED by their list: one list is in one stretch of rows, or in several."""
    numbers = batch["number"].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
    for first, last in pairwise(edges):
        rows = batch.slice(first, last - first)
        yield ListedManifests(int(numbers[first]), [rows.select(POINTERS.names)])
