"""The entries of manifests, copied as the bytes that their writer wrote.

Of an entry only the status, the snapshot and the sequence numbers are written anew; what describes
the file stays as it is, with fields and statistics that this program does not know. What an entry
inherits from its manifest is put into it when it is read: in another manifest it would inherit
something else. So it keeps its sequence numbers, and the ids of its rows.
"""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from lakesweep.avro.container import find_blocks, find_codec, read_raw_header
from lakesweep.avro.records import Decode, Encode, make_decoder, make_encoder
from lakesweep.avro.schema import AvroSchemaError, RecordField, RecordType, parse_schema
from lakesweep.avro.writer import WRITTEN_CODECS, encode_container
from lakesweep.errors import DamagedError, UnsupportedError
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.rewrite import manifest_list as lists
from lakesweep.iceberg.rewrite.manifest_list import ManifestRow
from lakesweep.iceberg.rewrite.partition_bounds import summarize
from lakesweep.untrusted.documents import JsonObject
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits, reading

_STATUS, _SNAPSHOT, _DATA_FILE, _SEQUENCE, _FILE_SEQUENCE = 0, 1, 2, 3, 4
_PARTITION, _FIRST_ROW_ID = 102, 142
_ENTRY_NAMES = {
    "status": _STATUS,
    "snapshot_id": _SNAPSHOT,
    "data_file": _DATA_FILE,
    "sequence_number": _SEQUENCE,
    "file_sequence_number": _FILE_SEQUENCE,
}
_FILE_NAMES = {
    "content": 134,
    "file_path": 100,
    "file_format": 101,
    "partition": _PARTITION,
    "record_count": 103,
    "file_size_in_bytes": 104,
    "null_value_counts": 110,
    "upper_bounds": 128,
    "first_row_id": _FIRST_ROW_ID,
    "referenced_data_file": 143,
}
_SEQUENCES_SINCE, _ROW_IDS_SINCE = 2, 3


class EntryStatus(IntEnum):
    """Whether a file was added, is still there, or was removed by the snapshot of an entry."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What upkeep looks at of a data or delete file. `partition` compares by value."""

    content: int
    path: str
    format: str
    partition: tuple[Any, ...]
    records: int
    size_bytes: int
    referenced: str | None = None
    null_counts: Mapping[int, int] | None = None
    upper_bounds: Mapping[int, bytes] | None = None

    @property
    def is_vector(self) -> bool:
        return self.format.lower() == "puffin"

    @property
    def kind(self) -> IcebergKind:
        if self.content == 1:
            return IcebergKind.DELETION_VECTOR if self.is_vector else IcebergKind.POSITION_DELETE
        return IcebergKind.EQUALITY_DELETE if self.content else IcebergKind.DATA


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One entry, with nothing left to inherit. `file` is the record of the file as it is stored."""

    status: EntryStatus
    snapshot: int | None
    sequence: int
    file_sequence: int | None
    file: bytes
    facts: FileFacts
    others: Mapping[str, bytes]

    @property
    def is_live(self) -> bool:
        return self.status is not EntryStatus.DELETED

    def existing(self) -> ManifestEntry:
        """The same file, copied by another snapshot than the one that added it."""
        return replace(self, status=EntryStatus.EXISTING)

    def removed(self, snapshot: int) -> ManifestEntry:
        """The same file, removed by a snapshot. It keeps its sequence numbers."""
        return replace(self, status=EntryStatus.DELETED, snapshot=snapshot)


@dataclass(frozen=True)
class ManifestForm:
    """How manifests are written: entries of one form can be in one manifest."""

    schema: str
    metadata: Mapping[str, bytes]
    codec: str
    spec: int
    content: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for manifests whose entries can be put together."""
        spec = self.metadata.get("partition-spec")
        return self.content, self.spec, self.schema, spec

    @property
    def partition_types(self) -> list[Any]:
        """The Avro types of the partition fields."""
        fields = _named(json.loads(self.schema)["fields"], _ENTRY_NAMES)
        file = _named(fields[_DATA_FILE]["type"]["fields"], _FILE_NAMES)
        return [field["type"] for field in file[_PARTITION]["type"]["fields"]]


@dataclass(frozen=True)
class Manifest:
    """A manifest that was read completely."""

    row: ManifestRow
    form: ManifestForm
    entries: Sequence[ManifestEntry]

    @property
    def live(self) -> Iterator[ManifestEntry]:
        return (entry for entry in self.entries if entry.is_live)


def read_manifest_entries(
    row: ManifestRow, data: bytes, version: int, limits: ReadLimits = DEFAULT_LIMITS
) -> Manifest:
    """All entries of a manifest; `row` is what its list says of it."""
    path = row[lists.PATH]
    if not data.startswith(b"Obj\x01"):
        raise UnsupportedError(path, "only manifests in Avro can be rewritten")
    with reading(path):
        try:
            found = _Reader(row, data, version, limits).read()
        except (AvroSchemaError, IndexError, KeyError, TypeError, struct.error) as error:
            raise DamagedError(path, f"an entry cannot be read: {error}") from None
    counts = [row.get(key) for key in lists.COUNTS[:3]]
    if None not in counts and len(found.entries) < sum(counts):  # type: ignore[arg-type]
        raise DamagedError(path, f"has {len(found.entries)} of {sum(counts)} entries")  # type: ignore[arg-type]
    return found


