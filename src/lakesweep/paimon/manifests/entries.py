"""Read manifest lists, manifests and index manifests as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.avro.projection import ProjectedColumn
from lakesweep.avro.reader import read_avro
from lakesweep.errors import DamagedError, TruncatedError
from lakesweep.marks.columnar import read_orc, read_parquet

ADD = 0
DELETE = 1
#: The `file_source` of files that compaction wrote.
COMPACT_SOURCE = 1

_TEXT, _TEXTS, _BYTES = pa.string(), pa.list_(pa.string()), pa.binary()
_INT, _LONG = pa.int32(), pa.int64()


def _column(name: str, way: str, kind: pa.DataType, *, required: bool = False) -> ProjectedColumn:
    return ProjectedColumn(name, names=tuple(way.split(".")), type=kind, required=required)


_LIST_COLUMNS = (
    _column("version", "_VERSION", _INT, required=True),
    _column("name", "_FILE_NAME", _TEXT, required=True),
    _column("size_bytes", "_FILE_SIZE", _LONG, required=True),
    _column("added", "_NUM_ADDED_FILES", _LONG, required=True),
    _column("deleted", "_NUM_DELETED_FILES", _LONG, required=True),
    _column("extra_files", "_EXTRA_FILES", _TEXTS),
)
_ENTRY_COLUMNS = (
    _column("version", "_VERSION", _INT, required=True),
    _column("kind", "_KIND", _INT, required=True),
    _column("partition", "_PARTITION", _BYTES, required=True),
    _column("bucket", "_BUCKET", _INT, required=True),
    _column("total_buckets", "_TOTAL_BUCKETS", _INT),
    _column("name", "_FILE._FILE_NAME", _TEXT, required=True),
    _column("size_bytes", "_FILE._FILE_SIZE", _LONG, required=True),
    _column("rows", "_FILE._ROW_COUNT", _LONG),
    _column("schema_id", "_FILE._SCHEMA_ID", _LONG),
    _column("level", "_FILE._LEVEL", _INT, required=True),
    _column("extra_files", "_FILE._EXTRA_FILES", _TEXTS),
    _column("creation_time", "_FILE._CREATION_TIME", _LONG),
    _column("file_source", "_FILE._FILE_SOURCE", _INT),
    _column("external_path", "_FILE._EXTERNAL_PATH", _TEXT),
)
_EMBEDDED_INDEX = _column("embedded_index", "_FILE._EMBEDDED_FILE_INDEX", _BYTES)
_INDEX_COLUMNS = (
    _column("version", "_VERSION", _INT, required=True),
    _column("kind", "_KIND", _INT, required=True),
    _column("partition", "_PARTITION", _BYTES, required=True),
    _column("bucket", "_BUCKET", _INT, required=True),
    _column("index_type", "_INDEX_TYPE", _TEXT, required=True),
    _column("name", "_FILE_NAME", _TEXT, required=True),
    _column("size_bytes", "_FILE_SIZE", _LONG, required=True),
    _column("rows", "_ROW_COUNT", _LONG),
    _column("external_path", "_EXTERNAL_PATH", _TEXT),
    # Null but for an index over the whole table.
    _column("first_row", "_GLOBAL_INDEX._ROW_RANGE_START", _LONG),
)


def _schema(columns: Sequence[ProjectedColumn]) -> pa.Schema:
    """Without the version, which is checked when a file is read."""
    return pa.schema([pa.field(each.name, each.type) for each in columns if each.name != "version"])


#: One manifest that a manifest list names.
MANIFESTS = _schema(_LIST_COLUMNS)
#: One file that a manifest adds (`kind` 0) or deletes (1); `creation_time` in ms, of no zone.
ENTRIES = _schema(_ENTRY_COLUMNS)
#: The same with the bytes of an index that lies in the manifest: a part of a file's identity.
FULL_ENTRIES = ENTRIES.append(pa.field("embedded_index", _BYTES))
#: One index file of a snapshot.
INDEX_ENTRIES = _schema(_INDEX_COLUMNS)

_ENTRY_VERSION, _INDEX_VERSION = 2, 1


def read_manifest_list(
    path: str, data: bytes, *, size_bytes: int | None = None, least: int = 0
) -> pa.Table:
    """The manifests that a list names, as MANIFESTS; `size_bytes` is what its snapshot says.

    A list that was cut between two blocks looks whole, so its size must be the one that is known,
    and where the snapshot tells none, there must be `least` manifests or more.
    """
    _check_size(path, data, size_bytes)
    batches = list(_rows(path, data, _LIST_COLUMNS, _ENTRY_VERSION))
    found = pa.Table.from_batches(batches, schema=MANIFESTS)
    if found.num_rows < least:
        raise TruncatedError(path, "names no manifest, although its snapshot counts rows in it")
    return found


def read_manifest(
    path: str,
    data: bytes,
    *,
    size_bytes: int | None = None,
    entries: int | None = None,
    embedded_indexes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """What a manifest adds and deletes, as ENTRIES, or FULL_ENTRIES with `embedded_indexes`.

    `size_bytes` and `entries` are what the manifest's list says: fewer mean that it was cut.
    """
    _check_size(path, data, size_bytes)
    columns = (*_ENTRY_COLUMNS, _EMBEDDED_INDEX) if embedded_indexes else _ENTRY_COLUMNS
    seen = 0
    for batch in _rows(path, data, columns, _ENTRY_VERSION):
        _check_kinds(path, batch["kind"])
        seen += batch.num_rows
        yield batch
    if entries is not None and seen < entries:
        raise TruncatedError(path, f"has {seen} of {entries} entries")


def read_index_manifest(path: str, data: bytes, *, least: int = 0) -> pa.Table:
    """The index files of a snapshot, as INDEX_ENTRIES: `least` or more.

    No snapshot tells how long it is, and one that was cut behind its header looks empty.
    """
    batches = list(_rows(path, data, _INDEX_COLUMNS, _INDEX_VERSION))
    found = pa.Table.from_batches(batches, schema=INDEX_ENTRIES)
    if found.num_rows < least:
        raise TruncatedError(path, "names no index file, although its snapshot has indexed rows")
    return found


def _check_size(path: str, data: bytes, size_bytes: int | None) -> None:
    """A file that names others is as long as was written down, or it cannot be trusted."""
    if size_bytes is not None and len(data) < size_bytes:
        raise TruncatedError(path, f"has {len(data)} of {size_bytes} bytes")


def _rows(
    path: str, data: bytes, columns: Sequence[ProjectedColumn], version: int
) -> Iterator[pa.RecordBatch]:
    for batch in read_columns(path, data, columns):
        _check_version(path, batch["version"], version)
        _check_names(path, batch["name"])
        if "extra_files" in batch.schema.names:
            _check_names(path, pc.list_flatten(batch["extra_files"]))
        yield batch.drop_columns("version")


def _check_version(path: str, versions: pa.Array, known: int) -> None:
    if versions.null_count or not pc.all(pc.equal(versions, known)).as_py():
        found = pc.max(versions).as_py()
        raise DamagedError(path, f"holds entries of version {found}, and only {known} is known")


def _check_kinds(path: str, kinds: pa.Array) -> None:
    known = pc.is_in(kinds, pa.array([ADD, DELETE], _INT))
    if not pc.all(known, min_count=0).as_py():
        raise DamagedError(path, "an entry is neither added nor deleted")


_UPWARDS = pa.array([".", ".."])


def _check_names(path: str, names: pa.Array) -> None:
    """A name with a folder in it would lead to files of others."""
    if not len(names):
        return
    if names.null_count or pc.min(pc.binary_length(names)).as_py() == 0:
        raise DamagedError(path, "an entry names no file")
    is_wrong = pc.or_(pc.match_substring(names, "/"), pc.match_substring(names, "\0"))
    is_wrong = pc.or_(is_wrong, pc.is_in(names, _UPWARDS))
    for name in names.filter(is_wrong)[:1].to_pylist():
        raise DamagedError(path, f"an entry names {name!r}, which is no name of a file")


def read_columns(
    path: str, data: bytes, columns: Sequence[ProjectedColumn]
) -> Iterator[pa.RecordBatch]:
    """The columns of a file's rows, in batches; the file itself says of which format it is."""
    if data.startswith(b"PAR1"):
        return read_parquet(path, data, columns)
    if data.startswith(b"ORC"):
        return read_orc(path, data, columns)
    return read_avro(path, data, columns)
