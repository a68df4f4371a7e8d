from __future__ import annotations

import msgspec
import pytest

from lakesweep.store.backends.rows import ObjectRow, Reference
from lakesweep.store.realms.payloads import Payload
from lakesweep.store.transfer.format import (
    PIECE_BYTES,
    ObjectLine,
    object_lines,
    reference_line,
    row_line,
    to_id,
    to_payload,
    to_reference,
    to_row,
)

_LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    "reference",
    [
        Reference("a", None, 0, 5),
        Reference("\x00 ä\n", 0, 7, -5, ()),
        Reference("ä" * 500, _LARGEST, _LARGEST, _LARGEST, (0, _LARGEST) * 10),
    ],
)
def test_a_reference_comes_back(reference: Reference) -> None:
    assert to_reference(reference_line(reference)) == reference


@pytest.mark.parametrize("token", [None, 0, -7, _LARGEST])
def test_a_row_comes_back(token: int | None) -> None:
    row = ObjectRow(_LARGEST, 3, "page", 7, token, b"\x00\xff")
    assert to_row(row_line(row)) == row


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 10**6])
def test_an_object_comes_back_from_its_pieces(size: int) -> None:
    item = Payload(5, "page", 7, 9, bytes(range(256)) * (size // 256) + bytes(size % 256))
    first, *others = object_lines(item)
    assert isinstance(first, ObjectLine)
    assert first.pieces == 1 + len(others) == max(1, -(-size // PIECE_BYTES))
    assert to_payload(first, b"".join(line.payload for line in (first, *others))) == item


def test_a_longer_name_than_references_can_have_is_refused() -> None:
    line = reference_line(Reference("a", None, 0, 5))
    with pytest.raises(ValueError, match="not a valid reference name"):
        to_reference(msgspec.structs.replace(line, name="ä" * 501))


@pytest.mark.parametrize(
    "text", ["-1", "007", "+7", " 7", "7\n", "1_0", "\u0667", "", "x", "-0", "9223372036854775808"]
)
def test_an_id_has_one_spelling(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        to_id(text)
