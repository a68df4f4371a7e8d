"""The rows of manifest lists, by field id, read and written with every field that they have.

A list is written with the fields of the table's format version, and behind them those of the list
that it replaces which this program does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lakesweep.avro.container import read_header
from lakesweep.avro.records import read_records
from lakesweep.avro.writer import encode_avro
from lakesweep.errors import UnsupportedError
from lakesweep.untrusted.documents import JsonObject
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits, reading

PATH, LENGTH, SPEC, CONTENT = 500, 501, 502, 517
SEQUENCE, MIN_SEQUENCE, ADDED_SNAPSHOT = 515, 516, 503
ADDED_FILES, EXISTING_FILES, DELETED_FILES = 504, 505, 506
ADDED_ROWS, EXISTING_ROWS, DELETED_ROWS = 512, 513, 514
PARTITIONS, KEY_METADATA, FIRST_ROW_ID = 507, 519, 520
COUNTS = (ADDED_FILES, EXISTING_FILES, DELETED_FILES, ADDED_ROWS, EXISTING_ROWS, DELETED_ROWS)
DATA, DELETES = 0, 1
_SEQUENCES_SINCE, _ROW_IDS_SINCE = 2, 3

#: One manifest, by field id.
ManifestRow = dict[int, Any]

_NAMES = {
    "manifest_path": PATH,
    "manifest_length": LENGTH,
    "partition_spec_id": SPEC,
    "content": CONTENT,
    "sequence_number": SEQUENCE,
    "min_sequence_number": MIN_SEQUENCE,
    "added_snapshot_id": ADDED_SNAPSHOT,
    "added_files_count": ADDED_FILES,
    "existing_files_count": EXISTING_FILES,
    "deleted_files_count": DELETED_FILES,
    "added_rows_count": ADDED_ROWS,
    "existing_rows_count": EXISTING_ROWS,
    "deleted_rows_count": DELETED_ROWS,
    "partitions": PARTITIONS,
    "key_metadata": KEY_METADATA,
    "first_row_id": FIRST_ROW_ID,
}
_OLD_NAMES = {
    "added_data_files_count": ADDED_FILES,
    "existing_data_files_count": EXISTING_FILES,
    "deleted_data_files_count": DELETED_FILES,
}
_BY_NAME = _NAMES | _OLD_NAMES


@dataclass(frozen=True)
class IcebergManifestList:
    """The rows of a list, and the fields that are not of the format."""

    rows: Sequence[ManifestRow]
    unknown: tuple[JsonObject, ...] = ()
    codec: str = "deflate"


def read_list(path: str, data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> IcebergManifestList:
    """All rows of a manifest list with all their fields."""
    if not data.startswith(b"Obj\x01"):
        raise UnsupportedError(path, "only manifest lists in Avro can be rewritten")
    with reading(path):
        header = read_header(path, data)
        fields = header.schema.get("fields", [])
        ids = {field["name"]: _id(field) for field in fields}
        rows = [
            {ids[name]: value for name, value in record.items()}
            for record in read_records(path, data, limits)
        ]
    unknown = tuple(field for field in fields if _id(field) not in _BY_NAME.values())
    return IcebergManifestList(rows, unknown, header.codec)


def _id(field: JsonObject) -> Any:
    """The id of a field; of an unknown one without an id, its name."""
    found = field.get("field-id")
    return _BY_NAME.get(field["name"], field["name"]) if found is None else found


def encode_list(
    rows: Iterable[ManifestRow],
    base: IcebergManifestList,
    version: int,
    snapshot: dict[str, int | None],
) -> bytes:
    """A manifest list of a format version, for a snapshot with these facts."""
    fields = [*_fields(version), *base.unknown]
    schema = {"type": "record", "name": "manifest_file", "fields": fields}
    names = {_id(field): field["name"] for field in fields}
    records = [{names[key]: value for key, value in row.items() if key in names} for row in rows]
    metadata = {name: str(value).encode() for name, value in snapshot.items()}
    metadata["format-version"] = str(version).encode()
    return encode_avro(schema, records, base.codec, metadata)


def _fields(version: int) -> list[JsonObject]:
    required, is_first = version >= _SEQUENCES_SINCE, version < _SEQUENCES_SINCE
    fields = [
        _field("manifest_path", "string"),
        _field("manifest_length", "long"),
        _field("partition_spec_id", "int"),
    ]
    if not is_first:
        fields += [
            _field("content", "int"),
            _field("sequence_number", "long"),
            _field("min_sequence_number", "long"),
        ]
    fields.append(_field("added_snapshot_id", "long", required=required))
    for kind, type_ in (("files", "int"), ("rows", "long")):
        for status in ("added", "existing", "deleted"):
            fields.append(_field(f"{status}_{kind}_count", type_, required=required))
    fields.append(_field("partitions", _SUMMARIES, required=False))
    fields.append(_field("key_metadata", "bytes", required=False))
    if version >= _ROW_IDS_SINCE:
        fields.append(_field("first_row_id", "long", required=False))
    return fields


def _field(name: str, type_: Any, *, required: bool = True) -> JsonObject:
    field: JsonObject = {"name": name, "type": type_ if required else ["null", type_]}
    if not required:
        field["default"] = None
    return {**field, "field-id": _NAMES[name]}


def _summary_field(name: str, type_: str, field_id: int, *, required: bool) -> JsonObject:
    if required:
        return {"name": name, "type": type_, "field-id": field_id}
    return {"name": name, "type": ["null", type_], "default": None, "field-id": field_id}


_SUMMARIES = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "r508",
        "fields": [
            _summary_field("contains_null", "boolean", 509, required=True),
            _summary_field("contains_nan", "boolean", 518, required=False),
            _summary_field("lower_bound", "bytes", 510, required=False),
            _summary_field("upper_bound", "bytes", 511, required=False),
        ],
    },
    "element-id": 508,
}
