"""Add garbage of every kind to the demo lake, and files that only look like garbage."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow.parquet as pq

from lakesweep.demo.lake import DemoLake, rows

if TYPE_CHECKING:
    from pyiceberg.table import Table

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
