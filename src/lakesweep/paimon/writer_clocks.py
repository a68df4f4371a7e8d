"""How far behind the clocks of writers look, if they are taken for those of a zone.

Entries say when their files were made, by the clock on the wall of whoever wrote them. Snapshots
say when they were committed, in a time that is the same everywhere. A commit comes shortly after
the last of its files. So where files look hours older than their commits, they were written in
another zone, further west, and are younger than they look.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice

import pyarrow.compute as pc

from lakesweep.errors import MissingError
from lakesweep.paimon.entries import ADD
from lakesweep.paimon.naming import manifests_of, read_entries
from lakesweep.paimon.partition_times import update_time
from lakesweep.paimon.snapshots import Snapshot
from lakesweep.paimon.table import Branch
from lakesweep.paimon.tag_expiry import ZONES_APART

#: So many commits that added files are asked, of so many at most that are looked at.
_COMMITS, _LOOKS = 3, 20
#: Zones differ by quarters of an hour; less is the time that a commit takes.
_LEAST = timedelta(minutes=15)


def clock_lag(branch: Branch, zone: tzinfo) -> timedelta:
    """By how many minutes files look older than their commits, the newest; 0 if they do not."""
    lag = min(islice(_lags(branch, zone), _COMMITS), default=timedelta())
    minutes = -(-lag // timedelta(minutes=1))
    return min(timedelta(minutes=minutes), ZONES_APART) if lag >= _LEAST else timedelta()


def _lags(branch: Branch, zone: tzinfo) -> Iterator[timedelta]:
    for number in reversed(branch.snapshot_ids()[-_LOOKS:]):
        with suppress(MissingError):  # it has expired
            snapshot = branch.snapshot(number)
            made = update_time(_newest_millis(branch, snapshot)).time
            if made is not None:
                yield _moment(snapshot) - made.replace(tzinfo=zone)


def _newest_millis(branch: Branch, snapshot: Snapshot) -> int | None:
    """When the newest file was made that a snapshot adds; None where it adds none."""
    name, size = snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    newest = [
        pc.max(batch["creation_time"].filter(pc.equal(batch["kind"], ADD))).as_py()
        for manifest in manifests_of(branch.table, name, size)
        if manifest.added
        for batch in read_entries(branch.table, manifest, embedded_indexes=False)
    ]
    return max((millis for millis in newest if millis is not None), default=None)


def _moment(snapshot: Snapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.time_millis / 1000, UTC)
