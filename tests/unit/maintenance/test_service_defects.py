"""Each of these is a mistake that another implementation made; none may be ours."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from lakesweep.clock import micros
from lakesweep.errors import LeaseHeldError
from lakesweep.maintenance.engine import LocalEngine, ScanReport
from lakesweep.maintenance.maintained_realms import MaintenanceRunSpec
from lakesweep.maintenance.plugin_api import Collector, Plugin
from lakesweep.maintenance.plugins import OwnsNothing
from lakesweep.maintenance.row_scan import RowScan
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM
from lakesweep.runs.records import RunStatus
from lakesweep.store import BYTES, LINKS, Link, Realm
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.rows import IdSpan, ObjectHead, ObjectRow, Reference, RowKey
from lakesweep.store.backends.wrapper import BackendWrapper
from lakesweep.store.commits.log import LogRetention
from lakesweep.store.commits.references import moved
from lakesweep.store.realms.reachability import ReachabilityWalk
from lakesweep.store.realms.registry import RealmStatus
from tests.asked_backend import AskedBackend
from tests.libraries import ENTRIES, Page, Shelf, commit, fill, shelve
from tests.maintained import HEADS_ONLY, Killed, Maintained, Mortal, heads_reach, stored_ids


def _rows(backend: Backend, realm: str = "acme") -> set[tuple[int, int]]:
    return {(head.id, head.part) for head in backend.scan_rows(realm)}


def _write(realm: Realm, text: str = "rubbish") -> int:
    return realm.objects.write(realm.new_id(), Page(text)).id


# a: a realm that is not to be purged is wiped, because somebody named it.


@pytest.mark.parametrize("status", [RealmStatus.ACTIVE, RealmStatus.INACTIVE])
def test_a_realm_goes_only_if_its_state_says_so(status: RealmStatus) -> None:
    maintained = Maintained()
    fill(maintained.store)
    realms = maintained.store.realms
    if status is RealmStatus.INACTIVE:
        realms.move(realms.get("acme"), status)
    before = _rows(maintained.backend)
    spec = MaintenanceRunSpec(realms_to_purge=frozenset({"acme"}))
    run = maintained.service.perform(spec)
    assert _rows(maintained.backend) == before
    assert realms.get("acme").status is status
    assert (run.status, run.purged_realms, run.realms_purged) == (RunStatus.INCOMPLETE, 0, ())
    assert f"realm acme is {status}, not purging" in run.status_message


def test_a_realm_that_is_closed_during_the_run_is_left_alone() -> None:
    maintained = Maintained()
    realm = fill(maintained.store)
    _write(realm)
    maintained.pass_grace()
    before = _rows(maintained.backend)

    class Closing(LocalEngine):
        def scan(self, scan: RowScan, spans: Collection[IdSpan], report: ScanReport) -> None:
            realms = maintained.store.realms
            if realms.get("acme").status is RealmStatus.ACTIVE:
                inactive = realms.move(realms.get("acme"), RealmStatus.INACTIVE)
                realms.move(inactive, RealmStatus.PURGING)
                maintained.clock.sleep(6)
            super().scan(scan, list(spans), report)

    service = replace(maintained.service, engine=Closing(1))
    run = service.perform(service.build_spec())
    assert run.status is RunStatus.INCOMPLETE
    assert "realm acme is purging" in run.status_message
    assert _rows(maintained.backend) == before


# b: stripes of indexes are taken for unused.


def test_spilled_indexes_can_be_read_to_the_last_key() -> None:
    maintained = Maintained()
    realm = fill(maintained.store)
    maintained.pass_grace()
    run = maintained.maintain()
    assert run.per_realm_per_obj_type_stats["acme"]["index-node"].retained >= 6
    assert run.per_realm_per_obj_type_stats["acme"]["index-node"].purged >= 1
    head = maintained.open().realm("acme").head("main", Shelf)
    assert head is not None
    fresh = maintained.open().realm("acme")
    assert sum(1 for _ in fresh.index(head.value.books, LINKS).items()) == 120
    assert sum(1 for _ in fresh.index(head.value.blobs, BYTES).items()) == 120
    assert sum(1 for _ in fresh.index(head.value.entries, ENTRIES).items()) == 120
    assert stored_ids(maintained.backend, realm.name) == heads_reach(realm)


# c: of an object in parts, some are left, and counted as gone.


@pytest.mark.parametrize("batch", [1, 2, 1_000])
def test_all_parts_of_an_object_go_together(batch: int) -> None:
    maintained = Maintained(config=replace(HEADS_ONLY, delete_batch_size=batch))
    realm = maintained.store.create_realm("acme")
    _write(realm, "x" * 1_000_000)
    _write(realm, "y" * 1_000_000)
    maintained.pass_grace()
    run = maintained.maintain()
    assert run.per_realm_per_obj_type_stats["acme"]["page"].purged == 6
    assert _rows(maintained.backend) == set()


def test_parts_of_a_longer_write_before_go_and_the_object_stays() -> None:
    maintained = Maintained()
    realm = maintained.store.create_realm("acme")
    number = _write(realm, "x" * 1_000_000)
    commit(realm, "root", lambda _: Shelf(first=Link(number)))
    maintained.clock.sleep(1)
    realm.objects.write(number, Page("y" * 400_000))
    maintained.pass_grace()
    run = maintained.maintain()
    stats = run.per_realm_per_obj_type_stats["acme"]["page"]
    assert (stats.scanned, stats.retained, stats.purged) == (3, 2, 1)
    assert {part for each, part in _rows(maintained.backend) if each == number} == {0, 1}
    found = maintained.open().realm("acme").objects.fetch(number, Page)
    assert found is not None
    assert found.value.text == "y" * 400_000


def test_parts_without_a_first_one_go() -> None:
    maintained = Maintained()
    realm = maintained.store.create_realm("acme")
    number = _write(realm, "x" * 1_000_000)
    maintained.backend.delete("acme", [RowKey(number)])
    maintained.pass_grace()
    assert maintained.maintain().obj_stats.purged >= 2
    assert _rows(maintained.backend) == set()


# d: filters that are too full, and a run that says it deleted what it did not.


def test_with_filters_that_are_too_full_nothing_is_deleted_and_the_run_says_so() -> None:
    maintained = Maintained(config=replace(HEADS_ONLY, filter_bytes=512))
    fill(maintained.store)
    maintained.pass_grace()
    before = _rows(maintained.backend)
    run = maintained.maintain()
    assert run.status is RunStatus.INCOMPLETE
    assert not run.success
    assert "too full" in run.status_message
    assert run.obj_stats.purged == 0
    assert _rows(maintained.backend) == before
    assert maintained.service.run_log()[0].status is RunStatus.INCOMPLETE
    maintained.config = HEADS_ONLY
    maintained.clock.sleep(1)
    assert maintained.maintain().obj_stats.purged >= 1


# e: what was written again between the scan and the delete is deleted.


class _Rewriting(BackendWrapper):
    """Whatever is about to be deleted, somebody writes again at that moment."""

    def __init__(self, backend: Backend, maintained: Maintained) -> None:
        super().__init__(backend)
        self._maintained = maintained

    def delete_expected(self, realm: str, expected: Collection[ObjectHead]) -> int:
        now = micros(self._maintained.clock.now())
        again = [ObjectRow(*head[:3], now, head.token, b"again") for head in expected]
        self._backend.write(realm, again)
        return super().delete_expected(realm, expected)


def test_a_row_that_is_written_again_before_it_is_deleted_stays() -> None:
    maintained = Maintained()
    realm = maintained.store.create_realm("acme")
    numbers = {_write(realm) for _ in range(3)}
    maintained.pass_grace()
    memory = maintained.backend
    maintained.backend = _Rewriting(memory, maintained)
    maintained.store = maintained.open()
    run = maintained.maintain()
    assert stored_ids(memory, "acme") == numbers
    stats = run.per_realm_per_obj_type_stats["acme"]["page"]
    assert (stats.unreferenced, stats.purged, stats.failed) == (3, 0, 0)


class _OwnsTemporary:
    """Nobody needs references that begin with tmp/."""

    def owns(self, reference: str) -> bool:
        return reference.startswith("tmp/")

    def identify(self, collector: Collector) -> bool:
        del collector
        return False


class _Moving(BackendWrapper):
    """A reference that is about to be deleted is moved at that moment."""

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        self._backend.update_reference(realm, moved(expected, 7), expected)
        return super().delete_reference(realm, expected)


@pytest.mark.parametrize(("wrapper", "purged"), [(BackendWrapper, 1), (_Moving, 0)])
def test_a_reference_that_nobody_wants_goes_unless_it_moves(
    wrapper: type[BackendWrapper], purged: int
) -> None:
    maintained = Maintained()
    maintained.plugins = [*maintained.plugins, Plugin("tmp", realms=(_OwnsTemporary(),))]
    realm = maintained.store.create_realm("acme")
    for name in ("tmp/1", "other"):
        realm.references.create(name)
    maintained.pass_grace()
    realm.references.create("tmp/2")
    maintained.backend = wrapper(maintained.backend)
    maintained.store = maintained.open()
    run = maintained.maintain()
    stats = run.per_realm_reference_stats["acme"]
    assert (stats.unreferenced, stats.purged, stats.newer) == (1, purged, 1)
    left = {reference.name for reference in realm.references.list()}
    assert {"other", "tmp/2", "root"} <= left
    assert ("tmp/1" in left) == (not purged)


# f: a run that died blocks all others, and one that was superseded goes on.


def test_a_run_that_died_is_taken_over_when_its_lease_has_ended() -> None:
    maintained = Maintained()
    realm = fill(maintained.store)
    maintained.pass_grace()
    alive = maintained.backend
    maintained.backend = Mortal(alive, 60)
    maintained.store = maintained.open()
    with pytest.raises(Killed):
        maintained.maintain()
    maintained.backend = alive
    maintained.store = maintained.open()
    with pytest.raises(LeaseHeldError, match="the store is being worked on by maintain-"):
        maintained.maintain()
    maintained.clock.sleep((LEASE_TERM + CLOCK_MARGIN).total_seconds() + 1)
    assert maintained.maintain().success
    assert [run.status for run in maintained.service.run_log()] == [RunStatus.DONE, RunStatus.DEAD]
    assert stored_ids(alive, "acme") == heads_reach(realm)


def test_a_run_that_is_superseded_deletes_nothing_more() -> None:
    maintained = Maintained()
    realm = fill(maintained.store)
    _write(realm)
    maintained.pass_grace()
    before = _rows(maintained.backend)

    class Superseded(LocalEngine):
        """Before it scans, another process takes the lease."""

        def scan(self, scan: RowScan, spans: Collection[IdSpan], report: ScanReport) -> None:
            other = Maintained(maintained.backend, clock=maintained.clock)
            name = maintained.service.run_log()[0].run
            maintained.clock.sleep(6)
            spec = MaintenanceRunSpec(include_system_realm=False)
            assert other.service.perform(spec, supersede=name).success
            super().scan(scan, list(spans), report)

    service = replace(maintained.service, engine=Superseded(1))
    with pytest.raises(LeaseHeldError):
        service.perform(service.build_spec())
    assert _rows(maintained.backend) == before
    statuses = [run.status for run in maintained.service.run_log()]
    assert sorted(statuses) == [RunStatus.DEAD, RunStatus.DONE]


# g: what was the head a second ago goes at once, because it was made long ago.


def test_what_was_the_head_within_the_grace_time_can_still_be_read() -> None:
    maintained = Maintained()
    realm = maintained.store.create_realm("acme")
    realm.references.create("main")
    shelve(realm, "main", ["oldest"])
    maintained.pass_grace()
    old = shelve(realm, "main", ["old"])
    seen = heads_reach(realm)
    maintained.clock.sleep(24 * 3600)
    shelve(realm, "main", ["new"])
    maintained.clock.sleep(1)
    maintained.maintain()
    assert old in seen <= stored_ids(maintained.backend, "acme")
    maintained.pass_grace()
    maintained.maintain()
    assert old not in stored_ids(maintained.backend, "acme")
    assert stored_ids(maintained.backend, "acme") == heads_reach(realm)


# i: each commit that is kept has its whole index read again, and counted again.


def test_what_commits_share_is_read_and_counted_once() -> None:
    maintained = Maintained(config=replace(HEADS_ONLY, keep_commits=30))
    realm = maintained.store.create_realm("acme")
    realm.references.create("main")
    shelve(realm, "main", [f"book {number:03d}" for number in range(40)])
    for number in range(20):
        shelve(realm, "main", [f"new {number}"])
    maintained.pass_grace()
    distinct = len(stored_ids(maintained.backend, "acme"))
    asked = AskedBackend(maintained.backend)
    maintained.backend = asked
    maintained.store = maintained.open()
    spec = MaintenanceRunSpec(frozenset({"acme"}), include_system_realm=False)
    run = maintained.service.perform(spec, dry_run=True)
    assert run.distinct_objs == distinct
    assert asked.asked["rows"] < distinct + 50


# j: the size of the filters is told in words, and called bytes.


def test_the_size_of_filters_is_told_in_bytes() -> None:
    maintained = Maintained()
    maintained.store.create_realm("acme")
    figures = maintained.maintain().filters
    assert figures is not None
    # 1,000 references and 100,000 objects at 28 to 40 bits each.
    assert 101_000 * 24 / 8 < figures.size_bytes < 101_000 * 40 / 8


# k: a registration that had to be tried again leads to a run that was never written.


@pytest.mark.parametrize(
    "fault", [BackendFault.LOSE_ANSWER, BackendFault.LOSE_REQUEST, BackendFault.REFUSE]
)
def test_a_run_is_registered_whatever_befalls_its_first_try(fault: BackendFault) -> None:
    left = {"update_reference": 3, "write": 2}

    def choose(method: str) -> BackendFault:
        left[method] = left.get(method, 0) - 1
        return fault if left[method] == 0 else BackendFault.NONE

    maintained = Maintained()
    maintained.store.create_realm("acme")
    maintained.backend = FaultyBackend(maintained.backend, choose, maintained.clock)
    maintained.store = maintained.open()
    run = maintained.maintain()
    assert maintained.service.run_log() == [run]
    assert run.success


# l: with history kept, earlier versions of what has the same name are not.


def test_all_that_kept_commits_lead_to_stays() -> None:
    maintained = Maintained(config=replace(HEADS_ONLY, keep_commits=3))
    realm = maintained.store.create_realm("acme")
    realm.references.create("main")
    for _ in range(6):
        shelve(realm, "main", ["same"])
        maintained.clock.sleep(1)
    maintained.pass_grace()

    def kept() -> set[int]:
        walk = ReachabilityWalk(realm, lambda _: LogRetention(3))
        return {found.id for found in walk.reach(list(realm.references.list()))}

    before = kept()
    maintained.maintain()
    assert kept() == before == stored_ids(maintained.backend, "acme")
    assert [each.value.seq for each in realm.log("main")] == [6, 5, 4]


# Besides: what nobody knows is left alone.


def test_objects_of_unknown_types_stay() -> None:
    maintained = Maintained()
    realm = maintained.store.create_realm("acme")
    now = micros(maintained.clock.now())
    row = ObjectRow(realm.new_id(), 0, "from-the-future", now, None, b"?")
    maintained.backend.write("acme", [row])
    maintained.pass_grace()
    run = maintained.maintain()
    assert run.per_realm_per_obj_type_stats["acme"]["from-the-future"].retained == 1
    assert stored_ids(maintained.backend, "acme") == {row.id}


def test_a_realm_that_no_identifier_knows_is_left_alone() -> None:
    maintained = Maintained(plugins=[Plugin("nobody", realms=(_Nobody(),))])
    realm = maintained.store.create_realm("acme")
    number = _write(realm)
    maintained.pass_grace()
    run = maintained.maintain()
    assert run.status is RunStatus.INCOMPLETE
    assert "no plug-in knows what it contains" in run.status_message
    assert stored_ids(maintained.backend, "acme") == {number}


class _Nobody(OwnsNothing):
    def identify(self, collector: Collector) -> bool:
        del collector
        return False
