"""The shapes of bulk rows: files, and what became of them."""

from __future__ import annotations

import pyarrow as pa

#: One stored or referenced file. `path` is a full address; the rest is null where unknown.
FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("kind", pa.string()),
        pa.field("size_bytes", pa.int64()),
        pa.field("modified", pa.timestamp("us", tz="UTC")),
        pa.field("etag", pa.string()),
    ]
)

#: What became of one file that was to be deleted; `outcome` is one of `store.Outcome`.
OUTCOME_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("size_bytes", pa.int64()),
    ]
)
