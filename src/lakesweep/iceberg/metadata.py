"""The metadata file of a table or view: read it, and decode the part that names other files.

Only what leads to files is decoded; unknown fields are ignored. Nothing is guessed: a document
that contradicts itself is damaged, because trusting half of it would turn live files into
garbage. Format version 4 allows paths relative to the table's location; all paths given out
here are absolute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import (
    DamagedError,
    MissingError,
    NotFoundError,
    StorageError,
    UsageError,
)
from lakesweep.storage.address import parse
from lakesweep.untrusted.documents import (
    JsonObject,
    Long,
    PathText,
    Size,
    decode_json,
    inflate_gzip,
    parse_long,
)
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits, reading

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

NEWEST_FORMAT = 4
_RELATIVE_PATHS_SINCE = 4
_NO_SNAPSHOT = -1
#: The end of the year 9999, where Python's calendar ends.
_LATEST_MS = 253_402_300_799_999

Resolver = Callable[[str], str]

_FILE_SYSTEM_NAME = re.compile(r"/v\d+(\.gz)?\.metadata\.json(\.gz)?$")
_WRITE_PATHS = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


@dataclass(frozen=True, slots=True)
class IcebergSnapshot:
    """One snapshot: its manifest list, or the manifests that an old v1 table embeds."""

    id: int
    manifest_list: str | None
    manifests: tuple[str, ...] = ()
    #: From the writer's summary; None if it is not there.
    total_data_files: int | None = None
    #: When it was created, in milliseconds since 1970; None if the file does not say.
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SizedFile:
    """A file that metadata names together with its size."""

    path: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """The files that one metadata file of a table names. All paths are absolute."""

    path: str
    size_bytes: int
    format_version: int
    uuid: str | None
    location: str
    gc_enabled: bool
    write_paths: tuple[str, ...]
    current_snapshot: int | None
    snapshots: tuple[IcebergSnapshot, ...]
    log: tuple[str, ...]
    statistics: tuple[SizedFile, ...]
    partition_statistics: tuple[SizedFile, ...]
    #: Dangling references to snapshots: what they keep alive is unknown.
    dangling: tuple[str, ...] = ()
    #: Fields of any partition spec whose folders have names that look hidden.
    hidden_fields: tuple[str, ...] = ()
    #: When it was written, and when the oldest file of its log was, in milliseconds since 1970.
    updated_ms: int | None = None
    log_since_ms: int | None = None
    #: The last number of a snapshot.
    sequence: int | None = None

    @property
    def version_hint(self) -> str | None:
        """Where a table without a catalog records its newest version."""
        if not _FILE_SYSTEM_NAME.search(self.path):
            return None
        return self.path.rpartition("/")[0] + "/version-hint.text"

    @property
    def path_base(self) -> str | None:
        """What paths in the table's files may be relative to; None if all are absolute."""
        return _path_base(self.format_version, self.location)


@dataclass(frozen=True, slots=True)
class ViewMetadata:
    """The metadata file of a view. It names no other file."""

    path: str
    size_bytes: int
    format_version: int
    uuid: str | None
    location: str
    gc_enabled: bool

    @property
    def write_paths(self) -> tuple[str, ...]:
        """A view writes its metadata below its location, nowhere else."""
        return ()


