"""What one Iceberg table holds and could free, by its metadata.

The metadata file alone has the snapshots, the refs and the totals that writers left. Manifests say
the rest: they are read of all snapshots where that is little work, otherwise of the current one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow.compute as pc

from lakesweep.clock import moment
from lakesweep.errors import DamagedError, UnsupportedError
from lakesweep.iceberg.commits.table_handle import LoadedTable
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.metadata import TableMetadata, parse_metadata, read_file
from lakesweep.iceberg.rewrite.snapshot_draft import load_head
from lakesweep.storage.stores import Stores
from lakesweep.units import format_moment
from lakesweep.untrusted.documents import Long, decode_json, inflate_gzip, parse_long
from lakesweep.upkeep.dangling_deletes import plan_dangling
from lakesweep.upkeep.file_index import FileIndex
from lakesweep.upkeep.history import MAIN, HistorySnapshot, SnapshotHistory, parse_history
from lakesweep.upkeep.scan.table_figures import MeasuredBy, TableFigures
from lakesweep.upkeep.snapshot_retention import RetentionArguments, decide

ICEBERG = "iceberg"
#: Beyond this, a scan would take as long as the work that it is to find.
_MOST_LISTS = 200
_MOST_MANIFESTS = 1_000
#: Files are compared with deletes one by one.
_MOST_COMPARED = 50_000
#: Threads that read one table; several tables are read at once.
_WORKERS = 4


class _OfSnapshot(msgspec.Struct, rename="kebab"):
    snapshot_id: Long


class _Statistics(msgspec.Struct, rename="kebab"):
    statistics: list[_OfSnapshot] | None = None


@dataclass(frozen=True)
class _Content:
    """What the manifests of a table say."""

    measured_by: MeasuredBy
    figures: dict[str, Any]
    problem: str | None = None


def iceberg_figures(
    stores: Stores, table: str, path: str, *, now_ms: int, small_bytes: int
) -> TableFigures | None:
    """The figures of the table of a metadata file; None for a view."""
    data = read_file(stores, path)
    metadata = parse_metadata(path, data, limits=stores.limits)
    if not isinstance(metadata, TableMetadata):
        return None
    history = parse_history(path, data, stores.limits)
    try:
        overdue = len(decide(history, RetentionArguments(), now_ms).expiring)
        problem = None
    except DamagedError as error:
        overdue, problem = None, error.message
    content = _content(stores, metadata, history, small_bytes)
    content.figures.update(_dangling(stores, table, path, data, content))
    return TableFigures(
        table=table,
        format=ICEBERG,
        measured_by=content.measured_by,
        reason=problem or content.problem,
        metadata_bytes=metadata.size_bytes,
        metadata_log=len(metadata.log),
        snapshots=len(history.snapshots),
        overdue_snapshots=overdue,
        oldest_snapshot=_oldest(history),
        refs=len(history.refs),
        **content.figures,
        has_statistics=_has_statistics(path, data, stores, metadata),
        is_ever_expired=_is_ever_expired(history),
        folders=(metadata.location, *metadata.write_paths),
    )


def _content(
    stores: Stores, metadata: TableMetadata, history: SnapshotHistory, small_bytes: int
) -> _Content:
    """By all manifests, those of the current snapshot, or none: whatever is affordable."""
    if not history.snapshots:
        nothing = dict.fromkeys((*_FIGURES, *_OLD), 0)
        return _Content(MeasuredBy.ALL, dict(nothing))
    if history.is_encrypted:
        return _Content(MeasuredBy.SUMMARIES, _summarised(history), "its manifests are encrypted")
    current = [each for each in metadata.snapshots if each.id == metadata.current_snapshot]
    for snapshots, measured_by in (
        (metadata.snapshots, MeasuredBy.ALL),
        (tuple(current), MeasuredBy.CURRENT),
    ):
        if len(snapshots) > _MOST_LISTS:
            continue
        found = _read(stores, replace(metadata, snapshots=snapshots), history, small_bytes)
        if found is not None:
            figures, problem = found
            return _Content(measured_by, {**_summarised(history), **figures}, problem)
    return _Content(MeasuredBy.SUMMARIES, _summarised(history))


def _dangling(
    stores: Stores, table: str, path: str, data: bytes, content: _Content
) -> dict[str, int | None]:
    """Delete files that hide no row any more; unknown where that is too much to compare."""
    files, deletes = (content.figures.get(name) for name in ("data_files", "delete_files"))
    if deletes == 0:
        return {"dangling_deletes": 0, "dangling_bytes": 0}
    if content.problem or content.measured_by is MeasuredBy.SUMMARIES:
        return {}
    if files is None or files > _MOST_COMPARED:
        return {}
    document = RawDocument.parse(path, data, stores.limits)
    try:
        head = load_head(LoadedTable(table, path, document, stores))
    except UnsupportedError:
        return {}
    removed = [] if head is None else [each.removed for each in plan_dangling(head).written]
    sizes = [entry.facts.size_bytes for entries in removed for entry in entries]
    return {"dangling_deletes": len(sizes), "dangling_bytes": sum(sizes)}


_FIGURES = ("manifests", "data_files", "data_bytes", "small_files", "delete_files", "delete_bytes")
_OLD = ("old_files", "old_bytes")


def _read(
    stores: Stores, metadata: TableMetadata, history: SnapshotHistory, small_bytes: int
) -> tuple[dict[str, int | None], str | None] | None:
    """The figures of manifests; None if there are too many to read."""
    current = [each for each in metadata.snapshots if each.id == metadata.current_snapshot]
    with FileIndex(stores, workers=_WORKERS) as index:
        index.read_lists(metadata)
        if index.unread > _MOST_MANIFESTS:
            return None
        index.read_manifests()
        figures: dict[str, int | None] = dict.fromkeys(_FIGURES, 0)
        figures["manifests"] = index.count_manifests(current)
        for files in index.content(current):
            _add(figures, files, small_bytes)
        if len(metadata.snapshots) == len(history.snapshots):
            heads = {ref.snapshot_id for ref in history.refs.values()}
            owners = {each.id: int(each.id not in heads) for each in metadata.snapshots}
            old = index.held_alone(metadata.snapshots, {**owners}).get(1)
            figures["old_files"] = old.files if old else 0
            figures["old_bytes"] = old.size_bytes if old else 0
        problems = index.problems(metadata)
        return figures, str(problems[0]) if problems else None


def _add(figures: dict[str, int | None], files: Any, small_bytes: int) -> None:
    is_data = pc.equal(files["kind"], IcebergKind.DATA.value)
    data, deletes = files.filter(is_data), files.filter(pc.invert(is_data))
    small = pc.sum(pc.less(data["size_bytes"], small_bytes)).as_py()
    more = {
        "data_files": data.num_rows,
        "data_bytes": pc.sum(data["size_bytes"]).as_py(),
        "small_files": small,
        "delete_files": deletes.num_rows,
        "delete_bytes": pc.sum(deletes["size_bytes"]).as_py(),
    }
    for name, value in more.items():
        figures[name] = (figures[name] or 0) + (value or 0)


def _summarised(history: SnapshotHistory) -> dict[str, int | None]:
    """What the summaries of snapshots say, if they say it."""
    main = history.refs.get(MAIN)
    if main is None:
        return {}
    now = history.snapshots[main.snapshot_id]
    return {
        "data_files": _figure(now, "total-data-files"),
        "data_bytes": _figure(now, "total-files-size"),
        "delete_files": _figure(now, "total-delete-files"),
        "old_bytes": _removed_bytes(history, main.snapshot_id),
    }


def _removed_bytes(history: SnapshotHistory, head: int) -> int | None:
    """What commits removed since the oldest snapshot: older snapshots still hold it."""
    chain = list(history.ancestors(head))
    removed = [_removed(each) for each in chain[:-1]]
    known = [each for each in removed if each is not None]
    return sum(known) if len(known) == len(removed) else None


def _removed(snapshot: HistorySnapshot) -> int | None:
    size = _figure(snapshot, "removed-files-size")
    if size is not None:
        return size
    kinds = ("deleted-data-files", "removed-delete-files")
    return None if any(_figure(snapshot, kind) for kind in kinds) or not snapshot.summary else 0


def _figure(snapshot: HistorySnapshot, name: str) -> int | None:
    return parse_long(str((snapshot.summary or {}).get(name, "")))


def _oldest(history: SnapshotHistory) -> str | None:
    times: Iterable[int] = (each.timestamp_ms for each in history.snapshots.values())
    first = min(times, default=None)
    return None if first is None else format_moment(moment(first * 1000))


def _is_ever_expired(history: SnapshotHistory) -> bool | None:
    """Whether a snapshot is gone that another one came from; None without snapshots."""
    if not history.snapshots:
        return None
    known = history.snapshots
    return any(each.parent is not None and each.parent not in known for each in known.values())


def _has_statistics(path: str, data: bytes, stores: Stores, metadata: TableMetadata) -> bool:
    """Whether the current snapshot has statistics, of columns or of partitions."""
    content = inflate_gzip(path, data, stores.limits)
    found = decode_json(path, content, _Statistics, "Iceberg metadata")
    return any(each.snapshot_id == metadata.current_snapshot for each in found.statistics or ())
