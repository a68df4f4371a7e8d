"""Decode the JSON documents of a table: schemas, snapshots, tags, consumers."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from lakesweep.errors import DamagedError, TruncatedError

Document = TypeVar("Document")


def decode_document(
    path: str, data: bytes, document: type[Document]
) -> tuple[Document, dict[str, Any]]:
    """A document as a typed value, and as it is written, with all fields that are not known."""
    if not data.strip():
        raise TruncatedError(path, "is empty")
    try:
        return msgspec.json.decode(data, type=document), msgspec.json.decode(data)
    except msgspec.ValidationError as error:
        raise DamagedError(path, f"is no document of Paimon: {error}") from error
    except msgspec.DecodeError as error:
        kind = TruncatedError if "truncated" in str(error) else DamagedError
        raise kind(path, f"is not JSON: {error}") from error
    except (UnicodeError, RecursionError) as error:
        raise DamagedError(path, f"is not JSON: {error}") from error


def refuse_newer(path: str, version: int, newest: int) -> None:
    """A document of a version from the future may mean anything."""
    if version > newest:
        raise DamagedError(
            path,
            f"has version {version}, and this program knows none above {newest}",
            hint="use a newer lakesweep",
        )
