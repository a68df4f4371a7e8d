"""Read chosen columns of an Avro file as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.avro.codecs import Inflate, find_codec
from lakesweep.avro.container import Data, Header, find_blocks, read_header
from lakesweep.avro.gather import Gatherer
from lakesweep.avro.plan import make_plan
from lakesweep.avro.projection import Column

# Small blocks are walked together, as each call of the kernel has a price.
_CHUNK_BYTES = 2**15


def read_avro(path: str, data: Data, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Read columns of the file's records, in batches of bounded size; no batch is empty.

    Neither the whole file inflated nor an object a row is ever held. `path` names the file in
    errors: TruncatedError where the file ends too early, DamagedError where it contradicts the
    format or lacks a required column, EncryptedError where it is an encrypted stream. Rows of
    earlier batches may have come before an error does.
    """
    header = read_header(path, data)
    plan = make_plan(path, header.schema, columns)
    gatherer = Gatherer(path, plan.shapes, plan.program, plan.spare_rows)
    for chunk in _chunks(path, data, header, find_codec(path, header.codec)):
        yield from map(plan.batch, gatherer.feed(chunk.data, chunk.blocks))
    yield from map(plan.batch, gatherer.finish())


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Inflated bytes, and where blocks are in them: (first byte, end, records)."""

    data: npt.NDArray[np.uint8]
    blocks: npt.NDArray[np.int64]


def _chunks(path: str, data: Data, header: Header, inflate: Inflate | None) -> Iterator[_Chunk]:
    for table in find_blocks(path, data, header):
        if inflate is None:
            yield _Chunk(np.frombuffer(data, dtype=np.uint8), table)
        else:
            yield from _inflated(memoryview(data), table.tolist(), inflate)


def _inflated(data: memoryview, table: list[list[int]], inflate: Inflate) -> Iterator[_Chunk]:
    parts: list[bytes | memoryview] = []
    blocks: list[tuple[int, int, int]] = []
    size = 0
    for first, end, records in table:
        part = inflate(data[first:end])
        parts.append(part)
        blocks.append((size, size + len(part), records))
        size += len(part)
        if size >= _CHUNK_BYTES:
            yield _chunk(parts, blocks)
            parts, blocks, size = [], [], 0
    if parts:
        yield _chunk(parts, blocks)


def _chunk(parts: list[bytes | memoryview], blocks: list[tuple[int, int, int]]) -> _Chunk:
    whole = parts[0] if len(parts) == 1 else b"".join(parts)
    return _Chunk(np.frombuffer(whole, dtype=np.uint8), np.array(blocks, dtype=np.int64))
