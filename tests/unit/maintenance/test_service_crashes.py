from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from lakesweep.maintenance.engine import LocalEngine, ScanReport
from lakesweep.maintenance.row_scan import RowScan
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM
from lakesweep.runs.records import RunStatus
from lakesweep.store.backends.backend import SCAN_ROWS, Backend
from lakesweep.store.backends.rows import EVERY_ID, HeadPage, IdSpan
from lakesweep.store.backends.wrapper import BackendWrapper
from lakesweep.store.realms.registry import RealmStatus
from tests.libraries import Page, Shelf, commit, shelve
from tests.maintained import HEADS_ONLY, Killed, Maintained, Mortal, heads_reach, stored_ids

_CONFIG = replace(HEADS_ONLY, scan_workers=1, delete_batch_size=1)
#: Not behind every single call, but behind some of each kind.
_STEP = 5


class Counting(BackendWrapper):
    """Counts how many spans of the realm are scanned."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.scans = 0

    def scan_pages(
        self, realm: str, span: IdSpan = EVERY_ID, rows: int = SCAN_ROWS
    ) -> Iterator[HeadPage]:
        self.scans += realm == "acme"
        return super().scan_pages(realm, span, rows)


def _begun() -> Maintained:
    """A store with all that maintenance has to do: rubbish, old commits, a realm to purge."""
    maintained = Maintained(config=_CONFIG)
    realm = maintained.store.create_realm("acme")
    realm.references.create("main")
    shelve(realm, "main", [f"book {number}" for number in range(12)])
    shelve(realm, "main", ["another"])
    commit(realm, "main", lambda _: Shelf())
    realm.objects.write(realm.new_id(), Page("x" * 800_000))
    shelve(realm, "main", ["the only one"])
    gone = maintained.store.create_realm("gone")
    gone.objects.write(gone.new_id(), Page("gone"))
    realms = maintained.store.realms
    inactive = realms.move(realms.get("gone"), RealmStatus.INACTIVE)
    realms.move(inactive, RealmStatus.PURGING)
    maintained.pass_grace()
    return maintained


def _dies(maintained: Maintained, calls: int) -> bool:
    """Whether a run dies behind so many calls to the database."""
    mortal = Maintained(Mortal(maintained.backend, calls), _CONFIG, maintained.clock)
    try:
        mortal.maintain()
    except Killed:
        return True
    return False


def test_wherever_a_run_dies_nothing_is_lost_and_the_next_one_finishes() -> None:
    calls = 0
    while True:
        maintained = _begun()
        realm = maintained.store.realm("acme")
        wanted = heads_reach(realm)
        if not _dies(maintained, calls):
            break
        assert heads_reach(realm) == wanted
        maintained.clock.sleep((LEASE_TERM + CLOCK_MARGIN).total_seconds() + 1)
        run = maintained.maintain()
        assert run.status is RunStatus.DONE, run.detailed_information
        assert heads_reach(realm) == wanted == stored_ids(maintained.backend, "acme")
        assert maintained.store.realms.get("gone").status is RealmStatus.PURGED
        assert not stored_ids(maintained.backend, "gone")
        calls += _STEP
    assert calls > 10 * _STEP


def test_a_run_that_dies_is_gone_on_with_where_it_was_last_written_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakesweep.maintenance.run_tally.CHECKPOINT_SECONDS", 0.0)
    skipped = 0
    calls = 0
    while _dies(maintained := _begun(), calls):
        counted = Counting(maintained.backend)
        again = Maintained(counted, _CONFIG, maintained.clock)
        again.clock.sleep((LEASE_TERM + CLOCK_MARGIN).total_seconds() + 1)
        run = again.maintain()
        skipped += run.resumes is not None and counted.scans < 16
        assert stored_ids(maintained.backend, "acme") == heads_reach(again.store.realm("acme"))
        calls += 10 * _STEP
    assert skipped


def test_what_a_run_scanned_that_could_not_delete_is_scanned_again() -> None:
    maintained = _begun()
    full = replace(_CONFIG, filter_bytes=1)
    weak = replace(maintained.service, config=full, engine=_Stopped(1))
    with pytest.raises(KeyboardInterrupt):
        weak.perform(weak.build_spec())
    maintained.clock.sleep(1)
    assert maintained.maintain().resumes is None
    assert stored_ids(maintained.backend, "acme") == heads_reach(maintained.store.realm("acme"))


class _Stopped(LocalEngine):
    """Scans one realm, and is stopped then."""

    def scan(self, scan: RowScan, spans: Sequence[IdSpan], report: ScanReport) -> None:
        super().scan(scan, spans, report)
        raise KeyboardInterrupt
