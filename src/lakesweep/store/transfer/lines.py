"""The lines of an export: what each says, as JSON, with a checksum over all that stands above it.

    {"line":"export", …                     the first: what was exported, when, and how
    {"line":"reference", …                  one a reference
    {"line":"object", …                     one an object; further pieces of a large one follow it:
    {"line":"piece", …
    {"line":"row", …                        in place of objects, where rows were exported
    {"line":"end", …                        the last: how many there were, and their hash

Every line ends with `,"crc32":"…"}` and a line feed. The checksum is that of the JSON of the line
without this field, begun with the checksum of the line before: a line that is changed, missing,
moved or repeated shows where it stands.
"""

from __future__ import annotations

import zlib
from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from lakesweep.store.backend import EVERY_ID, MAX_VALUE_BYTES

#: The version of the format.
FORMAT = 1
#: A payload is cut into pieces of this size, which has no padding in base64.
PIECE_BYTES = 300_000
#: No line is longer.
MAX_LINE_BYTES = 2**20

#: A whole number as text, since many programs cannot hold one that is so large.
Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=20)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=EVERY_ID.last)]
Moment: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
TypeName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]


class Kind(StrEnum):
    """What was exported: what the references lead to, or every row as it is."""

    LIVE = "live"
    ROWS = "rows"


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="line"):
    pass


class Header(_Line, frozen=True, tag="export"):
    """The first line. `export` names this export, and no other has the same name.

    `history` is how many commits of each log are there; null for all that there were.
    """

    format: int
    kind: Kind
    export: str
    realm: str
    properties: dict[str, str]
    created: datetime
    history: Annotated[int, Meta(ge=1)] | None


class ReferenceLine(_Line, frozen=True, tag="reference"):
    """One reference; `created_at` are microseconds since 1970, as everywhere below."""

    name: Annotated[str, Meta(min_length=1)]
    pointer: Id | None
    version: Count
    created_at: Moment
    recent: tuple[Id, ...]


class ObjectLine(_Line, frozen=True, tag="object"):
    """One object, whose payload comes in so many `pieces`: the first here, the others behind."""

    id: Id
    type: TypeName
    created_at: Moment
    token: Id | None
    pieces: Annotated[int, Meta(ge=1)]
    payload: bytes


class PieceLine(_Line, frozen=True, tag="piece"):
    """A further piece of the object above, counted from 1."""

    id: Id
    piece: Annotated[int, Meta(ge=1)]
    payload: bytes


class RowLine(_Line, frozen=True, tag="row"):
    """One row of the database, byte for byte."""

    id: Id
    part: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    type: TypeName
    created_at: Moment
    token: Id | None
    value: Annotated[bytes, Meta(max_length=MAX_VALUE_BYTES)]


class EndLine(_Line, frozen=True, tag="end"):
    """The last line: all references, objects or rows, the bytes of these, and the content hash."""

    references: int
    items: int
    bytes: int
    hash: str


Line: TypeAlias = Header | ReferenceLine | ObjectLine | PieceLine | RowLine | EndLine

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_SEAL = b',"crc32":"%08x"}\n'
_SEAL_BYTES = len(_SEAL % 0)


class Chain:
    """Adds checksums to lines, or checks them; each depends on the lines before."""

    def __init__(self) -> None:
        self._checksum = 0

    def seal(self, text: bytes) -> bytes:
        """The line of a JSON object."""
        self._checksum = zlib.crc32(text, self._checksum)
        return text[:-1] + _SEAL % self._checksum

    def open(self, line: bytes) -> bytes:
        """The JSON object of a line; ValueError if it is not the next line, as it was written."""
        text = line[:-_SEAL_BYTES] + b"}"
        if self.seal(text) != line:
            raise ValueError("it does not match its checksum")
        return text


def encode(line: Line) -> bytes:
    """A line as JSON; equal lines have equal bytes."""
    return _encoder.encode(line)


def decode(text: bytes) -> Line:
    """The line of some JSON; ValueError if it is none."""
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(f"it does not say what it should: {error}") from error
