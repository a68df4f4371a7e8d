"""The levels of Iceberg: metadata files, manifest lists, manifests.

Metadata files lead to manifest lists, or to the manifests that old tables embed; lists lead to
manifests; manifests name data and delete files. A level can be pickled and runs wherever its
pointers are; its caller deduplicates between levels.

`reached_files` streams every file that one table or view reaches, in the order of `marks.walk`:
files before their manifest, manifests before their lists, the current metadata last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.errors import MissingError
from lakesweep.iceberg.file_kinds import IcebergKind, metadata_version
from lakesweep.iceberg.manifests import (
    MANIFEST_SCHEMA,
    ManifestReader,
    embedded_manifests,
    read_manifest_list,
)
from lakesweep.iceberg.metadata import (
    Metadata,
    TableMetadata,
    ViewMetadata,
    absolute_paths,
    parse_metadata,
    read_file,
)
from lakesweep.marks.columns import RootFacts, source_numbers
from lakesweep.marks.file_level import FileLevel, LevelSpec, MarkCollector
from lakesweep.marks.pointers import Pointer, children_of, pointer_to
from lakesweep.marks.unreadable import READ_ERRORS, Problem, ReadFailure, Tolerance, problem_of
from lakesweep.marks.walk import Walk, mark_source
from lakesweep.storage.address import parse
from lakesweep.storage.file_batches import coalesce_batches, file_batch
from lakesweep.storage.file_identity import file_hashes
from lakesweep.storage.stores import Keyring, Stores


@dataclass(frozen=True)
class FoundMetadata:
    """A metadata file, with the version hint beside it."""

    metadata: Metadata
    hint: pa.RecordBatch
    #: Why it is not known whether there is a hint.
    hint_problem: Problem | None = None


@dataclass(frozen=True)
class IcebergMetadataLevel(FileLevel[FoundMetadata]):
    """The metadata files of tables and views."""

    def read(self, pointer: Pointer) -> FoundMetadata:
        data = read_file(self.keyring.open(pointer.access), pointer.path)
        limits = self.keyring.limits
        return self.complete(pointer, parse_metadata(pointer.path, data, pointer.location, limits))

    def complete(self, pointer: Pointer, metadata: Metadata) -> FoundMetadata:
        """Metadata that has been read, with its version hint."""
        path = metadata.version_hint if isinstance(metadata, TableMetadata) else None
        if path is None:
            return FoundMetadata(metadata, _hint())
        address = parse(path)
        try:
            store = self.keyring.open(pointer.access).open(address)
            return FoundMetadata(metadata, _hint((path, store.head(address.key).size_bytes)))
        except MissingError:
            return FoundMetadata(metadata, _hint())
        except READ_ERRORS as error:
            return FoundMetadata(metadata, _hint((path, None)), problem_of(error))

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: FoundMetadata) -> Iterator[None]:
        # A hint names no file. Marking only has to keep it, so a problem with it does no harm here.
        metadata = found.metadata
        pointer = pointer._replace(size_bytes=metadata.size_bytes)
        outbox.state(pointer.source, facts_of(metadata))
        match metadata:
            case ViewMetadata():
                outbox.close(pointer._replace(kind=IcebergKind.VIEW_METADATA), entries=0)
            case TableMetadata():
                own = pointer._replace(kind=IcebergKind.METADATA)
                _mark_table(outbox, own, metadata, found.hint)
        yield


@dataclass(frozen=True)
class IcebergListLevel(FileLevel[bytes]):
    """Manifest lists. `entries` of their pointers is the data file count of a snapshot."""

    def read(self, pointer: Pointer) -> bytes:
        return read_file(self.keyring.open(pointer.access), pointer.path)

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: bytes) -> Iterator[None]:
        manifests = read_manifest_list(
            pointer.path, found, data_files=pointer.entries, limits=self.keyring.limits
        )
        outbox.lead(_children(pointer, pointer.location, IcebergKind.MANIFEST, manifests))
        outbox.close(pointer._replace(size_bytes=len(found)), manifests.num_rows)
        yield


@dataclass(frozen=True)
class IcebergManifestLevel(FileLevel[bytes]):
    """Manifests. Their pointers have the size and the entry count that a list states."""

    def read(self, pointer: Pointer) -> bytes:
        return read_file(self.keyring.open(pointer.access), pointer.path)

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: bytes) -> Iterator[None]:
        reader = ManifestReader(
            pointer.path, found, pointer.size_bytes, pointer.entries, self.keyring.limits
        )
        for live in reader.live_files():
            outbox.add(pointer.source, _absolute(live, pointer.location))
            yield
        size = len(found) if pointer.size_bytes is None else pointer.size_bytes
        outbox.close(pointer._replace(size_bytes=size), reader.seen)


#: From the root's own file down.
ICEBERG_LEVELS = (
    LevelSpec(IcebergKind.METADATA, IcebergMetadataLevel),
    LevelSpec(IcebergKind.MANIFEST_LIST, IcebergListLevel),
    LevelSpec(IcebergKind.MANIFEST, IcebergManifestLevel, immutable=True),
)


def _absolute(files: pa.RecordBatch, base: str | None) -> pa.RecordBatch:
    if base is None:
        return files
    return files.set_column(0, files.schema.field(0), absolute_paths(files["path"], base))


def _hint(*found: tuple[str, int | None]) -> pa.RecordBatch:
    return file_batch(IcebergKind.VERSION_HINT, found)


def _mark_table(
    outbox: MarkCollector, pointer: Pointer, table: TableMetadata, hint: pa.RecordBatch
) -> None:
    sized = {
        IcebergKind.STATISTICS: table.statistics,
        IcebergKind.PARTITION_STATISTICS: table.partition_statistics,
    }
    for kind, files in sized.items():
        outbox.add(pointer.source, file_batch(kind, ((f.path, f.size_bytes) for f in files)))
    outbox.add(
        pointer.source, file_batch(IcebergKind.METADATA_LOG, ((path, None) for path in table.log))
    )
    outbox.add(pointer.source, hint)
    embedded = dict.fromkeys(path for s in table.snapshots for path in s.manifests)
    for kind, found in (
        (IcebergKind.MANIFEST_LIST, _lists(table)),
        (IcebergKind.MANIFEST, embedded_manifests(list(embedded))),
    ):
        outbox.lead(_children(pointer, table.path_base, kind, found))
    if table.dangling:
        problems = [Problem(table.path, ReadFailure.DAMAGED, reason) for reason in table.dangling]
        outbox.fail(pointer, *problems)
    else:
        outbox.close(pointer, len(table.snapshots))


def _lists(table: TableMetadata) -> pa.Table:
    """The manifest lists, each with the largest data file count of its snapshots."""
    counted: dict[str, int] = {}
    for snapshot in table.snapshots:
        path = snapshot.manifest_list
        if path is not None:
            counted[path] = max(counted.get(path, 0), snapshot.total_data_files or 0)
    found = embedded_manifests(list(counted))
    entries = pa.array(counted.values(), pa.int64())
    return found.set_column(2, MANIFEST_SCHEMA.field("entries"), entries)


def _children(
    parent: Pointer, base: str | None, kind: IcebergKind, found: pa.Table
) -> pa.RecordBatch:
    """What a source leads to, from MANIFEST_SCHEMA."""
    names, size_bytes, entries, _ = (column.combine_chunks() for column in found.columns)
    return children_of(parent, kind, absolute_paths(names, base), size_bytes, entries, base)


def facts_of(metadata: Metadata) -> RootFacts:
    """What metadata says about its table or view as a root."""
    table = metadata if isinstance(metadata, TableMetadata) else None
    return RootFacts(
        location=metadata.location,
        write_paths=metadata.write_paths,
        gc_enabled=metadata.gc_enabled,
        uuid=metadata.uuid,
        format_version=metadata.format_version,
        current_snapshot=table.current_snapshot if table else None,
        oldest_snapshot_ms=_oldest(each.timestamp_ms for each in table.snapshots)
        if table
        else None,
        oldest_version=_oldest(
            map(metadata_version, (metadata.path, *(table.log if table else ())))
        ),
        hidden_fields=table.hidden_fields if table else (),
        log=_log(table) if table else (),
    )


def _log(table: TableMetadata) -> tuple[int, ...]:
    numbers = source_numbers(file_hashes(pa.array(table.log, pa.string())))
    return tuple(numbers.to_pylist())


def _oldest(numbers: Iterable[int | None]) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


#: What is above the manifests is read by one process; manifests may be read by several.
UPPER_LEVELS, MANIFEST_LEVEL = ICEBERG_LEVELS[:-1], ICEBERG_LEVELS[-1]


def reached_files(
    stores: Stores, metadata: Metadata, tolerance: Tolerance, *, workers: int = 16
) -> Iterator[pa.RecordBatch]:
    """All files that the metadata reaches, as FILE_SCHEMA, children before parents."""
    walk = start_walk(stores, metadata, tolerance, workers=workers)
    yield from coalesce_batches(walk.files(ICEBERG_LEVELS))


def start_walk(
    stores: Stores, metadata: Metadata, tolerance: Tolerance, *, workers: int = 16
) -> Walk:
    """A walk that has entered a table or view by metadata that was read before."""
    walk = Walk(Keyring(stores), tolerance, workers)
    level = IcebergMetadataLevel(walk.keyring)
    pointer = pointer_to(metadata.path, IcebergKind.METADATA)
    found = level.complete(pointer, metadata)
    if found.hint_problem is not None:
        tolerance.meet(found.hint_problem)
    walk.enter(mark_source(level, pointer, found))
    return walk
