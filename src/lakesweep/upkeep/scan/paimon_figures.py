"""What one Paimon table holds, as far as its metadata have the same figures as Iceberg's.

Delete files have no counterpart, and statistics are part of a snapshot.
"""

from __future__ import annotations

from datetime import datetime

import pyarrow.compute as pc

from lakesweep.clock import moment
from lakesweep.marks.unreadable import Tolerant
from lakesweep.paimon.expire.retention import first_kept_snapshot, snapshot_retention
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.live_files import live_entries
from lakesweep.paimon.reach.walk import reached_files
from lakesweep.storage.stores import Stores
from lakesweep.units import format_moment
from lakesweep.upkeep.scan.table_figures import MeasuredBy, TableFigures

PAIMON = "paimon"
#: Beyond this many snapshots, only the newest one is read.
_MOST_SNAPSHOTS = 200
_WORKERS = 4


def paimon_figures(stores: Stores, folder: str, *, now: datetime, small_bytes: int) -> TableFigures:
    """The figures of the table in a folder."""
    table = PaimonTable.open(stores, folder, threads=_WORKERS)
    main = table.main
    ids = main.snapshot_ids()
    latest = main.snapshot(ids[-1]) if ids else None
    files, size, small = _current(table, latest, small_bytes)
    old_bytes, problem = None, None
    if len(ids) <= _MOST_SNAPSHOTS:
        reached, problem = _reached_bytes(table)
        old_bytes = max(0, reached - size)
    return TableFigures(
        table=folder,
        format=PAIMON,
        measured_by=MeasuredBy.CURRENT if old_bytes is None else MeasuredBy.ALL,
        reason=problem,
        snapshots=len(ids),
        overdue_snapshots=_overdue(table, ids, now),
        oldest_snapshot=_time(main.snapshot(ids[0])) if ids else None,
        refs=len(main.tag_files()) + len(table.branches()),
        data_files=files,
        data_bytes=size,
        small_files=small,
        old_bytes=old_bytes,
        has_statistics=None if latest is None else latest.statistics is not None,
        is_ever_expired=None if not ids else ids[0] > 1,
        folders=(folder, *table.external_roots),
    )


def _current(
    table: PaimonTable, latest: PaimonSnapshot | None, small_bytes: int
) -> tuple[int, int, int]:
    """The data files of the newest snapshot, their bytes, and how many are small."""
    files = size = small = 0
    for entries in [] if latest is None else live_entries(table.main, latest, workers=_WORKERS):
        files += entries.num_rows
        size += pc.sum(entries["size_bytes"]).as_py() or 0
        small += pc.sum(pc.less(entries["size_bytes"], small_bytes)).as_py() or 0
    return files, size, small


def _reached_bytes(table: PaimonTable) -> tuple[int, str | None]:
    """The bytes of all data files that the table reaches, and the first problem."""
    tolerance, size = Tolerant(), 0
    for batch in reached_files(table, tolerance, workers=_WORKERS):
        data = batch.filter(pc.equal(batch["kind"], PaimonKind.DATA.value))
        size += pc.sum(data["size_bytes"]).as_py() or 0
    problems = tolerance.problems
    return size, str(problems[0]) if problems else None


def _overdue(table: PaimonTable, ids: list[int], now: datetime) -> int:
    main = table.main
    consumers = [each.next_snapshot for each in main.consumers()]
    retention = snapshot_retention(table.options, now)
    first = first_kept_snapshot(
        ids, retention, lambda number: main.snapshot(number).time_millis, consumers
    )
    return sum(each < (first or 0) for each in ids)


def _time(snapshot: PaimonSnapshot) -> str:
    return format_moment(moment(snapshot.time_millis * 1000))
