"""The live files of a manifest as a scan needs them, read as columns.

Statistics are read only for scans that look at them: they are most of what a manifest holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pyarrow as pa

from lakesweep.avro.projection import ProjectedColumn
from lakesweep.avro.reader import read_avro
from lakesweep.errors import DamagedError, TruncatedError, UnsupportedError
from lakesweep.iceberg.rewrite import manifest_list as lists
from lakesweep.iceberg.rewrite.manifest_entries import EntryStatus
from lakesweep.iceberg.rewrite.manifest_list import ManifestRow
from lakesweep.iceberg.scan.partitions import PartitionLayout
from lakesweep.iceberg.scan.single_values import decode_partition
from lakesweep.untrusted.documents import JsonObject
from lakesweep.untrusted.limits import ReadLimits, reading

_FILE, _PARTITION = 2, 102


class FileContent(IntEnum):
    """What a file holds."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


#: Maps by column: their id, and those of their keys and values.
STATISTICS: Mapping[str, tuple[int, int, int]] = {
    "column_sizes": (108, 117, 118),
    "value_counts": (109, 119, 120),
    "null_value_counts": (110, 121, 122),
    "nan_value_counts": (137, 138, 139),
    "lower_bounds": (125, 126, 127),
    "upper_bounds": (128, 129, 130),
}
#: What filters look at.
FILTERED = tuple(name for name in STATISTICS if name != "column_sizes")
BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(slots=True)
class ContentFile:
    """A data or delete file, with nothing left to inherit."""

    content: FileContent
    path: str
    format: str
    layout: PartitionLayout
    partition: tuple[Any, ...]
    records: int
    size_bytes: int
    sequence: int
    snapshot: int | None = None
    is_added: bool = False
    key_metadata: bytes | None = None
    split_offsets: Sequence[int] | None = None
    equality_ids: Sequence[int] | None = None
    sort_order: int | None = None
    first_row: int | None = None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    statistics: dict[str, dict[int, Any]] = field(default_factory=dict)

    @property
    def is_vector(self) -> bool:
        return self.format.lower() == "puffin"


_TEXT, _INT, _LONG = pa.string(), pa.int32(), pa.int64()
_ENTRY = (
    ProjectedColumn("status", (0,), ("status",), type=_INT, required=True),
    ProjectedColumn("snapshot", (1,), ("snapshot_id",), type=_LONG),
    ProjectedColumn("sequence", (3,), ("sequence_number",), type=_LONG),
)
_FIELDS = (
    ("content", 134, "content", _INT, False),
    ("path", 100, "file_path", _TEXT, True),
    ("format", 101, "file_format", _TEXT, True),
    ("records", 103, "record_count", _LONG, True),
    ("size_bytes", 104, "file_size_in_bytes", _LONG, True),
    ("key_metadata", 131, "key_metadata", None, False),
    ("split_offsets", 132, "split_offsets", None, False),
    ("equality_ids", 135, "equality_ids", None, False),
    ("sort_order", 140, "sort_order_id", _INT, False),
    ("first_row", 142, "first_row_id", _LONG, False),
    ("referenced", 143, "referenced_data_file", _TEXT, False),
    ("offset", 144, "content_offset", _LONG, False),
    ("length", 145, "content_size_in_bytes", _LONG, False),
)
_COLUMNS = _ENTRY + tuple(
    ProjectedColumn(name, (_FILE, number), ("data_file", its_name), required=is_needed, type=kind)
    for name, number, its_name, kind, is_needed in _FIELDS
)


def read_content_files(
    row: ManifestRow,
    data: bytes,
    layout: PartitionLayout,
    limits: ReadLimits,
    statistics: Sequence[str] = (),
) -> Iterator[ContentFile]:
    """The live files of a manifest, with some of their statistics; `row` is what a list says."""
    path = row[lists.PATH]
    if not data.startswith(b"Obj\x01"):
        raise UnsupportedError(path, "scans are planned from manifests in Avro only")
    reader = _Reader(row, layout, tuple(statistics))
    with reading(path):
        for batch in read_avro(path, data, reader.columns, limits):
            yield from reader.files(batch)
    reader.check()


