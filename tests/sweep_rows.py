"""Listed files and rules of a run, for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.judge.reasons import JudgeRules
from lakesweep.sweep.paths.folder_map import FolderMap

NOW = datetime(2026, 6, 1, tzinfo=UTC)
OLD = NOW - timedelta(days=30)


def folders(*pairs: tuple[str, str]) -> FolderMap:
    return FolderMap(pairs)


RULES = JudgeRules(
    now=NOW,
    cutoff=NOW - timedelta(days=7),
    locations=folders(("s3://b/wh/", "s3://b/wh")),
    tables=folders(("s3://b/wh/t/", "shop.t")),
)


def listing(*rows: tuple[str, datetime | None]) -> pa.RecordBatch:
    paths = pa.array([path for path, _ in rows], pa.string())
    count = len(rows)
    columns = {
        "path": paths,
        "size_bytes": pa.array(range(count), pa.int64()),
        "modified": pa.array([modified for _, modified in rows], LISTING.field("modified").type),
        "etag": pa.array([f"e{number}" for number in range(count)], pa.string()),
    }
    h1, h2 = hash_columns(file_hashes(paths))
    return pa.RecordBatch.from_arrays([*columns.values(), h1, h2], schema=LISTING)
