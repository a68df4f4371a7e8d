"""Blob reference sidecars, which name the packs that hold a data file's large values.

No manifest names a pack; only the sidecars do. Format of a sidecar:

magic     4 bytes  "PBLR"
version   1 byte   1
count     4 bytes, big-endian
count times: folder and name of a pack, each 2 bytes of length and modified UTF-8
checksum  4 bytes  CRC-32 of everything between the magic and the checksum
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError, MissingError, TruncatedError
from lakesweep.paimon.model.table import PaimonTable

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


class Sidecar(NamedTuple):
    """A file that names packs, and the data file that it belongs to."""

    path: str
    data_path: str


def find_sidecars(
    extra_paths: pa.Array, data_paths: pa.Array, rows: npt.NDArray[np.int64]
) -> Iterator[Sidecar]:
    """The sidecars among extra files; `rows` tells which data file each of them belongs to."""
    places = pc.indices_nonzero(pc.ends_with(extra_paths, SUFFIX)).to_numpy()
    beside = data_paths.take(pa.array(rows[places])).to_pylist()
    yield from map(Sidecar, extra_paths.take(pa.array(places)).to_pylist(), beside)


def read_packs(table: PaimonTable, sidecar: Sidecar) -> list[str]:
    """The addresses of the packs that a sidecar names.

    A sidecar goes when its data file has gone, which manifests may name for long. But one that is
    not there while its data file is leaves unknown what the data file needs: MissingError.
    """
    try:
        return parse_blob_references(sidecar.path, table.read(sidecar.path))
    except MissingError:
        if table.exists(sidecar.data_path):
            raise
        return []
