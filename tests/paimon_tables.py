"""Paimon tables that tests put together piece by piece, in a bucket in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from tests.iceberg_tables import BUCKET, Bucket

#: The bytes of the partition of a table that has none.
NO_PARTITION = bytes(12)
Row = dict[str, Any]

_RECORD = "org.apache.paimon.avro.generated.record"
_numbers = count()


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    described = [
        {"name": key, "type": kind, **({"default": None} if "null" in str(kind)[:8] else {})}
        for key, kind in fields
    ]
    return {"type": "record", "name": name, "fields": described}


def _nullable(kind: Any) -> list[Any]:
    return ["null", kind]


_TEXTS = {"type": "array", "items": "string"}
_NULL_COUNTS = ["null", {"type": "array", "items": ["null", "long"]}]


def _stats(name: str) -> dict[str, Any]:
    parts = (("_MIN_VALUES", "bytes"), ("_MAX_VALUES", "bytes"), ("_NULL_COUNTS", _NULL_COUNTS))
    return _record(f"{_RECORD}_{name}", *parts)


def entry_schema(*, old: bool = False) -> Any:
    """The schema of manifests, as Paimon writes it; as 0.9 and older wrote it if `old`."""
    wrapped = _nullable if old else (lambda kind: kind)
    newer = (
        ("_VALUE_STATS_COLS", _nullable(_TEXTS)),
        ("_EXTERNAL_PATH", _nullable("string")),
        ("_FIRST_ROW_ID", _nullable("long")),
        ("_WRITE_COLS", _nullable(_TEXTS)),
    )
    file = _record(
        f"{_RECORD}__FILE",
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_ROW_COUNT", "long"),
        ("_MIN_KEY", "bytes"),
        ("_MAX_KEY", "bytes"),
        ("_KEY_STATS", wrapped(_stats("_FILE__KEY_STATS"))),
        ("_VALUE_STATS", wrapped(_stats("_FILE__VALUE_STATS"))),
        ("_MIN_SEQUENCE_NUMBER", "long"),
        ("_MAX_SEQUENCE_NUMBER", "long"),
        ("_SCHEMA_ID", "long"),
        ("_LEVEL", "int"),
        ("_EXTRA_FILES", _TEXTS),
        ("_CREATION_TIME", _nullable({"type": "long", "logicalType": "timestamp-millis"})),
        ("_DELETE_ROW_COUNT", _nullable("long")),
        ("_EMBEDDED_FILE_INDEX", _nullable("bytes")),
        ("_FILE_SOURCE", _nullable("int")),
        *(() if old else newer),
    )
    return wrapped(
        _record(
            _RECORD,
            ("_VERSION", "int"),
            ("_KIND", "int"),
            ("_PARTITION", "bytes"),
            ("_BUCKET", "int"),
            ("_TOTAL_BUCKETS", "int"),
            ("_FILE", wrapped(file)),
        )
    )


LIST_SCHEMA = _record(
    _RECORD,
    ("_VERSION", "int"),
    ("_FILE_NAME", "string"),
    ("_FILE_SIZE", "long"),
    ("_NUM_ADDED_FILES", "long"),
    ("_NUM_DELETED_FILES", "long"),
    ("_PARTITION_STATS", _stats("_PARTITION_STATS")),
    ("_SCHEMA_ID", "long"),
    ("_TOTAL_BUCKETS", _nullable("int")),
    ("_EXTRA_FILES", _nullable(_TEXTS)),
)
INDEX_SCHEMA = _record(
    _RECORD,
    ("_VERSION", "int"),
    ("_KIND", "int"),
    ("_PARTITION", "bytes"),
    ("_BUCKET", "int"),
    ("_INDEX_TYPE", "string"),
    ("_FILE_NAME", "string"),
    ("_FILE_SIZE", "long"),
    ("_ROW_COUNT", "long"),
    ("_EXTERNAL_PATH", _nullable("string")),
    (
        "_GLOBAL_INDEX",
        _nullable(
            _record(
                f"{_RECORD}__GLOBAL_INDEX", ("_ROW_RANGE_START", "long"), ("_ROW_RANGE_END", "long")
            )
        ),
    ),
)
_NO_STATS = {"_MIN_VALUES": b"", "_MAX_VALUES": b"", "_NULL_COUNTS": None}


def unique_name(number: int) -> str:
    """The part of a name that tells files apart, as Paimon writes it."""
    return f"00000000-0000-0000-0000-{number:012x}-0"


def encode(schema: Any, rows: Iterable[Row], codec: str = "zstandard") -> bytes:
    """Rows as an Avro file."""
    file = io.BytesIO()
    fastavro.writer(file, schema, rows, codec=codec)
    return file.getvalue()


def as_parquet(table: pa.Table) -> bytes:
    """Rows as a Parquet file."""
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


def as_orc(table: pa.Table) -> bytes:
    """Rows as an ORC file."""
    file = io.BytesIO()
    orc.write_table(table, file, compression="zstd")
    return file.getvalue()


_PRIMITIVES = {"int": pa.int32(), "long": pa.int64(), "bytes": pa.binary(), "string": pa.string()}


def arrow_type(avro: Any) -> pa.DataType:
    """The Arrow type of an Avro type, as manifests have them."""
    if isinstance(avro, list):
        return arrow_type(next(each for each in avro if each != "null"))
    if isinstance(avro, str):
        return _PRIMITIVES[avro]
    if avro["type"] == "record":
        return pa.struct([_arrow_field(each) for each in avro["fields"]])
    if avro["type"] == "array":
        return pa.list_(arrow_type(avro["items"]))
    return pa.timestamp("ms")


def _arrow_field(field: Any) -> pa.Field:
    return pa.field(field["name"], arrow_type(field["type"]), "null" in field["type"])


def encode_as(write: Callable[[pa.Table], bytes]) -> Callable[[Any, Iterable[Row]], bytes]:
    """What encodes rows under a schema of Avro's in another format."""

    def encode_other(schema: Any, rows: Iterable[Row]) -> bytes:
        return write(pa.Table.from_pylist(list(rows), schema=pa.schema(list(arrow_type(schema)))))

    return encode_other


