"""Files that are smaller on disk than what they say."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import IO, Any, cast

_gzip: Any = gzip.GzipFile
_gzip_level = 6
_errors: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
try:
    from isal import igzip, igzip_lib
except ImportError:
    pass  # there is no wheel for this machine: the standard library does the same, 20 times slower
else:
    _gzip, _gzip_level = igzip.IGzipFile, 2
    _errors += (cast("type[Exception]", igzip_lib.IsalError),)

#: What reading may raise where compressed bytes are damaged or cut short.
READ_ERRORS = _errors

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTANDARD_MAGIC = b"\x28\xb5\x2f\xfd"
_BUFFER_BYTES = 2**20


def compressing(file: IO[bytes], name: str) -> IO[bytes]:
    """Writes to a file, compressed as its name says: .gz, .zst, or else not at all."""
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
    """Reads a file, compressed or not; its first bytes tell which."""
    magic = file.peek(len(_ZSTANDARD_MAGIC))
    if magic.startswith(_GZIP_MAGIC):
        return io.BufferedReader(_gzip(fileobj=file, mode="rb"), _BUFFER_BYTES)
    if magic.startswith(_ZSTANDARD_MAGIC):
        import pyarrow as pa

        stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
        return io.BufferedReader(stream, _BUFFER_BYTES)
    return file
