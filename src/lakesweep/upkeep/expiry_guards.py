"""Guards of an expiry: what looks more like a mistake than like upkeep.

Reachability is exact, so none of them doubts which files are free. They doubt the request: once
old snapshots are gone, a table that was emptied by mistake cannot be rolled back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lakesweep.errors import RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.sweep.guards import MIN_FILES, Guard
from lakesweep.untrusted.documents import parse_long
from lakesweep.upkeep.history import MAIN, HistorySnapshot
from lakesweep.upkeep.snapshot_retention import RetentionDecision

#: Compaction alone frees most files of a table; this much is hardly ever meant.
MAX_FREED_SHARE = 0.95
#: The current rows, as a share of those that a snapshot had which expires.
MIN_ROWS_LEFT = 0.5


def check_expiry(decision: RetentionDecision, freed: int, reached: int) -> Iterator[Guard]:
    """The guards that fail; `freed` of `reached` data and delete files would be deleted."""
    if reached >= MIN_FILES and freed > MAX_FREED_SHARE * reached:
        yield Guard(
            GuardName.SHARE,
            f"{freed:,} of the {reached:,} data and delete files of the table would be deleted",
        )
    if freed >= MIN_FILES:
        yield from _check_rows(decision)


def refuse_expiry(guards: Collection[Guard], overrides: Collection[str], table: str) -> None:
    """RefusedError for the guards that fail and are not overridden."""
    failed = [guard for guard in guards if guard.name not in overrides]
    if failed:
        raise RefusedError(
            failed[0].name,
            [f"{table}: {guard.message}" for guard in failed],
            hint="look at it with --dry-run, then: run the same command",
            overrides=[guard.name for guard in failed],
        )


def _check_rows(decision: RetentionDecision) -> Iterator[Guard]:
    history = decision.history
    main = history.refs.get(MAIN)
    now = None if main is None else _rows(history.snapshots[main.snapshot_id])
    expiring = (_rows(history.snapshots[each.id]) for each in decision.expiring)
    most = max((rows for rows in expiring if rows is not None), default=0)
    if now is not None and now < MIN_ROWS_LEFT * most:
        yield Guard(
            GuardName.LIVE_FELL,
            f"the table has {now:,} rows now, and had {most:,} in a snapshot that would expire:"
            " afterwards it cannot be rolled back",
        )


def _rows(snapshot: HistorySnapshot) -> int | None:
    return parse_long(str((snapshot.summary or {}).get("total-records", "")))
