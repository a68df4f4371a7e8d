"""The format of an export: JSON lines with chained checksums.

    {"line":"export", …                     the first: what was exported, when, and how
    {"line":"reference", …                  one per reference
    {"line":"object", …                     one per object; further pieces of a large one follow:
    {"line":"piece", …
    {"line":"row", …                        instead of objects, if rows were exported
    {"line":"end", …                        the last: totals and the content hash

Every line ends with `,"crc32":"…"}` and a line feed. The checksum covers the JSON of the line
without this field and is seeded with the checksum of the previous line, so a line that is changed,
missing, moved or repeated is detected where it stands.

Converting a line back may raise ValueError: a correct checksum does not make its values valid.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from lakesweep.decoding import json_decoder
from lakesweep.store.backends.rows import (
    EVERY_ID,
    MAX_NAME_BYTES,
    MAX_VALUE_BYTES,
    ObjectRow,
    Reference,
)
from lakesweep.store.realms.payloads import Payload
from lakesweep.untrusted.documents import JSON_ERRORS

#: The version of the format.
FORMAT = 1
#: A payload is cut into pieces of this size, which needs no padding in base64.
PIECE_BYTES = 300_000
#: The maximum length of a line.
MAX_LINE_BYTES = 2**20

#: An integer as text, since many programs cannot represent such large ones.
Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=20)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=EVERY_ID.last)]
Moment: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=EVERY_ID.last)]
TypeName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]


class ExportKind(StrEnum):
    """What was exported: everything reachable from the references, or every row as stored."""

    LIVE = "live"
    ROWS = "rows"


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="line"):
    pass


class ExportHeader(_Line, frozen=True, tag="export"):
    """The first line. `export` is the unique name of this export.

    `history` is the number of commits of each log; null for all that existed.
    """

    format: int
    kind: ExportKind
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
    """One object, whose payload comes in `pieces`: the first here, the others in later lines."""

    id: Id
    type: TypeName
    created_at: Moment
    token: Id | None
    pieces: Annotated[int, Meta(ge=1)]
    payload: bytes


class PieceLine(_Line, frozen=True, tag="piece"):
    """Another piece of the object above, counted from 1."""

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
    """The last line: the number of references, of objects or rows, their bytes, and the hash."""

    references: int
    items: int
    bytes: int
    hash: str


Line: TypeAlias = ExportHeader | ReferenceLine | ObjectLine | PieceLine | RowLine | EndLine

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Line] = json_decoder(Line)
_SEAL = b',"crc32":"%08x"}\n'
_SEAL_BYTES = len(_SEAL % 0)


class ChecksumChain:
    """Adds checksums to lines, or verifies them; each depends on the lines before."""

    def __init__(self) -> None:
        self._checksum = 0

    def seal(self, text: bytes) -> bytes:
        """The line of a JSON object."""
        self._checksum = zlib.crc32(text, self._checksum)
        return text[:-1] + _SEAL % self._checksum

    def open(self, line: bytes) -> bytes:
        """The JSON object of a line; ValueError if it is not the next line as written."""
        text = line[:-_SEAL_BYTES] + b"}"
        if self.seal(text) != line:
            raise ValueError("the line does not match its checksum")
        return text


def encode(line: Line) -> bytes:
    """A line as JSON; equal lines have equal bytes."""
    return _encoder.encode(line)


def decode(text: bytes) -> Line:
    """The line in some JSON; ValueError if it is not one."""
    try:
        return _decoder.decode(text)
    except JSON_ERRORS as error:
        raise ValueError(f"the line is not valid: {error}") from error


_MODULUS = 2**256


class Totals:
    """Counts the lines of an export, and sums their hashes.

    The content hash is the sum of the SHA-256 of every line except the first and the last, as JSON
    without its checksum, modulo 2**256: so it depends neither on the order nor on the database.
    """

    def __init__(self) -> None:
        self.references = 0
        self.items = 0
        self.size_bytes = 0
        self._sum = 0

    @property
    def hash(self) -> str:
        return f"{self._sum % _MODULUS:064x}"

    def add(self, line: Line, text: bytes) -> None:
        """Count a line, whose JSON is this text."""
        match line:
            case ObjectLine():
                self.items += 1
                self.size_bytes += len(line.payload)
            case RowLine():
                self.items += 1
                self.size_bytes += len(line.value)
            case PieceLine():
                self.size_bytes += len(line.payload)
            case ReferenceLine():
                self.references += 1
            case _:
                return
        self._sum += int.from_bytes(hashlib.sha256(text, usedforsecurity=False).digest(), "big")

    def end(self) -> EndLine:
        """The last line of an export with these totals."""
        return EndLine(
            references=self.references, items=self.items, bytes=self.size_bytes, hash=self.hash
        )


# Every number has one spelling: otherwise two lines could say the same with different hashes.
_NUMBER = re.compile("0|-?[1-9][0-9]*")


def reference_line(reference: Reference) -> ReferenceLine:
    """The line of a reference."""
    return ReferenceLine(
        name=reference.name,
        pointer=_text(reference.pointer),
        version=reference.version,
        created_at=reference.created_at,
        recent=tuple(map(str, reference.recent)),
    )


def to_reference(line: ReferenceLine) -> Reference:
    """The reference of a line."""
    if len(line.name.encode()) > MAX_NAME_BYTES:
        raise ValueError("this is not a valid reference name")
    pointer = None if line.pointer is None else to_id(line.pointer)
    recent = tuple(map(to_id, line.recent))
    return Reference(line.name, pointer, line.version, line.created_at, recent)


def object_lines(item: Payload) -> Iterator[ObjectLine | PieceLine]:
    """The lines of an object: one, unless it is large."""
    id_ = str(item.id)
    pieces = range(PIECE_BYTES, len(item.payload), PIECE_BYTES)
    yield ObjectLine(
        id=id_,
        type=item.type,
        created_at=item.created_at,
        token=_text(item.token),
        pieces=1 + len(pieces),
        payload=item.payload[:PIECE_BYTES],
    )
    for number, start in enumerate(pieces, start=1):
        piece = item.payload[start : start + PIECE_BYTES]
        yield PieceLine(id=id_, piece=number, payload=piece)


def to_payload(line: ObjectLine, payload: bytes) -> Payload:
    """The object of a line, whose pieces make up this payload."""
    return Payload(to_id(line.id), line.type, line.created_at, _to_token(line.token), payload)


def row_line(row: ObjectRow) -> RowLine:
    """The line of a row."""
    return RowLine(
        id=str(row.id),
        part=row.part,
        type=row.type,
        created_at=row.created_at,
        token=_text(row.token),
        value=row.value,
    )


def to_row(line: RowLine) -> ObjectRow:
    """The row of a line."""
    number, token = to_id(line.id), _to_token(line.token)
    return ObjectRow(number, line.part, line.type, line.created_at, token, line.value)


def to_id(text: str) -> int:
    """The id that a line names."""
    return _number(text, EVERY_ID.first)


def _to_token(text: str | None) -> int | None:
    return None if text is None else _number(text, -(2**63))


def _number(text: str, least: int) -> int:
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= EVERY_ID.last:
        raise ValueError(f"{text!r} is not an id")
    return int(text)


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
