"""Add garbage of every kind to the demo lake, and prove afterwards that nothing else was deleted.

Some files only look like garbage.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow.parquet as pq

from lakesweep.demo.lake import DemoLake, rows
from lakesweep.errors import LakesweepError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from lakesweep.demo.lake import DemoLake


_AGE = timedelta(days=30)
_MOMENTS = ("timestamp-ms", "last-updated-ms")


@dataclass(frozen=True)
class PlantedGarbage:
    """What the story comes back to; `kept` are files that stay unreferenced, with the reason."""

    aborted: Path
    late: Path
    kept: dict[str, str]


def add_garbage(lake: DemoLake) -> PlantedGarbage:
    """Litter a lake, and make all but one file of it look a month old."""
    shop = lake.warehouse / "shop"
    aborted = _write(shop / "orders" / "data" / "region=eu" / _part())
    late = _write(shop / "clicks" / "data" / _part())
    _write(shop / "clicks" / "copy-table-staging-17" / "part-00000.parquet")
    _lose_commit(lake.tables()["shop.orders"])
    kept = {
        _write(shop / "orders" / "data" / "_SUCCESS"): "hidden",
        _write(shop / "orders" / "data" / ".part-00000.parquet.crc"): "hidden",
        _write(shop / "events" / "notes.txt"): "unknown-kind",
    }
    _grow_old(lake)
    kept[_write(shop / "events" / "data" / _part())] = "too-new"
    return PlantedGarbage(aborted, late, {str(path): reason for path, reason in kept.items()})


def _part() -> str:
    return f"00000-7-{uuid4()}.parquet"


def _write(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(rows(9), path)
    else:
        path.touch()
    return path


def _lose_commit(table: Table) -> None:
    """Metadata, list and manifest of a commit that another writer won, under names of its own."""
    head = table.current_snapshot()
    assert head is not None
    version = len(list(Path(table.location(), "metadata").glob("*.json")))
    attempt = uuid4()
    copies = {
        table.metadata_location: f"{version:05}-{attempt}.metadata.json",
        head.manifest_list: f"snap-{head.snapshot_id + 1}-0-{attempt}.avro",
        head.manifests(table.io)[0].manifest_path: f"{attempt}-m0.avro",
    }
    for path, name in copies.items():
        shutil.copyfile(path, Path(path).with_name(name))


def _grow_old(lake: DemoLake) -> None:
    """Set back the times of all files, and the times that tables tell of themselves."""
    for path in map(Path, lake.files()):
        written = path.stat().st_mtime_ns
        if path.name.endswith(".metadata.json"):
            path.write_text(json.dumps(_earlier(json.loads(path.read_text()))))
        os.utime(path, ns=(written, written - _AGE // timedelta(microseconds=1) * 1000))


def _earlier(value: Any) -> Any:
    if isinstance(value, list):
        return [_earlier(item) for item in value]
    if not isinstance(value, dict):
        return value
    back = _AGE // timedelta(milliseconds=1)
    return {k: v - back if k in _MOMENTS else _earlier(v) for k, v in value.items()}


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """What reading one snapshot of a table gave; `what` are its branches and tags, if any."""

    table: str
    what: str
    rows: int
    sha256: str


def read_all(lake: DemoLake) -> dict[int, SnapshotContent]:
    """Every snapshot of every table, read to its last row by PyIceberg."""
    return {
        snapshot: reading
        for name, table in lake.tables().items()
        for snapshot, reading in _read(name, table)
    }


def prove_same(before: Mapping[int, SnapshotContent], after: Mapping[int, SnapshotContent]) -> None:
    """LakesweepError unless all that was read before reads the same."""
    if {snapshot: each.sha256 for snapshot, each in before.items()} != {
        snapshot: each.sha256 for snapshot, each in after.items()
    }:
        raise LakesweepError("the demo went wrong: tables do not read as they did before")


def prove_left(lake: DemoLake, kept: Mapping[str, str]) -> dict[str, int]:
    """How many files are left by reason; LakesweepError if that is too few or too many."""
    referenced = {path for table in lake.tables().values() for path in _referenced(table)}
    left = lake.files()
    if left != referenced | set(kept):
        odd = ", ".join(sorted(left ^ (referenced | set(kept))))
        raise LakesweepError(f"the demo went wrong: these files should be gone or there: {odd}")
    return {"referenced": len(referenced), **Counter(kept.values())}


def _read(name: str, table: Table) -> Iterator[tuple[int, SnapshotContent]]:
    for snapshot in table.snapshots():
        found = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        what = _names(table, snapshot.snapshot_id)
        yield snapshot.snapshot_id, SnapshotContent(name, what, found.num_rows, _hash(found))


def _names(table: Table, snapshot: int) -> str:
    refs = table.refs().items()
    names = [f"{ref.snapshot_ref_type} {name}" for name, ref in refs if ref.snapshot_id == snapshot]
    return ", ".join(names) or "older snapshot"


def _hash(rows: pa.Table) -> str:
    in_order = rows.sort_by([("id", "ascending"), ("region", "ascending")])
    return hashlib.sha256(repr(in_order.to_pydict()).encode()).hexdigest()


def _referenced(table: Table) -> Iterator[str]:
    """All that a table references, as PyIceberg tells it."""
    yield from table.inspect.all_files()["file_path"].to_pylist()
    yield from table.inspect.all_manifests()["path"].to_pylist()
    yield from (snapshot.manifest_list for snapshot in table.snapshots())
    yield from (entry.metadata_file for entry in table.metadata.metadata_log)
    yield table.metadata_location
