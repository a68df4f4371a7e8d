from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Sequence

import msgspec
import pytest

from lakesweep.errors import DamagedError, TruncatedError
from lakesweep.store.transfer import ExportKind
from lakesweep.store.transfer.export_file import ExportReader
from lakesweep.store.transfer.format import ChecksumChain, Line, decode, encode
from tests.libraries import LARGE, export_bytes, fill, open_store


def _read(data: bytes) -> ExportReader:
    """Read all of it."""
    reader = ExportReader(io.BufferedReader(io.BytesIO(data)), "x")
    for _ in reader.items():
        pass
    return reader


@pytest.fixture(scope="module")
def live() -> bytes:
    store = open_store()
    fill(store)
    return export_bytes(store)


@pytest.fixture(scope="module")
def small() -> bytes:
    """An export of references only."""
    store = open_store()
    store.create_realm("acme")
    return export_bytes(store)


def _rewritten(data: bytes, change: Callable[[list[Line]], Sequence[Line]]) -> bytes:
    """The export with other lines, and checksums that match these."""
    reading, writing = ChecksumChain(), ChecksumChain()
    lines = [decode(reading.open(line)) for line in data.splitlines(keepends=True)]
    return b"".join(writing.seal(encode(line)) for line in change(lines))


def _place(lines: Sequence[Line], kind: str) -> int:
    return next(place for place, line in enumerate(lines) if type(line).__name__ == kind)


def test_all_of_it_is_counted(live: bytes) -> None:
    totals = _read(live).totals
    assert totals.references == 9
    assert totals.items == live.count(b'{"line":"object"')
    assert totals.size_bytes > LARGE


@pytest.mark.parametrize("data", [b"", b"\n", b"[store]\nurl = 'x'\n", bytes(10**6), b'{"a":1}\n'])
def test_another_file_is_no_export(data: bytes) -> None:
    with pytest.raises(DamagedError, match="x: is not an export of a realm") as caught:
        _read(data)
    assert "lakesweep store export" in caught.value.hint


def test_a_newer_format_asks_for_a_newer_program(small: bytes) -> None:
    with pytest.raises(DamagedError, match="format 2; this program understands 1") as caught:
        _read(small.replace(b'"format":1', b'"format":2'))
    assert caught.value.hint == "upgrade Lakesweep"


def test_an_export_that_ends_too_early_is_truncated_wherever_that_is(small: bytes) -> None:
    lines = small.splitlines(keepends=True)
    for count in range(1, len(lines)):
        with pytest.raises(TruncatedError, match=f"ends in line {count + 1}, before its last line"):
            _read(b"".join(lines[:count]))
    for cut in (small[:-1], small[:-30]):
        with pytest.raises(TruncatedError, match=f"ends in line {len(lines)}"):
            _read(cut)


def test_a_missing_line_is_told_with_its_number(small: bytes) -> None:
    lines = small.splitlines(keepends=True)
    with pytest.raises(DamagedError, match="line 3: the line does not match its checksum"):
        _read(b"".join([*lines[:2], *lines[3:]]))


def test_two_lines_in_the_wrong_order_are_told(small: bytes) -> None:
    lines = small.splitlines(keepends=True)
    with pytest.raises(DamagedError, match="line 4: the line does not match"):
        _read(b"".join([*lines[:3], lines[4], lines[3], *lines[5:]]))


def test_nothing_may_follow_the_last_line(small: bytes) -> None:
    with pytest.raises(DamagedError, match="data after the last line"):
        _read(small + b"\n")


def test_a_line_without_an_end_is_not_read_into_memory(small: bytes) -> None:
    header = small.splitlines(keepends=True)[0]
    with pytest.raises(DamagedError, match="line 2: the line is too long"):
        _read(header + bytes(10**7))


