"""Mark what keeps objects alive in a repository, level by level.

No file of a repository names all of it, so a state file is written first, with the metaranges
of all commits and the entries staged on branches. From there on everything lies in the bucket:
metaranges lead to ranges, most of them shared, and ranges name the objects. Each level is a
kernel, as for tables.

All of these files are named by the hash of their contents, which is compared whenever one is
read: a forged state, with fewer commits, would unprotect live objects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakesweep.decoding import typed_json
from lakesweep.errors import DamagedError
from lakesweep.lakefs.addresses import METADATA, StorageNamespace
from lakesweep.lakefs.columns import ENTRIES
from lakesweep.lakefs.ranges.reader import decode_metarange, decode_range
from lakesweep.marks.columns import RootFacts
from lakesweep.marks.file_level import FileLevel, LevelSpec, MarkCollector
from lakesweep.marks.pointers import Pointer, children_of
from lakesweep.storage.address import parse
from lakesweep.untrusted.documents import JSON_ERRORS

#: The columns of entries that marking needs.
_READ = pa.schema([ENTRIES.field(name) for name in ("address", "address_type", "size_bytes")])


class RepositoryFileKind(StrEnum):
    """The kinds of files of a repository."""

    STATE = "lakefs-state"
    STAGED = "lakefs-staged"
    METARANGE = "lakefs-metarange"
    RANGE = "lakefs-range"
    OBJECT = "lakefs-object"


class StagedPart(msgspec.Struct, frozen=True):
    """A file with rows of STAGED."""

    path: str
    rows: int
    size_bytes: int


class RepositoryState(msgspec.Struct, frozen=True, kw_only=True):
    """What a repository referenced at some time; `staged` was read before the commits."""

    location: str
    aliases: tuple[str, ...] = ()
    metaranges: tuple[str, ...] = ()
    staged: tuple[StagedPart, ...] = ()

    @property
    def namespace(self) -> StorageNamespace:
        return StorageNamespace(self.location, self.aliases)


@dataclass(frozen=True)
class StateLevel(FileLevel[bytes]):
    """States. They lead to metaranges, and to the files with staged entries."""

    def read(self, pointer: Pointer) -> bytes:
        return _read_named(self, pointer)

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: bytes) -> Iterator[None]:
        state = _decode_state(pointer.path, found)
        namespace = state.namespace
        outbox.state(pointer.source, RootFacts(location=namespace.location))
        metaranges = [namespace.address(METADATA + each) for each in state.metaranges]
        unknown = pa.nulls(len(metaranges), pa.int64())
        paths = pa.array(metaranges, pa.string())
        where = _spelled(namespace)
        outbox.lead(
            children_of(pointer, RepositoryFileKind.METARANGE, paths, unknown, unknown, where)
        )
        outbox.lead(_staged_children(pointer, state.staged, where))
        outbox.close(pointer._replace(size_bytes=len(found)), len(metaranges))
        yield


@dataclass(frozen=True)
class StagedLevel(FileLevel[bytes]):
    """Entries staged on branches: nothing in the bucket names them."""

    def read(self, pointer: Pointer) -> bytes:
        return _read_named(self, pointer)

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: bytes) -> Iterator[None]:
        namespace, seen = _namespace(pointer), 0
        for batch in pq.ParquetFile(pa.BufferReader(found)).iter_batches():
            outbox.add(pointer.source, live_objects(batch, namespace))
            seen += batch.num_rows
            yield
        _check_count(pointer, seen)
        outbox.close(pointer, seen)


@dataclass(frozen=True)
class MetarangeLevel(FileLevel[bytes]):
    """Metaranges. Those of most commits lead to the same ranges."""

    def read(self, pointer: Pointer) -> bytes:
        return _read(self, pointer)

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: bytes) -> Iterator[None]:
        ranges = decode_metarange(pointer.path, found, _id(pointer))
        folder = _namespace(pointer).address(METADATA)
        paths = pc.binary_join_element_wise(folder, ranges["range_id"], "")
        sizes, counts = ranges["estimated_size"], ranges["count"]
        outbox.lead(
            children_of(pointer, RepositoryFileKind.RANGE, paths, sizes, counts, pointer.location)
        )
        outbox.close(pointer._replace(size_bytes=len(found)), ranges.num_rows)
        yield


@dataclass(frozen=True)
class RangeLevel(FileLevel[bytes]):
    """Ranges. Their pointers have the size that metaranges estimate, and the object count."""

    def read(self, pointer: Pointer) -> bytes:
        return _read(self, pointer)

    def mark(self, outbox: MarkCollector, pointer: Pointer, found: bytes) -> Iterator[None]:
        entries = decode_range(pointer.path, found, _id(pointer), _READ)
        _check_count(pointer, entries.num_rows)
        outbox.add(pointer.source, live_objects(entries, _namespace(pointer)))
        outbox.close(pointer, entries.num_rows)
        yield


#: From the root's own file down.
LAKEFS_LEVELS = (
    LevelSpec(RepositoryFileKind.STATE, StateLevel),
    LevelSpec(RepositoryFileKind.STAGED, StagedLevel),
    LevelSpec(RepositoryFileKind.METARANGE, MetarangeLevel),
    LevelSpec(RepositoryFileKind.RANGE, RangeLevel, immutable=True),
)


def live_objects(entries: pa.RecordBatch, namespace: StorageNamespace) -> pa.RecordBatch:
    """The objects that entries (ENTRIES or STAGED) name: `path`, `kind` and `size_bytes`.

    An ambiguous address keeps everything that it may mean.
    """
    addresses, types = entries["address"], entries["address_type"]
    keys = namespace.keys(addresses, types)
    inside = pc.binary_join_element_wise(namespace.folder, keys, "")
    paths = pc.coalesce(inside, addresses)
    others = pa.array(_other_readings(namespace, addresses, types, keys), pa.string())
    count = len(paths) + len(others)
    return pa.RecordBatch.from_arrays(
        [
            pa.concat_arrays([paths, others]),
            pa.repeat(pa.scalar(RepositoryFileKind.OBJECT.value, pa.string()), count),
            pa.concat_arrays([entries["size_bytes"], pa.nulls(len(others), pa.int64())]),
        ],
        names=["path", "kind", "size_bytes"],
    )


def _other_readings(
    namespace: StorageNamespace, addresses: pa.Array, types: pa.Array, keys: pa.Array
) -> list[str]:
    protected = namespace.protected(addresses, types)
    inside = protected.slice(len(keys) - keys.null_count).to_pylist()
    outside = namespace.elsewhere(addresses.filter(pc.is_null(keys)))
    return [*(namespace.address(key) for key in inside), *outside]


def _staged_children(
    parent: Pointer, parts: tuple[StagedPart, ...], location: str
) -> pa.RecordBatch:
    paths = pa.array([part.path for part in parts], pa.string())
    sizes = pa.array([part.size_bytes for part in parts], pa.int64())
    rows = pa.array([part.rows for part in parts], pa.int64())
    return children_of(parent, RepositoryFileKind.STAGED, paths, sizes, rows, location)


def _read(level: FileLevel[bytes], pointer: Pointer) -> bytes:
    address = parse(pointer.path)
    return level.keyring.open(pointer.access).open(address).read(address.key)


def content_name(data: bytes, suffix: str) -> str:
    """The name of a file of a state, by which its readers verify it."""
    return f"{hashlib.sha256(data).hexdigest()}.{suffix}"


def _read_named(level: FileLevel[bytes], pointer: Pointer) -> bytes:
    data, name = _read(level, pointer), pointer.path.rpartition("/")[2]
    if content_name(data, name.rpartition(".")[2]) != name:
        raise DamagedError(pointer.path, "it was changed since this run wrote it")
    return data


def _decode_state(path: str, data: bytes) -> RepositoryState:
    try:
        return typed_json(data, RepositoryState)
    except JSON_ERRORS as error:
        raise DamagedError(path, f"is not the state of a repository: {error}") from error


def _check_count(pointer: Pointer, seen: int) -> None:
    if pointer.entries is not None and seen != pointer.entries:
        reason = f"has {seen} entries instead of {pointer.entries}"
        raise DamagedError(pointer.path, reason)


def _id(pointer: Pointer) -> str:
    return pointer.path.rpartition("/")[2]


def _spelled(namespace: StorageNamespace) -> str:
    """A namespace as the location of pointers: one string with all its spellings."""
    return msgspec.json.encode([namespace.location, *namespace.aliases]).decode()


def _namespace(pointer: Pointer) -> StorageNamespace:
    location, *aliases = typed_json(pointer.location or "", list[str])
    return StorageNamespace(location, tuple(aliases))
