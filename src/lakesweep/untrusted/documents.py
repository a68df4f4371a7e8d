"""Strict readers of small foreign documents: gzip, JSON, and the numbers and text in them."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import DamagedError, LimitError, TruncatedError
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits

Document = TypeVar("Document")

#: An object of a foreign document whose fields this program does not all know, and carries along.
JsonObject: TypeAlias = dict[str, Any]

#: The largest number of 64 bits with a sign, which is what every format and Arrow column holds.
LARGEST_LONG = 2**63 - 1

#: A number of 64 bits, as a field of a document.
Long = Annotated[int, msgspec.Meta(ge=-LARGEST_LONG - 1, le=LARGEST_LONG)]

#: A size or a count, as a field of a document.
Size = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_LONG)]

#: Milliseconds since 1970, from the year 1 to the year 9999, where Python's calendar ends.
Millis = Annotated[int, msgspec.Meta(ge=-62_135_596_800_000, le=253_402_300_799_999)]

#: A path or location, as a field of a document. No store has keys with NUL characters, and calls
#: of the system fail on them.
PathText = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$")]

#: What msgspec raises for bytes that are no JSON document of the expected type: damaged ones, text
#: that is not Unicode, and nesting that is deeper than the stack.
JSON_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)

_GZIP = b"\x1f\x8b"
_PIECE = 2**20
_DIGITS = re.compile(r"-?[0-9]{1,19}", re.ASCII)


def decode_json(path: str, data: bytes | memoryview, kind: type[Document], what: str) -> Document:
    """A JSON document as a typed value; `what` names it in errors, such as `Iceberg metadata`.

    Nesting is bounded by the interpreter's stack, numbers by their types. As in the readers of the
    formats themselves, the last of several equal keys counts, and unknown fields are skipped.
    """
    try:
        return typed_json(data, kind)
    except msgspec.ValidationError as error:
        raise DamagedError(path, f"is not {what}: {error}") from error
    except msgspec.DecodeError as error:
        failure = TruncatedError if "truncated" in str(error) else DamagedError
        raise failure(path, f"is not a complete JSON document: {error}") from error
    except UnicodeError as error:
        raise DamagedError(path, f"is not a readable JSON document: {error}") from error
    except RecursionError as error:
        raise LimitError(path, "is nested too deeply") from error


def inflate_gzip(path: str, data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> bytes | memoryview:
    """The content of a gzip file, or the data itself if it is not one.

    It is decompressed piece by piece: 1 MB may inflate to 1 GB, and must not do so unseen.
    """
    if not data:
        raise TruncatedError(path, "is empty")
    if not data.startswith(_GZIP):
        return data
    try:
        return _inflate(path, data, limits.inflated_bytes)
    except EOFError as error:
        raise TruncatedError(path, "its gzip stream ends too early") from error
    except (OSError, zlib.error) as error:
        raise DamagedError(path, f"its gzip stream is damaged: {error}") from error


def _inflate(path: str, data: bytes, most: int) -> memoryview:
    inflated = io.BytesIO()
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        while piece := stream.read(_PIECE):
            inflated.write(piece)
            if inflated.tell() > most:
                raise LimitError.of(path, "inflates to", most, "limits.inflated_bytes")
    return inflated.getbuffer()


def parse_long(text: str) -> int | None:
    """The number in a text of digits; None if it is not one, or has more than 64 bits."""
    if not _DIGITS.fullmatch(text):
        return None
    value = int(text)
    return value if -LARGEST_LONG - 1 <= value <= LARGEST_LONG else None
