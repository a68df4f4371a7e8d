"""Prove that every snapshot still reads the same and that no other files are left."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesweep.errors import LakesweepError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from lakesweep.demo.lake import DemoLake


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
