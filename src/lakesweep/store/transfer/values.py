"""From what a store holds to the lines that say so, and back.

Whatever comes back from a line may be a ValueError: that its checksum is right does not mean that
it makes sense.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakesweep.store.backend import EVERY_ID, MAX_NAME_BYTES, ObjectRow, Reference
from lakesweep.store.payloads import Payload
from lakesweep.store.transfer.lines import (
    PIECE_BYTES,
    ObjectLine,
    PieceLine,
    ReferenceLine,
    RowLine,
)

# One number, one spelling: otherwise two lines could say the same, with different hashes.
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
        raise ValueError("no reference can have this name")
    pointer = None if line.pointer is None else to_id(line.pointer)
    recent = tuple(map(to_id, line.recent))
    return Reference(line.name, pointer, line.version, line.created_at, recent)


def object_lines(item: Payload) -> Iterator[ObjectLine | PieceLine]:
    """The lines of an object: one, unless it is large."""
    number = str(item.id)
    pieces = range(PIECE_BYTES, len(item.payload), PIECE_BYTES)
    yield ObjectLine(
        id=number,
        type=item.type,
        created_at=item.created_at,
        token=_text(item.token),
        pieces=1 + len(pieces),
        payload=item.payload[:PIECE_BYTES],
    )
    for place, start in enumerate(pieces, start=1):
        piece = item.payload[start : start + PIECE_BYTES]
        yield PieceLine(id=number, piece=place, payload=piece)


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
        raise ValueError(f"{text!r} is no id")
    return int(text)


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
