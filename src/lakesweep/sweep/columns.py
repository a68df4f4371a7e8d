"""The columns of a sweep, defined once.

`h1` and `h2` are the low and the high word of the 128-bit hash, without salt, of what a file is
compared by: its identity with all local links resolved. Arrow and Spark know no unsigned words
that both can join on, so the bits stand in signed ones. A key that could be null would survive an
anti join and be deleted, so keys cannot be null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakesweep.hashing import Hashes
from lakesweep.storage.file_hashes import file_hashes, hash_columns, source_numbers
from lakesweep.storage.files import FILE_SCHEMA
from lakesweep.storage.marks import LIVE, PROBLEMS, SOURCES, USAGE

__all__ = [
    "EDGES",
    "HASHES",
    "LISTING",
    "LIVE",
    "MISSING",
    "PROBLEMS",
    "SOURCES",
    "USAGE",
    "VERDICTS",
    "file_hashes",
    "hash_columns",
    "hashes_of",
    "source_numbers",
]

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
