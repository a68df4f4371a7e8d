"""The metadata file of a table or view: read it, and decode the part that names other files.

Only what leads to files is decoded; unknown fields are ignored. Nothing is guessed: a document
that contradicts itself is damaged, because trusting half of it would turn live files into
garbage. Format version 4 allows paths relative to the table's location; all paths given out
here are absolute.
"""

from __future__ import annotations

import gzip
import re
import zlib
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
    TruncatedError,
    UsageError,
)
from lakesweep.storage.address import parse

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

NEWEST_FORMAT = 4
_RELATIVE_PATHS_SINCE = 4
_NO_SNAPSHOT = -1

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
    path: str, data: bytes, location: str | None = None
) -> TableMetadata | ViewMetadata:
    """Decode a metadata file; `location` is the catalog's, used if the file has none."""
    document = _decode(path, _inflate(path, data))
    location = document.location or location
    if location is None:
        raise DamagedError(path, "has no location, and the catalog gave none")
    if not 1 <= document.format_version <= NEWEST_FORMAT:
        raise DamagedError(path, f"format version {document.format_version} is not supported")
    if document.view_uuid is not None:
        return _view(path, len(data), location, document)
    if document.table_uuid is None and document.format_version > 1:
        raise DamagedError(path, "is not Iceberg metadata: it has neither table-uuid nor view-uuid")
    return _table(path, len(data), location, document)


def write_paths_of(properties: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a table with these properties writes, besides its location."""
    return tuple(str(properties[name]) for name in _WRITE_PATHS if properties.get(name))


def guess_location(path: str) -> str:
    """Where the table of an unreadable metadata file may have its files."""
    return path.rpartition("/metadata/")[0] or path.rpartition("/")[0]


class _Document(msgspec.Struct, rename="kebab"):
    format_version: int
    location: str | None = None
    table_uuid: str | None = None
    view_uuid: str | None = None
    properties: dict[str, Any] | None = None
    current_snapshot_id: int | None = None
    refs: dict[str, _Reference] | None = None
    snapshots: list[_Snapshot] | None = None
    metadata_log: list[_LogEntry] | None = None
    statistics: list[_Statistics] | None = None
    partition_statistics: list[_Statistics] | None = None
    partition_spec: Any = None
    partition_specs: Any = None


class _Reference(msgspec.Struct, rename="kebab"):
    snapshot_id: int


class _Snapshot(msgspec.Struct, rename="kebab"):
    snapshot_id: int
    manifest_list: str | None = None
    manifests: list[str] | None = None
    summary: dict[str, Any] | None = None
    timestamp_ms: Any = None


class _LogEntry(msgspec.Struct, rename="kebab"):
    metadata_file: str


class _Statistics(msgspec.Struct, rename="kebab"):
    statistics_path: str
    file_size_in_bytes: int | None = None


def _inflate(path: str, data: bytes) -> bytes:
    if not data:
        raise TruncatedError(path, "is empty")
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except EOFError as error:
        raise TruncatedError(path, "its gzip stream ends too early") from error
    except (OSError, zlib.error) as error:
        raise DamagedError(path, f"its gzip stream is damaged: {error}") from error


def _decode(path: str, data: bytes) -> _Document:
    try:
        return msgspec.json.decode(data, type=_Document)
    except msgspec.ValidationError as error:
        raise DamagedError(path, f"is not Iceberg metadata: {error}") from error
    except msgspec.DecodeError as error:
        kind = TruncatedError if "truncated" in str(error) else DamagedError
        raise kind(path, f"is not a complete JSON document: {error}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(path, f"is not a readable JSON document: {error}") from error


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
    return TableMetadata(
        path=path,
        size_bytes=size_bytes,
        format_version=document.format_version,
        uuid=document.table_uuid,
        location=location,
        gc_enabled=_gc_enabled(document),
        write_paths=write_paths_of(document.properties or {}),
        current_snapshot=_current_snapshot(document),
        snapshots=snapshots,
        log=tuple(resolve(entry.metadata_file) for entry in document.metadata_log or ()),
        statistics=_sized(document.statistics, resolve),
        partition_statistics=_sized(document.partition_statistics, resolve),
        dangling=tuple(_dangling(document)),
        hidden_fields=tuple(_hidden_fields(document)),
    )


def _hidden_fields(document: _Document) -> list[str]:
    """The names as they appear in paths. Malformed specs are ignored."""
    specs = [{"fields": document.partition_spec}, *_entries(document.partition_specs)]
    fields = (field for spec in specs for field in _entries(spec.get("fields")))
    names = {str(field.get("name")) for field in fields}
    return sorted(quote_plus(name, safe="*") for name in names if name.startswith((".", "_")))


def _entries(found: Any) -> list[dict[str, Any]]:
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
        timestamp_ms=entry.timestamp_ms if isinstance(entry.timestamp_ms, int) else None,
    )


def _total_data_files(entry: _Snapshot) -> int | None:
    text = str((entry.summary or {}).get("total-data-files", ""))
    return int(text) if text.isascii() and text.isdigit() else None


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
    return stores.open(address).read(address.key)


def load_metadata(stores: Stores, path: str, location: str | None = None) -> Metadata:
    """The metadata file of a table or view; NotFoundError if it does not exist."""
    try:
        return parse_metadata(path, read_file(stores, path), location)
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
