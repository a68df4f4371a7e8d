"""Manifest lists and manifests, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.avro.projection import ProjectedColumn
from lakesweep.avro.reader import read_avro
from lakesweep.errors import DamagedError, EncryptedError, TruncatedError
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.marks.columnar import read_parquet
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.untrusted.columns import check_paths, check_sizes
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits, reading

#: One manifest that a manifest list names. `entries` counts all of them, dead ones included.
MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("entries", pa.int64()),
        pa.field("live_data_files", pa.int64()),
    ]
)

_TEXT, _INT, _LONG = pa.string(), pa.int32(), pa.int64()
_LIST_COLUMNS = (
    ProjectedColumn("path", ids=(500,), names=("manifest_path",), type=_TEXT, required=True),
    ProjectedColumn("size_bytes", ids=(501,), names=("manifest_length",), type=_LONG),
    ProjectedColumn("content", ids=(517,), names=("content",), type=_INT),
    ProjectedColumn("added", ids=(504,), names=("added_files_count",), type=_LONG),
    ProjectedColumn("existing", ids=(505,), names=("existing_files_count",), type=_LONG),
    ProjectedColumn("deleted", ids=(506,), names=("deleted_files_count",), type=_LONG),
)
_SPEC_COLUMNS = (
    ProjectedColumn("spec", ids=(502,), names=("partition_spec_id",), type=_INT, required=True),
)
_ENTRY_COLUMNS = (
    ProjectedColumn("status", ids=(0,), names=("status",), type=_INT, required=True),
    ProjectedColumn("content", ids=(2, 134), names=("data_file", "content"), type=_INT),
    ProjectedColumn(
        "path", ids=(2, 100), names=("data_file", "file_path"), type=_TEXT, required=True
    ),
    ProjectedColumn(
        "format", ids=(2, 101), names=("data_file", "file_format"), type=_TEXT, required=True
    ),
    ProjectedColumn(
        "size_bytes", ids=(2, 104), names=("data_file", "file_size_in_bytes"), type=_LONG
    ),
)
_DELETED = 2
_DATA = 0


def read_manifest_list(
    path: str,
    data: bytes,
    *,
    data_files: int | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> pa.Table:
    """The manifests that a manifest list names, as MANIFEST_SCHEMA.

    A list that was cut between two blocks looks complete. So a list that leads to fewer data files
    than its snapshot counts is truncated.
    """
    with reading(path):
        batches = [_manifests(batch, path) for batch in _rows(path, data, _LIST_COLUMNS, limits)]
    found = pa.Table.from_batches(batches, schema=MANIFEST_SCHEMA)
    live = pc.sum(found["live_data_files"], skip_nulls=False, min_count=0).as_py()
    if live is not None and live < (data_files or 0):
        raise TruncatedError(path, f"names {live} of {data_files} data files")
    return found


def manifest_specs(path: str, data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> set[int]:
    """The partition specs of the manifests that a manifest list names."""
    with reading(path):
        batches = list(_rows(path, data, _SPEC_COLUMNS, limits))
    return {spec for batch in batches for spec in batch["spec"].unique().to_pylist()}


def embedded_manifests(paths: Sequence[str]) -> pa.Table:
    """Manifests that metadata embeds: only their paths are known."""
    unknown = (pa.nulls(len(paths), pa.int64()) for _ in range(3))
    return pa.Table.from_arrays([pa.array(paths, pa.string()), *unknown], schema=MANIFEST_SCHEMA)


def read_manifest(
    path: str,
    data: bytes,
    *,
    size_bytes: int | None = None,
    entries: int | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The live files that a manifest names, as FILE_SCHEMA; see `ManifestReader`."""
    return ManifestReader(path, data, size_bytes, entries, limits).live_files()


@dataclass
class ManifestReader:
    """A manifest, with the size and the number of entries that its list states.

    An Avro file that was cut between two blocks looks complete. So a manifest with fewer entries
    than its list states is truncated; without such a count, one that is shorter than stated; and if
    nothing is stated, as for embedded manifests, one without entries.
    """

    path: str
    data: bytes
    size_bytes: int | None
    entries: int | None
    limits: ReadLimits = DEFAULT_LIMITS
    #: The entries that were read, dead ones included.
    seen: int = 0

    def live_files(self) -> Iterator[pa.RecordBatch]:
        """The files that it names, without those marked as deleted, as FILE_SCHEMA."""
        for batch in _rows(self.path, self.data, _ENTRY_COLUMNS, self.limits):
            self.seen += batch.num_rows
            with reading(self.path):
                live = _live_files(batch, self.path)
            yield live
        if self._falls_short():
            raise TruncatedError(
                self.path,
                f"has {self.seen} of {self.entries} entries, "
                f"{len(self.data)} of {self.size_bytes} bytes",
            )

    def _falls_short(self) -> bool:
        if self.entries is not None:
            return self.seen < self.entries
        return self.seen == 0 if self.size_bytes is None else len(self.data) < self.size_bytes


def _rows(
    path: str, data: bytes, columns: Sequence[ProjectedColumn], limits: ReadLimits
) -> Iterator[pa.RecordBatch]:
    if data.startswith(b"PAR1"):
        return read_parquet(path, data, columns, limits)
    if data.startswith(b"PARE"):
        raise EncryptedError(path, "is an encrypted Parquet file")
    return read_avro(path, data, columns, limits)


def _manifests(batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
    check_paths(path, batch["path"])
    check_sizes(path, batch["size_bytes"])
    live = pc.add(batch["added"], batch["existing"])
    is_data = pc.equal(pc.fill_null(batch["content"], 0), 0)
    return pa.RecordBatch.from_arrays(
        [
            batch["path"],
            batch["size_bytes"],
            pc.add(live, batch["deleted"]),
            pc.if_else(is_data, live, pa.scalar(0, _LONG)),
        ],
        schema=MANIFEST_SCHEMA,
    )


def _live_files(batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
    check_paths(path, batch["path"])
    check_sizes(path, batch["size_bytes"])
    if _highest(batch["status"], path, "entry status") == _DELETED:
        batch = batch.filter(pc.not_equal(batch["status"], _DELETED))
    return pa.RecordBatch.from_arrays(
        [
            batch["path"],
            _kinds(batch, path),
            batch["size_bytes"],
            pa.nulls(batch.num_rows, FILE_SCHEMA.field("modified").type),
            pa.nulls(batch.num_rows, pa.string()),
        ],
        schema=FILE_SCHEMA,
    )


def _kinds(batch: pa.RecordBatch, path: str) -> pa.Array:
    content = pc.fill_null(batch["content"], _DATA)
    if _highest(content, path, "content type") == _DATA:
        return pa.repeat(IcebergKind.DATA.value, batch.num_rows)
    is_vector = pc.equal(pc.ascii_lower(batch["format"]), "puffin")
    position = pc.if_else(
        is_vector, IcebergKind.DELETION_VECTOR.value, IcebergKind.POSITION_DELETE.value
    )
    deletes = pc.if_else(pc.equal(content, 1), position, IcebergKind.EQUALITY_DELETE.value)
    return pc.if_else(pc.equal(content, _DATA), IcebergKind.DATA.value, deletes)


def _highest(codes: pa.Array, path: str, what: str) -> int:
    """Status and content both have the codes 0, 1 and 2; a newer code may mean anything."""
    found = pc.min_max(codes).as_py()
    lowest, highest = found["min"] or 0, found["max"] or 0
    if codes.null_count or lowest < 0 or highest > 2:
        raise DamagedError(path, f"an entry has an unknown {what}")
    return int(highest)