@dataclass(frozen=True)
class File:
    """A file that a manifest adds, or deletes if `kind` is 1."""

    name: str
    kind: int = 0
    partition: bytes = NO_PARTITION
    bucket: int = 0
    level: int = 0
    size_bytes: int = 7
    extra: tuple[str, ...] = ()
    external_path: str | None = None
    embedded: bytes | None = None
    version: int = 2

    def row(self) -> Row:
        return {
            "_VERSION": self.version,
            "_KIND": self.kind,
            "_PARTITION": self.partition,
            "_BUCKET": self.bucket,
            "_TOTAL_BUCKETS": 1,
            "_FILE": {
                "_FILE_NAME": self.name,
                "_FILE_SIZE": self.size_bytes,
                "_ROW_COUNT": 1,
                "_MIN_KEY": NO_PARTITION,
                "_MAX_KEY": NO_PARTITION,
                "_KEY_STATS": _NO_STATS,
                "_VALUE_STATS": _NO_STATS,
                "_MIN_SEQUENCE_NUMBER": 0,
                "_MAX_SEQUENCE_NUMBER": 0,
                "_SCHEMA_ID": 0,
                "_LEVEL": self.level,
                "_EXTRA_FILES": list(self.extra),
                "_CREATION_TIME": 1_700_000_000_123,
                "_EMBEDDED_FILE_INDEX": self.embedded,
                "_FILE_SOURCE": 0,
                "_EXTERNAL_PATH": self.external_path,
            },
        }


@dataclass(frozen=True)
class Index:
    """An index file; over the whole table if `first_row` is given."""

    name: str
    type: str = "HASH"
    partition: bytes = NO_PARTITION
    bucket: int = 0
    external_path: str | None = None
    first_row: int | None = None

    def row(self) -> Row:
        ranged = {"_ROW_RANGE_START": self.first_row, "_ROW_RANGE_END": 9}
        return {
            "_VERSION": 1,
            "_KIND": 0,
            "_PARTITION": self.partition,
            "_BUCKET": self.bucket,
            "_INDEX_TYPE": self.type,
            "_FILE_NAME": self.name,
            "_FILE_SIZE": 5,
            "_ROW_COUNT": 1,
            "_EXTERNAL_PATH": self.external_path,
            "_GLOBAL_INDEX": None if self.first_row is None else ranged,
        }


