"""Reading an export: each line is checked before anybody sees it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import msgspec

from lakesweep.errors import DamagedError, TruncatedError
from lakesweep.store.backend import ObjectRow, Reference
from lakesweep.store.frames import MAX_OBJECT_BYTES
from lakesweep.store.payloads import Payload
from lakesweep.store.transfer.compression import READ_ERRORS, decompressing
from lakesweep.store.transfer.lines import (
    FORMAT,
    MAX_LINE_BYTES,
    PIECE_BYTES,
    Chain,
    EndLine,
    Header,
    Kind,
    Line,
    ObjectLine,
    PieceLine,
    ReferenceLine,
    RowLine,
    decode,
)
from lakesweep.store.transfer.totals import Totals
from lakesweep.store.transfer.values import to_payload, to_reference, to_row

P = ParamSpec("P")
Value = TypeVar("Value")

_BEGINNING = b'{"line":"export","format":'
_AGAIN = "copy the file again, or export again"


class _Version(msgspec.Struct):
    """What every format has in common."""

    format: int


class ExportReader:
    """An export, whose errors call it `name` and tell the number of the line.

    The first line and the references are read at once. `totals` counts what has been read, and
    `newest` is the largest id so far.
    """

    def __init__(self, file: io.BufferedReader[Any], name: str) -> None:
        self._name = name
        self._number = 0
        self._chain = Chain()
        self.totals = Totals()
        self.newest = 0
        self._file = decompressing(file)
        self.header = self._read_header()
        self._line = self._read()
        self.references = list(self._read_references())

    def items(self) -> Iterator[Payload | ObjectRow]:
        """The objects of a live export, or the rows of one of rows.

        It ends without an error only if nothing is missing, and all of it is as it was written.
        """
        while not isinstance(self._line, EndLine):
            item = self._read_item(self._line)
            self.newest = max(self.newest, item.id)
            yield item
            self._line = self._read()
        if self._line != self.totals.end():
            raise self._damaged("it does not match the lines above it")
        if self._read_bytes():
            raise self._damaged("nothing may follow the last line")

    def _read_header(self) -> Header:
        line = self._read_bytes()
        if not line.startswith(_BEGINNING):
            raise DamagedError(
                self._name, "this is no export of a realm", hint="lakesweep store export writes one"
            )
        self._check_version(line)
        header = self._parse(line)
        if not isinstance(header, Header):
            raise self._damaged("this is not how an export begins")
        return header

    def _check_version(self, line: bytes) -> None:
        try:
            version = msgspec.json.decode(line, type=_Version).format
        except msgspec.MsgspecError as error:
            raise self._damaged("it is not JSON") from error
        if version != FORMAT:
            raise DamagedError(
                self._name,
                f"this is an export of format {version}, and {FORMAT} is known here",
                hint="use a newer lakesweep",
            )

    def _read_references(self) -> Iterator[Reference]:
        names = set()
        while isinstance(line := self._line, ReferenceLine):
            if line.name in names:
                raise self._damaged("this reference was there before")
            names.add(line.name)
            yield self._understood(to_reference, line)
            self._line = self._read()

    def _read_item(self, line: Line) -> Payload | ObjectRow:
        if isinstance(line, ObjectLine) and self.header.kind is Kind.LIVE:
            payload = b"".join(self._read_pieces(line))
            return self._understood(to_payload, line, payload)
        if isinstance(line, RowLine) and self.header.kind is Kind.ROWS:
            return self._understood(to_row, line)
        raise self._damaged("such a line does not belong here")

    def _understood(self, read: Callable[P, Value], *args: P.args, **options: P.kwargs) -> Value:
        try:
            return read(*args, **options)
        except ValueError as error:
            raise self._damaged(str(error)) from error

    def _read_pieces(self, line: ObjectLine) -> Iterator[bytes]:
        if (line.pieces - 1) * PIECE_BYTES > MAX_OBJECT_BYTES:
            raise self._damaged("the object is too large")
        piece = line.payload
        for number in range(1, line.pieces):
            yield self._checked(piece, len(piece) == PIECE_BYTES)
            more = self._read()
            if not isinstance(more, PieceLine) or (more.id, more.piece) != (line.id, number):
                raise self._damaged(f"piece {number} of object {line.id} belongs here")
            piece = more.payload
        yield self._checked(piece, len(piece) <= PIECE_BYTES)

    def _checked(self, piece: bytes, fits: bool) -> bytes:
        if not fits:
            raise self._damaged("a piece of the object has another size than it should")
        return piece

    def _read(self) -> Line:
        return self._parse(self._read_bytes())

    def _parse(self, line: bytes) -> Line:
        if not line.endswith(b"\n"):
            if len(line) == MAX_LINE_BYTES:
                raise self._damaged("it is too long")
            raise TruncatedError(
                self._name, f"it ends in line {self._number}, before its last one", hint=_AGAIN
            )
        text = self._understood(self._chain.open, line)
        parsed = self._understood(decode, text)
        self.totals.add(parsed, text)
        return parsed

    def _read_bytes(self) -> bytes:
        self._number += 1
        try:
            return self._file.readline(MAX_LINE_BYTES)
        except EOFError as error:
            raise TruncatedError(
                self._name, f"it ends in line {self._number}: {error}", hint=_AGAIN
            ) from error
        except READ_ERRORS as error:
            raise self._damaged(f"it cannot be read: {error}") from error

    def _damaged(self, reason: str) -> DamagedError:
        return DamagedError(self._name, f"line {self._number}: {reason}", hint=_AGAIN)
