"""Decode the JSON documents of a table: schemas, snapshots, tags, consumers."""

from __future__ import annotations

from typing import Any, TypeVar

from lakesweep.errors import DamagedError, TruncatedError
from lakesweep.untrusted.documents import decode_json

Document = TypeVar("Document")
_WHAT = "a document of Paimon"


def decode_document(
    path: str, data: bytes, document: type[Document]
) -> tuple[Document, dict[str, Any]]:
    """A document as a typed value, and as it is written, with all fields that are not known."""
    if not data.strip():
        raise TruncatedError(path, "is empty")
    return decode_json(path, data, document, _WHAT), decode_json(path, data, dict[str, Any], _WHAT)


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