class _Reader:
    def __init__(
        self, row: ManifestRow, layout: PartitionLayout, statistics: tuple[str, ...]
    ) -> None:
        self._row, self._layout, self._statistics = row, layout, statistics
        self._next_row: int | None = row.get(lists.FIRST_ROW_ID)
        self._seen = 0
        self.columns = (*_COLUMNS, *self._partition(), *self._maps())

    def _partition(self) -> Iterator[ProjectedColumn]:
        for at, column in enumerate(self._layout.columns):
            # A field that is missing must not pass for one whose values are null.
            yield ProjectedColumn(
                f"partition {at}",
                (_FILE, _PARTITION, column.field_id),
                ("data_file", "partition", column.name),
                required=True,
            )

    def _maps(self) -> Iterator[ProjectedColumn]:
        for name in self._statistics:
            number, key, value = STATISTICS[name]
            steps = ("data_file", name)
            yield ProjectedColumn(f"{name} key", (_FILE, number, key), (*steps, "key"))
            yield ProjectedColumn(f"{name} value", (_FILE, number, value), (*steps, "value"))

    def files(self, batch: pa.RecordBatch) -> Iterator[ContentFile]:
        """The live files of a batch."""
        values = {name: batch[name].to_pylist() for name in batch.schema.names}
        for at in range(batch.num_rows):
            self._seen += 1
            if values["status"][at] != EntryStatus.DELETED:
                yield self._file({name: found[at] for name, found in values.items()})

    def _file(self, value: JsonObject) -> ContentFile:
        is_added = value["status"] == EntryStatus.ADDED
        content = FileContent(value["content"] or 0)
        partition = tuple(
            decode_partition(column.kind, value[f"partition {at}"])
            for at, column in enumerate(self._layout.columns)
        )
        snapshot = value["snapshot"]
        return ContentFile(
            content=content,
            path=value["path"],
            format=value["format"],
            layout=self._layout,
            partition=partition,
            records=value["records"],
            size_bytes=value["size_bytes"],
            sequence=self._sequence(value["sequence"]),
            snapshot=self._row.get(lists.ADDED_SNAPSHOT) if snapshot is None else snapshot,
            is_added=is_added,
            key_metadata=value["key_metadata"],
            split_offsets=value["split_offsets"] or None,
            equality_ids=value["equality_ids"] or None,
            sort_order=value["sort_order"],
            first_row=self._first_row(content, value["first_row"], value["records"]),
            referenced=value["referenced"],
            offset=value["offset"],
            length=value["length"],
            statistics={name: _pairs(value, name) for name in self._statistics},
        )

    def _sequence(self, own: int | None) -> int:
        return int(self._row.get(lists.SEQUENCE) or 0) if own is None else own

    def _first_row(self, content: FileContent, own: int | None, records: int) -> int | None:
        if own is not None or content is not FileContent.DATA or self._next_row is None:
            return own
        first = self._next_row
        self._next_row += records
        return first

    def check(self) -> None:
        """TruncatedError if the manifest has fewer entries than its list states."""
        counts = [self._row.get(key) for key in lists.COUNTS[:3]]
        if None not in counts and self._seen < sum(counts):  # type: ignore[arg-type]
            raise TruncatedError(
                self._row[lists.PATH],
                f"has {self._seen} of {sum(counts)} entries",  # type: ignore[arg-type]
            )


def _pairs(value: Mapping[str, Any], name: str) -> dict[int, Any]:
    keys, values = value[f"{name} key"] or (), value[f"{name} value"] or ()
    if len(keys) != len(values):
        raise DamagedError(name, "a map has keys without values")
    return dict(zip(keys, values, strict=True))