class _Reader:
    def __init__(self, row: ManifestRow, data: bytes, version: int, limits: ReadLimits) -> None:
        self._row, self._data, self._version, self._limits = row, data, version, limits
        self._header = read_raw_header(row[lists.PATH], data)
        root = parse_schema(self._header.schema).root
        if not isinstance(root, RecordType):
            raise AvroSchemaError("its entries are no records")
        self._fields = [(_entry_id(field), field) for field in root.fields]
        by_id = dict(self._fields)
        file = by_id[_DATA_FILE].type
        if not isinstance(file, RecordType):
            raise AvroSchemaError("its data_file is no record")
        self._file_names = {_file_id(field): field.name for field in file.fields}
        self._decoders: list[tuple[Any, str, Decode]] = [
            (key, field.name, make_decoder(field.type)) for key, field in self._fields
        ]
        self._encode_file: Encode = make_encoder(file)
        self._content = int(row.get(lists.CONTENT) or 0)
        self._next_row = row.get(lists.FIRST_ROW_ID)

    @property
    def _gives_rows(self) -> bool:
        return self._version >= _ROW_IDS_SINCE and self._content == lists.DATA

    def read(self) -> Manifest:
        entries = [self._entry(*each) for each in self._records()]
        return Manifest(self._row, self._form(), entries)

    def _records(self) -> Iterator[tuple[dict[Any, Any], bytes, dict[str, bytes]]]:
        path = self._row[lists.PATH]
        inflate = find_codec(path, self._header.codec, self._limits)
        for table in find_blocks(self._header, self._data):
            for first, end, count in table.tolist():
                block, at = bytes(inflate(memoryview(self._data)[first:end])), 0
                for _ in range(count):
                    values, file, others = {}, b"", {}
                    for key, name, decode in self._decoders:
                        value, after = decode(block, at)
                        values[key] = value
                        if key == _DATA_FILE:
                            file = block[at:after]
                        elif key not in _ENTRY_NAMES.values():
                            others[name] = block[at:after]
                        at = after
                    yield values, file, others
                if at != len(block):
                    raise IndexError("a block is longer or shorter than its records")

    def _entry(
        self, values: dict[Any, Any], file: bytes, others: dict[str, bytes]
    ) -> ManifestEntry:
        status, record = EntryStatus(values[_STATUS]), values[_DATA_FILE]
        snapshot = values.get(_SNAPSHOT)
        is_added = status is EntryStatus.ADDED
        file = self._with_row_id(file, record, status)
        return ManifestEntry(
            status,
            self._row.get(lists.ADDED_SNAPSHOT) if snapshot is None else snapshot,
            self._sequence(values.get(_SEQUENCE), is_added=is_added),
            self._file_sequence(values.get(_FILE_SEQUENCE), is_added=is_added),
            file,
            self._facts(record),
            others,
        )

    def _sequence(self, own: int | None, *, is_added: bool) -> int:
        inherited = int(self._row.get(lists.SEQUENCE) or 0)
        if own is not None:
            return own
        if is_added or inherited == 0:
            return inherited
        raise IndexError("an entry that was copied has no sequence number")

    def _file_sequence(self, own: int | None, *, is_added: bool) -> int | None:
        inherited = int(self._row.get(lists.SEQUENCE) or 0)
        return inherited if own is None and (is_added or inherited == 0) else own

    def _with_row_id(self, file: bytes, record: JsonObject, status: EntryStatus) -> bytes:
        """The record of a file with the id of its first row, which it has or inherits."""
        if not self._gives_rows:
            return file
        name = self._file_names.get(_FIRST_ROW_ID)
        first = None if name is None else record[name]
        if first is None and status is not EntryStatus.DELETED and self._next_row is not None:
            first = self._next_row
            self._next_row += record[self._file_names[103]]
        if name is None:
            return file + _encode_optional_long(first)
        if first == record[name]:
            return file
        out = bytearray()
        self._encode_file({**record, name: first}, out)
        return bytes(out)

    def _facts(self, record: JsonObject) -> FileFacts:
        names = self._file_names

        def get(key: int) -> Any:
            return record.get(names[key]) if key in names else None

        return FileFacts(
            int(get(134) or 0),
            get(100),
            get(101) or "",
            tuple(get(_PARTITION).values()),
            int(get(103)),
            int(get(104) or 0),
            get(143),
            _pairs(get(110)),
            _pairs(get(128)),
        )

    def _form(self) -> ManifestForm:
        schema = json.loads(self._header.schema)
        if self._version >= _SEQUENCES_SINCE:
            schema = _with_sequences(schema)
        if self._gives_rows:
            schema = _with_row_ids(schema)
        kept = {key: value for key, value in self._header.metadata.items() if key[:5] != "avro."}
        kept["format-version"] = str(self._version).encode()
        kept["partition-spec-id"] = str(self._row[lists.SPEC]).encode()
        if self._version >= _SEQUENCES_SINCE:
            kept["content"] = b"deletes" if self._content else b"data"
        codec = self._header.codec if self._header.codec in WRITTEN_CODECS else "deflate"
        text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
        return ManifestForm(text, kept, codec, int(self._row[lists.SPEC]), self._content)