def parse_metadata(
    path: str,
    data: bytes,
    location: str | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> TableMetadata | ViewMetadata:
    """Decode a metadata file; `location` is the catalog's, used if the file has none."""
    with reading(path):
        document = decode_json(
            path, inflate_gzip(path, data, limits), _Document, "Iceberg metadata"
        )
        return _metadata(path, len(data), location, document)


def _metadata(
    path: str, size_bytes: int, location: str | None, document: _Document
) -> TableMetadata | ViewMetadata:
    location = document.location or location
    if location is None:
        raise DamagedError(path, "has no location, and the catalog gave none")
    if not 1 <= document.format_version <= NEWEST_FORMAT:
        raise DamagedError(path, f"format version {document.format_version} is not supported")
    if document.view_uuid is not None:
        return _view(path, size_bytes, location, document)
    if document.table_uuid is None and document.format_version > 1:
        raise DamagedError(path, "is not Iceberg metadata: it has neither table-uuid nor view-uuid")
    return _table(path, size_bytes, location, document)


def write_paths_of(properties: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a table with these properties writes, besides its location."""
    return tuple(str(properties[name]) for name in _WRITE_PATHS if properties.get(name))


def guess_location(path: str) -> str:
    """Where the table of an unreadable metadata file may have its files."""
    return path.rpartition("/metadata/")[0] or path.rpartition("/")[0]


#: The id of a table before any nested value, where all known writers put it.
_UUID = re.compile(rb'^\s*\{[^{\[\\]*"(?:table|view)-uuid"\s*:\s*"([^"\\]+)"')
_BEGINNING_BYTES = 4096


def table_uuid(stores: Stores, path: str) -> str | None:
    """The id of the table that a metadata file is of; the whole file is read only if necessary."""
    return uuid_at_beginning(stores, path) or load_metadata(stores, path).uuid


def uuid_at_beginning(stores: Stores, path: str) -> str | None:
    """The id at the beginning of a metadata file, even of one that is damaged further on."""
    address = parse(path)
    found = _UUID.match(stores.open(address).read_range(address.key, 0, _BEGINNING_BYTES))
    return found[1].decode("utf-8", "replace") if found else None


class _Document(msgspec.Struct, rename="kebab"):
    format_version: Long
    location: PathText | None = None
    table_uuid: str | None = None
    view_uuid: str | None = None
    properties: JsonObject | None = None
    current_snapshot_id: Long | None = None
    refs: dict[str, _Reference] | None = None
    snapshots: list[_Snapshot] | None = None
    metadata_log: list[_LogEntry] | None = None
    last_updated_ms: Any = None
    last_sequence_number: Any = None
    statistics: list[_Statistics] | None = None
    partition_statistics: list[_Statistics] | None = None
    partition_spec: Any = None
    partition_specs: Any = None


class _Reference(msgspec.Struct, rename="kebab"):
    snapshot_id: Long


class _Snapshot(msgspec.Struct, rename="kebab"):
    snapshot_id: Long
    manifest_list: PathText | None = None
    manifests: list[PathText] | None = None
    summary: JsonObject | None = None
    timestamp_ms: Any = None


class _LogEntry(msgspec.Struct, rename="kebab"):
    metadata_file: PathText
    timestamp_ms: Any = None


class _Statistics(msgspec.Struct, rename="kebab"):
    statistics_path: PathText
    file_size_in_bytes: Size | None = None


def _view(path: str, size_bytes: int, location: str, document: _Document) -> ViewMetadata:
    return ViewMetadata(
        path=path,
        size_bytes=size_bytes,
        format_version=document.format_version,
        uuid=document.view_uuid,
        location=location,
        gc_enabled=_gc_enabled(document),
    )


def _table(path: str, size_bytes: int, location: str, document: _Document) -> TableMetadata:
    base = _path_base(document.format_version, location)

    def resolve(name: str) -> str:
        return absolute_path(name, base)

    snapshots = tuple(_snapshot(path, entry, resolve) for entry in document.snapshots or ())
    write_paths = write_paths_of(document.properties or {})
    if any("\0" in folder for folder in write_paths):
        raise DamagedError(path, "a write path has a NUL character")
    return TableMetadata(
        path=path,
        size_bytes=size_bytes,
        format_version=document.format_version,
        uuid=document.table_uuid,
        location=location,
        gc_enabled=_gc_enabled(document),
        write_paths=write_paths,
        current_snapshot=_current_snapshot(document),
        snapshots=snapshots,
        log=tuple(resolve(entry.metadata_file) for entry in document.metadata_log or ()),
        statistics=_sized(document.statistics, resolve),
        partition_statistics=_sized(document.partition_statistics, resolve),
        dangling=tuple(_dangling(document)),
        hidden_fields=tuple(_hidden_fields(document)),
        updated_ms=_moment(document.last_updated_ms),
        log_since_ms=_log_since(document),
        sequence=_sequence(document.last_sequence_number),
    )


def _log_since(document: _Document) -> int | None:
    """When the log begins; None if one of its entries does not tell its time."""
    moments = [_moment(entry.timestamp_ms) for entry in document.metadata_log or ()]
    known = [moment for moment in moments if moment is not None]
    return min(known) if known and len(known) == len(moments) else None


def _sequence(found: Any) -> int | None:
    return found if isinstance(found, int) and found >= 0 else None


def _hidden_fields(document: _Document) -> list[str]:
    """The names as they appear in paths. Malformed specs are ignored."""
    specs = [{"fields": document.partition_spec}, *_entries(document.partition_specs)]
    fields = (field for spec in specs for field in _entries(spec.get("fields")))
    names = {str(field.get("name")) for field in fields}
    return sorted(quote_plus(name, safe="*") for name in names if name.startswith((".", "_")))


def _entries(found: Any) -> list[JsonObject]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _snapshot(path: str, entry: _Snapshot, resolve: Resolver) -> IcebergSnapshot:
    if entry.manifest_list is None and entry.manifests is None:
        raise DamagedError(path, f"snapshot {entry.snapshot_id} names no manifests")
    manifests = () if entry.manifest_list is not None else tuple(entry.manifests or ())
    return IcebergSnapshot(
        id=entry.snapshot_id,
        manifest_list=None if entry.manifest_list is None else resolve(entry.manifest_list),
        manifests=tuple(resolve(name) for name in manifests),
        total_data_files=_total_data_files(entry),
        timestamp_ms=_moment(entry.timestamp_ms),
    )


def _moment(found: Any) -> int | None:
    """Milliseconds since 1970; None for what is no time of a table. It only helps to guess."""
    return found if isinstance(found, int) and 0 <= found <= _LATEST_MS else None


def _total_data_files(entry: _Snapshot) -> int | None:
    count = parse_long(str((entry.summary or {}).get("total-data-files", "")))
    return count if count is not None and count >= 0 else None


def _current_snapshot(document: _Document) -> int | None:
    current = document.current_snapshot_id
    return None if current == _NO_SNAPSHOT else current


def _path_base(format_version: int, location: str) -> str | None:
    return location if format_version >= _RELATIVE_PATHS_SINCE else None


def _dangling(document: _Document) -> Iterator[str]:
    known = {entry.snapshot_id for entry in document.snapshots or ()}
    current = _current_snapshot(document)
    if current is not None and current not in known:
        yield f"its current snapshot {current} is not among its snapshots"
    for name, reference in (document.refs or {}).items():
        if reference.snapshot_id not in known:
            yield f"{name!r} points to snapshot {reference.snapshot_id}, which does not exist"


def _sized(entries: list[_Statistics] | None, resolve: Resolver) -> tuple[SizedFile, ...]:
    return tuple(
        SizedFile(resolve(entry.statistics_path), entry.file_size_in_bytes)
        for entry in entries or ()
    )


def _gc_enabled(document: _Document) -> bool:
    """Anything but `true` means false, as in the engines."""
    return str((document.properties or {}).get("gc.enabled", "true")).lower() == "true"


Metadata = TableMetadata | ViewMetadata


def read_file(stores: Stores, path: str) -> bytes:
    """Read a file that some metadata names."""
    try:
        address = parse(path)
    except UsageError as error:
        raise StorageError(path, error.message, hint=error.hint) from error
    with reading(path):
        return stores.open(address).read(address.key)


def load_metadata(stores: Stores, path: str, location: str | None = None) -> Metadata:
    """The metadata file of a table or view; NotFoundError if it does not exist."""
    try:
        return parse_metadata(path, read_file(stores, path), location, stores.limits)
    except MissingError as error:
        raise NotFoundError(
            f"{path}: {error.reason}", hint="ask the catalog for the table's current metadata file"
        ) from error


#: What an absolute path begins with; a path without it may be relative.
_SCHEME = r"^[A-Za-z][A-Za-z0-9+.-]*:"


def absolute_path(path: str, base: str | None) -> str:
    """A path as an address; `base` is None if the format has no relative paths."""
    if base is None or re.match(_SCHEME, path):
        return path
    # A table in a local folder may write absolute paths without a scheme.
    is_absolute = path.startswith("/") and base.startswith("/")
    return path if is_absolute else f"{base}/{path}"


def absolute_paths(paths: pa.Array, base: str | None) -> pa.Array:
    """`absolute_path` over a column."""
    if base is None:
        return paths
    is_absolute = pc.match_substring_regex(paths, _SCHEME)
    if base.startswith("/"):
        is_absolute = pc.or_(is_absolute, pc.starts_with(paths, "/"))
    return pc.if_else(is_absolute, paths, pc.binary_join_element_wise(base, paths, "/"))
