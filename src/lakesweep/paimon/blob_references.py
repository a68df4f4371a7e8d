"""Sidecars of data files that name the packs in which large values lie.

magic     4 bytes  "PBLR"
version   1 byte   1
count     4 bytes, big endian
count times: the folder of a pack and its name, each 2 bytes of length and modified UTF-8
checksum  4 bytes  CRC-32 of all between the magic and itself
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from lakesweep.errors import DamagedError, TruncatedError

SUFFIX = ".blobref"
_MAGIC = b"PBLR"
_VERSION = 1
_HEADER = struct.Struct(">4sBi")
_CHECKSUM_BYTES = 4


def parse_blob_references(path: str, data: bytes) -> list[str]:
    """The addresses of the packs that a sidecar names."""
    if len(data) < _HEADER.size + _CHECKSUM_BYTES:
        raise TruncatedError(path, f"has {len(data)} bytes, too few for references to packs")
    magic, version, count = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION or count < 0:
        raise DamagedError(path, "holds no references to packs of a version that is known")
    content, checksum = data[len(_MAGIC) : -_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if zlib.crc32(content) != int.from_bytes(checksum):
        raise DamagedError(path, "its checksum is wrong")
    texts = list(_texts(path, data[_HEADER.size : -_CHECKSUM_BYTES]))
    if len(texts) != 2 * count:
        raise DamagedError(path, f"says that it names {count} packs, and has {len(texts)} texts")
    return [f"{folder}/{name}" for folder, name in zip(texts[::2], texts[1::2], strict=True)]


def _texts(path: str, data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2])
        yield _decode(path, data[at + 2 : end])
        at = end


def _decode(path: str, text: bytes) -> str:
    """Java's modified UTF-8: surrogates are encoded one by one, and zero takes two bytes."""
    try:
        halves = text.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return halves.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeError as error:
        raise DamagedError(path, f"a name is not readable: {error}") from error
