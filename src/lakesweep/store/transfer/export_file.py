"""Export files: written atomically, compressed, and verified line by line when read."""

from __future__ import annotations

import gzip
import io
import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, ParamSpec, TypeVar, cast

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import DamagedError, MissingError, StorageError, TruncatedError, UsageError
from lakesweep.private_folders import open_private
from lakesweep.store.backends.rows import ObjectRow, Reference
from lakesweep.store.objects.row_format import MAX_OBJECT_BYTES
from lakesweep.store.realms.payloads import Payload
from lakesweep.store.transfer.format import (
    FORMAT,
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
    Totals,
    decode,
    to_payload,
    to_reference,
    to_row,
)
from lakesweep.untrusted.documents import JSON_ERRORS

_BUFFER_BYTES = 2**20


@contextmanager
def new_file(path: Path, *, replace: bool = False) -> Iterator[IO[bytes]]:
    """A file that gets its name only when complete, and leaves nothing behind otherwise.

    Compressed if its name ends in .gz or .zst. UsageError if the name is taken, unless it may be
    replaced.
    """
    if not replace and path.exists():
        raise UsageError(f"{path} already exists", hint="use another file, or add --force")
    unfinished = path.with_name(f".lakesweep-{secrets.token_hex(8)}.part")
    try:
        # Sync the content, rename, then sync the folder: after a crash the name is either absent or
        # belongs to a complete file.
        yield from _written(unfinished, path.name)
        _sync(unfinished)
        unfinished.replace(path)
        _sync(path.parent)
    except OSError as error:
        reason = f"cannot be written: {error.strerror or error}"
        raise StorageError(
            str(path), reason, hint="free some space, or use a file elsewhere"
        ) from error
    finally:
        # The original error says more than a failure to clean up.
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _written(unfinished: Path, name: str) -> Iterator[IO[bytes]]:
    # Exports hold all that a realm holds, such as hashes of secrets.
    descriptor = open_private(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "wb", _BUFFER_BYTES) as file, compressing(file, name) as sink:
        yield sink


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_export(source: Path | io.BufferedReader[Any]) -> Iterator[ExportReader]:
    """An export in a file, or from a pipe."""
    if not isinstance(source, Path):
        yield ExportReader(source, "standard input")
        return
    try:
        file = io.BufferedReader(source.open("rb", 0), _BUFFER_BYTES)
    except FileNotFoundError:
        raise MissingError(str(source)) from None
    except OSError as error:
        raise StorageError(str(source), f"cannot be read: {error.strerror}") from error
    with file:
        yield ExportReader(file, str(source))


P = ParamSpec("P")
Value = TypeVar("Value")

_BEGINNING = b'{"line":"export","format":'
_AGAIN = "copy the file again, or repeat the export"


class _Version(msgspec.Struct):
    """What all format versions have in common."""

    format: int


