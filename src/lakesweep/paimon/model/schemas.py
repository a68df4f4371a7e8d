"""Table schemas, reduced to what cleaning needs, and the decoder of a table's JSON documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from lakesweep.errors import DamagedError, TruncatedError
from lakesweep.paimon.model.options import Options
from lakesweep.untrusted.documents import JsonObject, Long, decode_json

NEWEST_VERSION = 3
Document = TypeVar("Document")
_WHAT = "a document of Paimon"


@dataclass(frozen=True, slots=True)
class PaimonField:
    """A column; `type` is as Paimon writes it, such as `INT NOT NULL`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class PaimonSchema:
    """One version of a table's columns, keys and options; `raw` is the whole document."""

    id: int
    version: int
    partition_fields: tuple[PaimonField, ...]
    primary_keys: tuple[str, ...]
    options: Options
    raw: Mapping[str, Any]

    @property
    def is_hashed(self) -> bool:
        """Whether keys find their buckets by an index, which each bucket with a file then has.

        An index over all partitions is never stored, so partitions have to be parts of the key.
        """
        keys = {field.name for field in self.partition_fields}
        is_dynamic = (self.options.text("bucket") or "-1").strip() == "-1"
        return is_dynamic and bool(self.primary_keys) and keys <= set(self.primary_keys)


class _Field(msgspec.Struct):
    name: str
    type: Any


class _Document(msgspec.Struct, rename="camel"):
    id: Long
    fields: list[_Field]
    version: Long | None = None
    partition_keys: list[str] = []
    primary_keys: list[str] = []
    options: dict[str, str] = {}


def parse_schema(path: str, data: bytes) -> PaimonSchema:
    """Decode a schema file; DamagedError for one of a newer version."""
    document, raw = decode_document(path, data, _Document)
    version = document.version or 1
    refuse_newer(path, version, NEWEST_VERSION)
    _check_data_folder(path, document.options.get("data-file.path-directory", ""))
    return PaimonSchema(
        id=document.id,
        version=version,
        partition_fields=_partition_fields(path, document),
        primary_keys=tuple(document.primary_keys),
        options=Options({**_implied(version), **document.options}),
        raw=raw,
    )


def _check_data_folder(path: str, folder: str) -> None:
    """A folder of data that leads out of the table would make files of others its own."""
    if "\0" in folder or {".", ".."} & set(folder.split("/")):
        raise DamagedError(path, f"has data in {folder!r}, which is no folder in the table")


def _partition_fields(path: str, document: _Document) -> tuple[PaimonField, ...]:
    types = {field.name: field.type for field in document.fields}
    missing = [key for key in document.partition_keys if not isinstance(types.get(key), str)]
    if missing:
        raise DamagedError(path, f"has no simple column {missing[0]!r} to partition by")
    return tuple(PaimonField(key, types[key]) for key in document.partition_keys)


def _implied(version: int) -> dict[str, str]:
    """What an old version stands for where the document does not say."""
    implied = {"bucket": "1"} if version == 1 else {}
    return implied | ({"file.format": "orc"} if version < 3 else {})


def decode_document(
    path: str, data: bytes, document: type[Document]
) -> tuple[Document, JsonObject]:
    """A document as a typed value, and as it is written, with all fields that are not known."""
    if not data.strip():
        raise TruncatedError(path, "is empty")
    return decode_json(path, data, document, _WHAT), decode_json(path, data, JsonObject, _WHAT)


def check_name(path: str, name: str | None) -> None:
    """DamagedError if a document names a file of another folder."""
    if name is not None and ("/" in name or "\0" in name or name in (".", "..")):
        raise DamagedError(path, f"names {name!r}, which is no name of a file")


def refuse_newer(path: str, version: int, newest: int) -> None:
    """A document of a version from the future may mean anything."""
    if version > newest:
        raise DamagedError(
            path,
            f"has version {version}, and this program knows none above {newest}",
            hint="use a newer lakesweep",
        )