@dataclass
class Table:
    """One table. What is written is there at once, and commits nothing but itself."""

    bucket: Bucket = field(default_factory=Bucket)
    name: str = "t"
    options: Mapping[str, str] = field(default_factory=dict)
    partition_keys: Sequence[str] = ()
    encode: Callable[[Any, Iterable[Row]], bytes] = encode

    def __post_init__(self) -> None:
        self.schema()

    @property
    def address(self) -> str:
        return f"{BUCKET}/{self.name}"

    def path(self, name: str) -> str:
        return f"{self.address}/{name}"

    def write(self, name: str, content: bytes | Row) -> str:
        """Write a file below the table, a document as JSON."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.bucket.write(self.path(name), data)

    def delete(self, name: str) -> None:
        self.bucket.delete(self.path(name))

    def schema(self, number: int = 0, *, branch: str = "", **fields: Any) -> None:
        columns = [("id", "INT"), *((key, "STRING") for key in self.partition_keys)]
        document = {
            "version": 3,
            "id": number,
            "fields": [{"id": at, "name": n, "type": t} for at, (n, t) in enumerate(columns)],
            "highestFieldId": len(columns),
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": [],
            "options": dict(self.options),
            **fields,
        }
        self.write(f"{_folder(branch)}schema/schema-{number}", document)

    def manifest(self, *files: File, data: bytes | None = None, **listed: Any) -> Row:
        """A manifest, as the row that lists have of it."""
        rows = [file.row() for file in files]
        data = self.encode(entry_schema(), rows) if data is None else data
        name = f"manifest-{unique_name(next(_numbers))}"
        self.write(f"manifest/{name}", data)
        return {
            "_VERSION": 2,
            "_FILE_NAME": name,
            "_FILE_SIZE": len(data),
            "_NUM_ADDED_FILES": sum(file.kind == 0 for file in files),
            "_NUM_DELETED_FILES": sum(file.kind == 1 for file in files),
            "_PARTITION_STATS": _NO_STATS,
            "_SCHEMA_ID": 0,
            **listed,
        }

    def list(self, *manifests: Row) -> str:
        """A manifest list, by its name."""
        name = f"manifest-list-{unique_name(next(_numbers))}"
        self.write(f"manifest/{name}", self.encode(LIST_SCHEMA, manifests))
        return name

    def index_manifest(self, *files: Index) -> str:
        """An index manifest, by its name."""
        name = f"index-manifest-{unique_name(next(_numbers))}"
        self.write(f"manifest/{name}", self.encode(INDEX_SCHEMA, [file.row() for file in files]))
        return name

    def snapshot(
        self, number: int, *delta: Row, base: Sequence[Row] = (), branch: str = "", **fields: Any
    ) -> Row:
        """A snapshot of manifests that are written already, as its document."""
        document = {
            "version": 3,
            "id": number,
            "schemaId": 0,
            "baseManifestList": self.list(*base),
            "deltaManifestList": self.list(*delta),
            "commitUser": "somebody",
            "commitIdentifier": number,
            "commitKind": "APPEND",
            "timeMillis": 1_700_000_000_000 + number,
            **fields,
        }
        self.write(f"{_folder(branch)}snapshot/snapshot-{number}", document)
        return document

    def tag(self, name: str, snapshot: Row, *, branch: str = "") -> None:
        self.write(f"{_folder(branch)}tag/tag-{name}", snapshot)

    def changelog(self, snapshot: Row, *, branch: str = "") -> None:
        self.write(f"{_folder(branch)}changelog/changelog-{snapshot['id']}", snapshot)


def _folder(branch: str) -> str:
    return f"branch/branch-{branch}/" if branch else ""
