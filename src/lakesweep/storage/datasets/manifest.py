"""The manifest of a dataset: its fields, its encoding and its checksum.

    {"version": 1, "schema": [{"name", "type", "nullable"}…],
     "parts": [{"name", "rows", "bytes", "sha256"}…], "rows", "sha256"}

Parts are ordered by name. The manifest's own `sha256` is that of the document without it, as
JSON without spaces, in this order of keys.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import msgspec
import pyarrow as pa

from lakesweep.decoding import typed_json
from lakesweep.errors import DamagedError, FormatError
from lakesweep.storage.address import Address, parse
from lakesweep.untrusted.documents import JSON_ERRORS

MANIFEST_NAME = "_dataset.json"

_VERSION = 1
#: Parts are beside their manifest: no other kind of name is ever appended to an address.
_PART_NAME = re.compile(r"part-[0-9a-f]{32}\.parquet")

#: The allowed column types, by their names in the manifest.
_TYPES = {
    str(kind): kind
    for kind in (
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float64(),
        pa.timestamp("us", tz="UTC"),
        pa.list_(pa.string()),
    )
}


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One Parquet file of a dataset."""

    name: str
    rows: int
    size_bytes: int = msgspec.field(name="bytes")
    sha256: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """A committed dataset. `address` is its folder, and ends in `/`."""

    address: str
    schema: pa.Schema
    parts: tuple[Part, ...]
    rows: int
    sha256: str


class ManifestColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One column of the rows."""

    name: str
    type: str
    nullable: bool

    @classmethod
    def of(cls, field: pa.Field) -> Self:
        if _TYPES.get(str(field.type)) != field.type:
            raise ValueError(f"column {field.name}: a dataset cannot have type {field.type}")
        return cls(field.name, str(field.type), field.nullable)

    def field(self) -> pa.Field:
        return pa.field(self.name, _TYPES[self.type], self.nullable)


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    schema: tuple[ManifestColumn, ...]
    parts: tuple[Part, ...]
    rows: int


class DatasetManifest(_Body, frozen=True):
    """The stored document."""

    sha256: str

    @classmethod
    def of(cls, parts: Iterable[Part], schema: pa.Schema) -> Self:
        """The manifest of these parts; ValueError if they cannot form one dataset."""
        ordered = tuple(sorted(parts, key=lambda part: part.name))
        columns = tuple(ManifestColumn.of(field) for field in schema)
        rows = sum(part.rows for part in ordered)
        body = _Body(_VERSION, columns, ordered, rows)
        sha256 = sha256_of(msgspec.json.encode(body))
        manifest = cls(_VERSION, columns, ordered, rows, sha256)
        if (wrong := manifest.contradiction()) is not None:
            raise ValueError(wrong)
        return manifest

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Parse and check a manifest; `path` is used in errors only."""
        # Checked before anything else, so that a newer format is not reported as damage.
        if _version(data) > _VERSION:
            raise FormatError(path, "has a newer version", hint="upgrade Lakesweep")
        try:
            manifest = typed_json(data, cls)
        except JSON_ERRORS as error:
            raise DamagedError(path, f"is not a dataset manifest: {error}") from error
        if (wrong := manifest.contradiction()) is not None:
            raise DamagedError(path, f"is not a dataset manifest: {wrong}")
        return manifest

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    def dataset(self, address: str) -> Dataset:
        """The dataset that the manifest describes, in its folder."""
        schema = pa.schema([column.field() for column in self.schema])
        return Dataset(address, schema, self.parts, self.rows, self.sha256)

    def contradiction(self) -> str | None:
        """How the manifest contradicts itself, or None."""
        names = [part.name for part in self.parts]
        if not all(_PART_NAME.fullmatch(name) for name in names):
            return "a part has an invalid name"
        if names != sorted(set(names)):
            return "its parts are out of order or repeated"
        if not all(column.type in _TYPES for column in self.schema):
            return "a column has an invalid type"
        if self.rows != sum(part.rows for part in self.parts):
            return "its row count differs from that of its parts"
        body = _Body(self.version, self.schema, self.parts, self.rows)
        if self.sha256 != sha256_of(msgspec.json.encode(body)):
            return "its SHA-256 does not match"
        return None


def is_part(path: str) -> bool:
    """Whether an address is that of a dataset part."""
    return _PART_NAME.fullmatch(path.rpartition("/")[2]) is not None


def sha256_of(data: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


class _AnyVersion(msgspec.Struct):
    version: int = 0


def _version(data: bytes) -> int:
    try:
        return typed_json(data, _AnyVersion).version
    except JSON_ERRORS:
        return 0


def dataset_folder(address: str) -> Address:
    found = parse(address)
    return found.child(found.folder)
