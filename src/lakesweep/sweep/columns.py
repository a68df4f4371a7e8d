"""Columns and schemas of a sweep, defined once.

`h1` and `h2` are the low and the high word of the unsalted 128-bit hash of what a file is
compared by: its identity, with all local links resolved. They are signed, because Arrow and
Spark share no unsigned type that both can join on. Keys are never null: a null key would
survive an anti join and be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.hashing import Hashes
from lakesweep.storage.file_batches import FILE_SCHEMA

_TIME = FILE_SCHEMA.field("modified").type


def _key(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_PATH = _key("path", pa.string())
_HASH = (_key("h1", pa.int64()), _key("h2", pa.int64()))

#: Files by what they are compared by, and nothing else.
HASHES = pa.schema(_HASH)

#: A stored file, exactly as it was listed.
LISTING = pa.schema(
    [
        _PATH,
        pa.field("size_bytes", pa.int64()),
        pa.field("modified", _TIME),
        pa.field("etag", pa.string()),
        *_HASH,
    ]
)

#: Which source names which: root metadata, its lists, their manifests.
EDGES = pa.schema([_key("parent", pa.int64()), _key("child", pa.int64())])

#: One row of a plan. `rule` is the folder, table or pattern behind a keep, or a delete's guess;
#: `table` is the one whose folder is the innermost around the file.
VERDICTS = pa.schema(
    [
        _PATH,
        _key("verdict", pa.string()),
        _key("reason", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("size_bytes", pa.int64()),
        pa.field("modified", _TIME),
        pa.field("etag", pa.string()),
        pa.field("table", pa.string()),
        *_HASH,
    ]
)


#: A file that is referenced and not stored, once for each root that needs it.
MISSING = pa.schema(
    [
        _PATH,
        pa.field("kind", pa.string()),
        pa.field("size_bytes", pa.int64()),
        _key("table", pa.string()),
    ]
)


def hashes_of(batch: pa.RecordBatch) -> Hashes:
    """The hashes in the columns `h1` and `h2` of a batch."""
    low, high = (batch[name].to_numpy().view(np.uint64) for name in ("h1", "h2"))
    return low, high


Mask: TypeAlias = npt.NDArray[np.bool_]


def mask_of(booleans: pa.Array) -> Mask:
    """The mask of an array without nulls."""
    mask: Mask = booleans.to_numpy(zero_copy_only=False)
    return mask


#: LISTING, and whether a root references the file.
REFERENCED = pa.schema([*LISTING, pa.field("referenced", pa.bool_(), nullable=False)])

Batches = Iterable[pa.RecordBatch]


def with_reference(batch: pa.RecordBatch, referenced: pa.Array) -> pa.RecordBatch:
    """Rows of LISTING as REFERENCED."""
    return pa.RecordBatch.from_arrays([*batch.columns, referenced], schema=REFERENCED)
