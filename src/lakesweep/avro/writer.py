"""Write Avro object container files."""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import cramjam

from lakesweep.avro.records import Encode, make_encoder, write_long
from lakesweep.avro.schema import parse_schema
from lakesweep.errors import UnsupportedError

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
#: A block ends at this many bytes, like those of Java's writer.
_BLOCK_BYTES = 64_000


def encode_avro(
    schema: Any, records: Iterable[Any], codec: str, metadata: Mapping[str, bytes] | None = None
) -> bytes:
    """A file of records, each a dict, under a schema as parsed JSON.

    `metadata` is what the header says beside it.
    """
    source = json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode()
    encode = make_encoder(parse_schema(source).root)
    return _File(source, codec, encode, metadata or {}).encode(records)


def encode_container(
    schema: bytes,
    records: Iterable[Any],
    codec: str,
    encode: Encode,
    metadata: Mapping[str, bytes],
) -> bytes:
    """A file of values that `encode` writes as the schema says."""
    return _File(schema, codec, encode, metadata).encode(records)


class _File:
    def __init__(
        self, schema: bytes, codec: str, encode: Encode, metadata: Mapping[str, bytes]
    ) -> None:
        if codec not in _CODECS:
            raise UnsupportedError(codec, "files of this codec are not written")
        self._deflate = _CODECS[codec]
        self._encode = encode
        self._sync = secrets.token_bytes(_SYNC_BYTES)
        self._out = bytearray(_MAGIC)
        own = {"avro.schema": schema, "avro.codec": codec.encode()}
        self._write_header({**metadata, **own})

    def encode(self, records: Iterable[Any]) -> bytes:
        block, count = bytearray(), 0
        for record in records:
            self._encode(record, block)
            count += 1
            if len(block) >= _BLOCK_BYTES:
                self._write_block(block, count)
                block, count = bytearray(), 0
        if count:
            self._write_block(block, count)
        return bytes(self._out)

    def _write_header(self, metadata: dict[str, bytes]) -> None:
        write_long(len(metadata), self._out)
        for name, value in metadata.items():
            self._write_bytes(name.encode())
            self._write_bytes(value)
        self._out += b"\0" + self._sync

    def _write_block(self, block: bytearray, count: int) -> None:
        write_long(count, self._out)
        self._write_bytes(self._deflate(bytes(block)))
        self._out += self._sync

    def _write_bytes(self, data: bytes) -> None:
        write_long(len(data), self._out)
        self._out += data


def _deflate(block: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(block) + compressor.flush()


def _snappy(block: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(block)) + zlib.crc32(block).to_bytes(4, "big")


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda block: block,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": lambda block: bytes(cramjam.zstd.compress(block)),
}

#: The codecs that files can be written with.
WRITTEN_CODECS = frozenset(_CODECS)
