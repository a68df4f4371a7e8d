"""Arrow batches as JSON lines, encoded column by column, which is faster than row by row."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MUST_ESCAPE = r'["\\\x00-\x1f]'
_NULL = pa.scalar("null")


def encode_lines(batch: pa.RecordBatch) -> memoryview:
    """One JSON object a row, one row a line, its fields in the order of the columns."""
    if batch.num_rows == 0:
        return memoryview(b"")
    parts: list[pa.Array | str] = []
    lead = "{"
    for field, column in zip(batch.schema, batch.columns, strict=True):
        parts += [f"{lead}{_quote(field.name)}:", _json_texts(column)]
        lead = ","
    return _text(pc.binary_join_element_wise(*parts, "}\n", ""))


def _json_texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value; `null` where there is none."""
    kind = column.type
    if pa.types.is_string(kind):
        texts = _quoted(column)
    elif pa.types.is_timestamp(kind):
        texts = pc.binary_join_element_wise('"', moment_texts(column), '"', "")
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        texts = column.cast(pa.string())
    elif pa.types.is_null(kind):
        return pa.repeat(_NULL, len(column))
    else:
        raise TypeError(f"no JSON text for a column of {kind}")
    return texts.fill_null(_NULL) if texts.null_count else texts


def _quoted(column: pa.Array) -> pa.Array:
    # Values that need an escape are rare: a batch without any costs one look over its bytes.
    if _may_need_escape(column):
        needy = pc.match_substring_regex(column, _MUST_ESCAPE)
        picked = column.filter(needy)
        escaped = pa.array([_quote(text)[1:-1] for text in picked.to_pylist()], column.type)
        column = pc.replace_with_mask(column, needy.fill_null(False), escaped)
    return pc.binary_join_element_wise('"', column, '"', "")


def _may_need_escape(column: pa.Array) -> bool:
    # Only the bytes of these values: a slice of a few rows shares the buffers of all of them.
    data = np.frombuffer(_text(column), np.uint8)
    return bool(((data < 0x20) | (data == ord('"')) | (data == ord("\\"))).any())


def moment_texts(column: pa.Array) -> pa.Array:
    """RFC 3339 in UTC; a fraction only where there is one."""
    # Arrow looks up the zone for every row of a zoned column; a bare one is 20 times as fast.
    bare = column.cast(pa.timestamp("us")).cast(pa.string())
    trimmed = pc.utf8_rtrim(pc.utf8_rtrim(pc.utf8_replace_slice(bare, 10, 11, "T"), "0"), ".")
    return pc.binary_join_element_wise(trimmed, "Z", "")


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _text(lines: pa.Array) -> memoryview:
    """The values of a string column, one behind the other, without a copy."""
    _, offsets, values = lines.buffers()
    if values is None or offsets is None:
        return memoryview(b"")
    places = memoryview(offsets).cast("B").cast("i")
    start, end = places[lines.offset], places[lines.offset + len(lines)]
    return memoryview(values)[start:end]
