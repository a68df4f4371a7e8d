"""Read chosen columns of an Avro file as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.avro.codecs import Inflate, find_codec
from lakesweep.avro.container import Data, Preamble, find_blocks, read_only, read_preamble
from lakesweep.avro.gather import Gatherer
from lakesweep.avro.plan import Plan, make_plan
from lakesweep.avro.projection import Column
from lakesweep.avro.schema import SchemaError
from lakesweep.errors import DamagedError

# Small blocks are walked together, as each call of the kernel has a price.
_CHUNK_BYTES = 2**15


def read_avro(path: str, data: Data, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Read columns of the file's records, in batches of bounded size; no batch is empty.

    Neither the whole file inflated nor an object a row is ever held. `path` names the file in
    errors: TruncatedError where the file ends too early, DamagedError where it contradicts the
    format or lacks a required column, EncryptedError where it is an encrypted stream. Rows of
    earlier batches may have come before an error does.
    """
    preamble = read_preamble(path, data)
    try:
        plan = make_plan(preamble.schema, tuple(columns))
        yield from _read(preamble, data, plan)
    except SchemaError as error:
        raise DamagedError(path, str(error)) from None
    except pa.ArrowInvalid:
        raise DamagedError(path, "a string is not UTF-8") from None


def _read(preamble: Preamble, data: Data, plan: Plan) -> Iterator[pa.RecordBatch]:
    gatherer = Gatherer(preamble.path, plan.shapes, plan.program, plan.spare_rows, len(data))
    for chunk in _chunks(preamble, data):
        yield from map(plan.batch, gatherer.feed(chunk.data, chunk.blocks))
    yield from map(plan.batch, gatherer.finish())


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Inflated bytes, and where blocks are in them: (first byte, end, records)."""

    data: npt.NDArray[np.uint8]
    blocks: npt.NDArray[np.int64]


def _chunks(preamble: Preamble, data: Data) -> Iterator[_Chunk]:
    inflate = find_codec(preamble.path, preamble.codec)
    for table in find_blocks(preamble, data):
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
    return _Chunk(read_only(whole), np.array(blocks, dtype=np.int64))
