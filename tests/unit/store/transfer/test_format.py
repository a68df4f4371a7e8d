from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from lakesweep.store.transfer.format import (
    MAX_LINE_BYTES,
    PIECE_BYTES,
    ChecksumChain,
    EndLine,
    ExportHeader,
    ExportKind,
    Line,
    ObjectLine,
    PieceLine,
    ReferenceLine,
    RowLine,
    decode,
    encode,
)

_LARGEST = str(2**63 - 1)
LINES: list[Line] = [
    ExportHeader(
        format=1,
        kind=ExportKind.LIVE,
        export="0123",
        realm="acme",
        properties={"ä": "\n"},
        created=datetime(2026, 6, 1, tzinfo=UTC),
        history=None,
    ),
    ReferenceLine(name="\x00☃", pointer=_LARGEST, version=2, created_at=-1, recent=(_LARGEST, "0")),
    ObjectLine(id="0", type="alien", created_at=1, token=None, pieces=2, payload=b"\xff\x00"),
    PieceLine(id=_LARGEST, piece=1, payload=b""),
    RowLine(id="5", part=3, type="page", created_at=1, token="-7", value=bytes(10)),
    EndLine(references=1, items=2, bytes=3, hash="ff"),
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: type(line).__name__)
def test_a_line_comes_back(line: Line) -> None:
    assert decode(encode(line)) == line


def test_lines_that_follow_each_other_are_opened_again() -> None:
    texts = [encode(line) for line in LINES]
    writing, reading = ChecksumChain(), ChecksumChain()
    assert [reading.open(writing.seal(text)) for text in texts] == texts


def test_a_line_is_json_with_its_checksum_as_the_last_field() -> None:
    line = ChecksumChain().seal(b'{"line":"end"}')
    assert line == b'{"line":"end","crc32":"c9021d97"}\n'
    assert list(msgspec.json.decode(line)) == ["line", "crc32"]


def test_a_missing_line_shows_in_the_next() -> None:
    chain = ChecksumChain()
    [_, second] = [chain.seal(encode(line)) for line in LINES[:2]]
    with pytest.raises(ValueError, match="checksum"):
        ChecksumChain().open(second)


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"line":"unheard"}',
        b'{"line":"piece","id":1,"piece":1,"payload":""}',
        b'{"line":"piece","id":"","piece":1,"payload":""}',
        b'{"line":"piece","id":"1","piece":0,"payload":""}',
        b'{"line":"piece","id":"1","piece":1,"payload":"*"}',
        b'{"line":"reference","name":"","pointer":null,"version":1,"created_at":1,"recent":[]}',
        b"[]",
    ],
)
def test_a_line_that_makes_no_sense_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="is not valid"):
        decode(text)


def test_the_largest_lines_are_short_enough() -> None:
    piece = PieceLine(id=_LARGEST, piece=9_999, payload=bytes(PIECE_BYTES))
    row = RowLine(
        id=_LARGEST,
        part=2**31 - 1,
        type="x" * 64,
        created_at=2**63 - 1,
        token=_LARGEST,
        value=bytes(350_000),
    )
    reference = ReferenceLine(
        name="\x01" * 1_000,
        pointer=_LARGEST,
        version=2**63 - 1,
        created_at=2**63 - 1,
        recent=(_LARGEST,) * 20,
    )
    assert (
        max(len(ChecksumChain().seal(encode(line))) for line in (piece, row, reference))
        < MAX_LINE_BYTES
    )