def encode_manifest(form: ManifestForm, entries: Iterable[ManifestEntry]) -> bytes:
    """A manifest with these entries."""
    root = parse_schema(form.schema.encode()).root
    assert isinstance(root, RecordType)
    writers: list[tuple[Any, str, Encode | None]] = [
        (key, field.name, None if key == _DATA_FILE else make_encoder(field.type))
        for key, field in ((_entry_id(field), field) for field in root.fields)
    ]

    def encode(entry: ManifestEntry, out: bytearray) -> None:
        known = {
            _STATUS: entry.status.value,
            _SNAPSHOT: entry.snapshot,
            _SEQUENCE: entry.sequence,
            _FILE_SEQUENCE: entry.file_sequence,
        }
        for key, name, write in writers:
            if write is None:
                out += entry.file
            elif key in known:
                write(known[key], out)
            else:
                out += entry.others[name]

    return encode_container(form.schema.encode(), entries, form.codec, encode, form.metadata)


def list_row(
    form: ManifestForm,
    entries: Sequence[ManifestEntry],
    path: str,
    length: int,
    snapshot: int,
    sequence: int,
) -> ManifestRow:
    """What the list of a snapshot says of a manifest that it writes."""
    live = [entry.sequence for entry in entries if entry.is_live]
    row: ManifestRow = {
        lists.PATH: path,
        lists.LENGTH: length,
        lists.SPEC: form.spec,
        lists.CONTENT: form.content,
        lists.SEQUENCE: sequence,
        lists.MIN_SEQUENCE: min(live, default=sequence),
        lists.ADDED_SNAPSHOT: snapshot,
        lists.PARTITIONS: summarize(
            form.partition_types, [entry.facts.partition for entry in entries]
        ),
    }
    statuses = (EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED)
    for status, files, rows in zip(statuses, lists.COUNTS[:3], lists.COUNTS[3:], strict=True):
        some = [entry for entry in entries if entry.status is status]
        row[files], row[rows] = len(some), sum(entry.facts.records for entry in some)
    return row


def _pairs(values: list[JsonObject] | JsonObject | None) -> dict[int, Any] | None:
    """A map by column, which Avro stores as an array of pairs."""
    if not isinstance(values, list):
        return None
    return {pair["key"]: pair["value"] for pair in values}


def _entry_id(field: RecordField) -> Any:
    return _identify(field, _ENTRY_NAMES)


def _file_id(field: RecordField) -> Any:
    return _identify(field, _FILE_NAMES)


def _identify(field: RecordField, names: Mapping[str, int]) -> Any:
    if field.field_id is not None:
        return field.field_id
    return names.get(field.name, field.name)


def _named(fields: list[JsonObject], names: Mapping[str, int]) -> dict[Any, JsonObject]:
    return {each.get("field-id", names.get(each["name"], each["name"])): each for each in fields}


def _with_sequences(schema: JsonObject) -> JsonObject:
    """The schema of entries with sequence numbers, which v1 writers leave out."""
    found = _named(schema["fields"], _ENTRY_NAMES)
    if _SEQUENCE in found and _FILE_SEQUENCE in found:
        return schema
    schema = copy.deepcopy(schema)
    for name in ("sequence_number", "file_sequence_number"):
        if _ENTRY_NAMES[name] not in found:
            at = len(schema["fields"]) - 1
            schema["fields"].insert(at, _optional_long(name, _ENTRY_NAMES[name]))
    return schema


def _with_row_ids(schema: JsonObject) -> JsonObject:
    """The same for the first row id of files, which v2 writers leave out."""
    file = _named(schema["fields"], _ENTRY_NAMES)[_DATA_FILE]["type"]
    if _FIRST_ROW_ID in _named(file["fields"], _FILE_NAMES):
        return schema
    schema = copy.deepcopy(schema)
    file = _named(schema["fields"], _ENTRY_NAMES)[_DATA_FILE]["type"]
    file["fields"].append(_optional_long("first_row_id", _FIRST_ROW_ID))
    return schema


def _optional_long(name: str, field_id: int) -> JsonObject:
    return {"name": name, "type": ["null", "long"], "default": None, "field-id": field_id}


def _encode_optional_long(value: int | None) -> bytes:
    from lakesweep.avro.records import write_long

    if value is None:
        return b"\0"
    out = bytearray(b"\x02")
    write_long(value, out)
    return bytes(out)