class ExportReader:
    """Reads an export; errors call it `name` and give the line number.

    The first line and the references are read immediately. `totals` counts what has been read, and
    `newest` is the largest id so far.
    """

    def __init__(self, file: io.BufferedReader[Any], name: str) -> None:
        self._name = name
        self._number = 0
        self._chain = ChecksumChain()
        self.totals = Totals()
        self.newest = 0
        self._file = decompressing(file)
        self.header = self._read_header()
        self._line = self._read()
        self.references = list(self._read_references())

    def items(self) -> Iterator[Payload | ObjectRow]:
        """The objects of a live export, or the rows of an export of rows.

        Ends without an error only if nothing is missing and everything is as written.
        """
        while not isinstance(self._line, EndLine):
            item = self._read_item(self._line)
            self.newest = max(self.newest, item.id)
            yield item
            self._line = self._read()
        if self._line != self.totals.end():
            raise self._damaged("the totals do not match the lines above")
        if self._read_bytes():
            raise self._damaged("there is data after the last line")

    def _read_header(self) -> ExportHeader:
        line = self._read_bytes()
        if not line.startswith(_BEGINNING):
            raise DamagedError(
                self._name, "is not an export of a realm", hint="lakesweep store export creates one"
            )
        self._check_version(line)
        header = self._parse(line)
        if not isinstance(header, ExportHeader):
            raise self._damaged("an export does not start like this")
        return header

    def _check_version(self, line: bytes) -> None:
        try:
            version = typed_json(line, _Version).format
        except JSON_ERRORS as error:
            raise self._damaged("the line is not JSON") from error
        if version != FORMAT:
            raise DamagedError(
                self._name,
                f"this export has format {version}; this program understands {FORMAT}",
                hint="upgrade Lakesweep",
            )

    def _read_references(self) -> Iterator[Reference]:
        names = set()
        while isinstance(line := self._line, ReferenceLine):
            if line.name in names:
                raise self._damaged("this reference is repeated")
            names.add(line.name)
            yield self._understood(to_reference, line)
            self._line = self._read()

    def _read_item(self, line: Line) -> Payload | ObjectRow:
        if isinstance(line, ObjectLine) and self.header.kind is ExportKind.LIVE:
            payload = b"".join(self._read_pieces(line))
            return self._understood(to_payload, line, payload)
        if isinstance(line, RowLine) and self.header.kind is ExportKind.ROWS:
            return self._understood(to_row, line)
        raise self._damaged("unexpected kind of line")

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
                raise self._damaged(f"piece {number} of object {line.id} is expected here")
            piece = more.payload
        yield self._checked(piece, len(piece) <= PIECE_BYTES)

    def _checked(self, piece: bytes, fits: bool) -> bytes:
        if not fits:
            raise self._damaged("a piece of the object has the wrong size")
        return piece

    def _read(self) -> Line:
        return self._parse(self._read_bytes())

    def _parse(self, line: bytes) -> Line:
        if not line.endswith(b"\n"):
            if len(line) == MAX_LINE_BYTES:
                raise self._damaged("the line is too long")
            raise TruncatedError(
                self._name, f"ends in line {self._number}, before its last line", hint=_AGAIN
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
                self._name, f"ends in line {self._number}: {error}", hint=_AGAIN
            ) from error
        except READ_ERRORS as error:
            raise self._damaged(f"cannot be read: {error}") from error

    def _damaged(self, reason: str) -> DamagedError:
        return DamagedError(self._name, f"line {self._number}: {reason}", hint=_AGAIN)


_gzip: Any = gzip.GzipFile
_gzip_level = 6
_errors: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
try:
    from isal import igzip, igzip_lib
except ImportError:
    pass  # no wheel for this machine: the standard library works too, 20 times slower
else:
    _gzip, _gzip_level = igzip.IGzipFile, 2
    _errors += (cast("type[Exception]", igzip_lib.IsalError),)

#: What reading damaged or truncated compressed bytes may raise.
READ_ERRORS = _errors

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTANDARD_MAGIC = b"\x28\xb5\x2f\xfd"


def compressing(file: IO[bytes], name: str) -> IO[bytes]:
    """Writes to a file, compressed according to its name: .gz, .zst, or not at all."""
    if name.endswith(".gz"):
        return io.BufferedWriter(
            _gzip(fileobj=file, mode="wb", compresslevel=_gzip_level), _BUFFER_BYTES
        )
    if name.endswith(".zst"):
        import pyarrow as pa

        stream = pa.CompressedOutputStream(pa.PythonFile(file, "w"), "zstd")
        return io.BufferedWriter(stream, _BUFFER_BYTES)
    return file


def decompressing(file: io.BufferedReader[Any]) -> IO[bytes]:
    """Reads a file, compressed or not, according to its first bytes."""
    magic = file.peek(len(_ZSTANDARD_MAGIC))
    if magic.startswith(_GZIP_MAGIC):
        return io.BufferedReader(_gzip(fileobj=file, mode="rb"), _BUFFER_BYTES)
    if magic.startswith(_ZSTANDARD_MAGIC):
        import pyarrow as pa

        stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
        return io.BufferedReader(stream, _BUFFER_BYTES)
    return file