@pytest.mark.parametrize("field", ["references", "items", "bytes", "hash"])
def test_totals_that_do_not_fit_the_lines_are_refused(live: bytes, field: str) -> None:
    wrong = "0" * 64 if field == "hash" else 7

    def change(lines: list[Line]) -> list[Line]:
        return [*lines[:-1], msgspec.structs.replace(lines[-1], **{field: wrong})]

    with pytest.raises(DamagedError, match="do not match the lines above"):
        _read(_rewritten(live, change))


@pytest.mark.parametrize("kind", ["ExportHeader", "ReferenceLine", "PieceLine"])
def test_a_line_among_the_objects_that_is_none_is_refused(live: bytes, kind: str) -> None:
    def change(lines: list[Line]) -> list[Line]:
        place = _place(lines, "ObjectLine") + 1
        return [*lines[:place], lines[_place(lines, kind)], *lines[place:]]

    with pytest.raises(DamagedError, match="unexpected kind of line"):
        _read(_rewritten(live, change))


def test_rows_in_a_live_export_are_refused(live: bytes) -> None:
    store = open_store()
    fill(store)
    rows = export_bytes(store, kind=ExportKind.ROWS)

    def change(lines: list[Line]) -> list[Line]:
        return [msgspec.structs.replace(lines[0], kind=ExportKind.LIVE), *lines[1:]]

    with pytest.raises(DamagedError, match="unexpected kind of line"):
        _read(_rewritten(rows, change))


def test_a_reference_that_comes_twice_is_refused(small: bytes) -> None:
    with pytest.raises(DamagedError, match="line 3: this reference is repeated"):
        _read(_rewritten(small, lambda lines: [*lines[:2], lines[1], *lines[2:]]))


def test_a_name_that_no_reference_can_have_is_refused(small: bytes) -> None:
    def change(lines: list[Line]) -> list[Line]:
        return [lines[0], msgspec.structs.replace(lines[1], name="ä" * 501), *lines[2:]]

    with pytest.raises(DamagedError, match="line 2: this is not a valid reference"):
        _read(_rewritten(small, change))


def test_an_id_that_is_none_is_refused(live: bytes) -> None:
    def change(lines: list[Line]) -> list[Line]:
        place = _place(lines, "ObjectLine")
        return [*lines[:place], msgspec.structs.replace(lines[place], id="-1"), *lines[place + 1 :]]

    with pytest.raises(DamagedError, match="'-1' is not an id"):
        _read(_rewritten(live, change))


def _without_a_piece(lines: list[Line]) -> list[Line]:
    place = _place(lines, "PieceLine")
    return [*lines[:place], *lines[place + 1 :]]


def _with_a_short_piece(lines: list[Line]) -> list[Line]:
    place = _place(lines, "PieceLine")
    return [*lines[:place], msgspec.structs.replace(lines[place], payload=b""), *lines[place + 1 :]]


def _with_too_many(lines: list[Line]) -> list[Line]:
    place = _place(lines, "PieceLine") - 1
    return [
        *lines[:place],
        msgspec.structs.replace(lines[place], pieces=10**6),
        *lines[place + 1 :],
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_without_a_piece, "piece 1 of object .* is expected here"),
        (_with_a_short_piece, "wrong size"),
        (_with_too_many, "too large"),
    ],
)
def test_pieces_that_make_up_no_object_are_refused(
    live: bytes, change: Callable[[list[Line]], list[Line]], reason: str
) -> None:
    with pytest.raises(DamagedError, match=reason):
        _read(_rewritten(live, change))


def test_a_compressed_export_is_read_as_such_whatever_its_name(small: bytes) -> None:
    assert _read(gzip.compress(small)).totals.references == 7


def test_a_compressed_export_that_was_cut_is_truncated(small: bytes) -> None:
    with pytest.raises(TruncatedError, match="ends in line"):
        _read(gzip.compress(small)[:-20])


def test_a_compressed_export_that_was_changed_is_damaged(small: bytes) -> None:
    data = bytearray(gzip.compress(small))
    data[-6] ^= 1
    with pytest.raises(DamagedError, match="cannot be read"):
        _read(bytes(data))
