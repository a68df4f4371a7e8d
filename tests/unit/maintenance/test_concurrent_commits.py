"""Writers whose clocks are off by more than the grace time, or that stood still for as long."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakesweep.clock import ManualClock
from lakesweep.maintenance.run_records import MaintenanceRunInformation
from lakesweep.runs.records import RunStatus
from lakesweep.store import Realm
from lakesweep.store.backends.backend import SCAN_ROWS, Backend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import EVERY_ID, HeadPage, IdSpan
from lakesweep.store.backends.wrapper import BackendWrapper
from tests.libraries import open_store, shelve
from tests.maintained import Maintained, heads_reach, stored_ids
from tests.moments import NOON


class Meanwhile(BackendWrapper):
    """Something happens once, when all that stays was found and rows are about to be scanned."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.act: Callable[[], object] | None = None

    def scan_pages(
        self, realm: str, span: IdSpan = EVERY_ID, rows: int = SCAN_ROWS
    ) -> Iterator[HeadPage]:
        act, self.act = (None, self.act) if realm != "acme" else (self.act, None)
        if act is not None:
            act()
        return super().scan_pages(realm, span, rows)


@pytest.fixture
def backend() -> Meanwhile:
    return Meanwhile(MemoryBackend())


@pytest.fixture
def maintained(backend: Meanwhile) -> Maintained:
    maintained = Maintained(backend)
    realm = maintained.store.create_realm("acme")
    realm.references.create("main")
    shelve(realm, "main", ["one", "two"])
    shelve(realm, "main", ["three"])
    maintained.pass_grace()
    return maintained


def behind(backend: Backend) -> Realm:
    """The realm, to a process whose clock stands where it stood when all began."""
    return open_store(backend, ManualClock(NOON)).realm("acme")


def check(maintained: Maintained, run: MaintenanceRunInformation) -> None:
    """Nothing was deleted, and the run says why."""
    assert run.status is RunStatus.INCOMPLETE
    assert run.detailed_information.count("clock is wrong") == 1
    assert run.per_realm_per_obj_type_stats["acme"]
    purged = sum(each.purged for each in run.per_realm_per_obj_type_stats["acme"].values())
    assert purged == 0
    assert heads_reach(maintained.store.realm("acme")) <= stored_ids(maintained.backend, "acme")


def test_what_is_committed_meanwhile_by_a_clock_that_is_behind_stays(
    maintained: Maintained, backend: Meanwhile
) -> None:
    realm = behind(backend)
    backend.act = lambda: shelve(realm, "main", ["four"])
    check(maintained, maintained.maintain())
    # Next time it is found like all else.
    assert maintained.maintain().success
    assert stored_ids(backend, "acme") == heads_reach(realm)


def test_a_commit_of_a_right_clock_does_not_hide_one_before_it(
    maintained: Maintained, backend: Meanwhile
) -> None:
    wrong, right = behind(backend), maintained.open().realm("acme")

    def act() -> None:
        shelve(wrong, "main", ["four"])
        shelve(right, "main", ["five"])

    backend.act = act
    check(maintained, maintained.maintain())


def test_a_reference_that_is_created_and_filled_meanwhile_counts_too(
    maintained: Maintained, backend: Meanwhile
) -> None:
    realm = behind(backend)

    def act() -> None:
        realm.references.create("new")
        shelve(realm, "new", ["four"])

    backend.act = act
    check(maintained, maintained.maintain())


def test_a_reference_that_is_led_back_to_an_old_commit_stops_the_run(
    maintained: Maintained, backend: Meanwhile
) -> None:
    realm = maintained.open().realm("acme")
    main = realm.references.fetch("main")
    oldest = main.recent[-1]
    backend.act = lambda: realm.references.swap(main, oldest)
    check(maintained, maintained.maintain())


def test_commits_of_right_clocks_stop_nothing(maintained: Maintained, backend: Meanwhile) -> None:
    realm = maintained.open().realm("acme")
    backend.act = lambda: shelve(realm, "main", ["four"])
    run = maintained.maintain()
    assert (run.success, run.obj_stats.purged > 0) == (True, True)
    assert heads_reach(realm) <= stored_ids(backend, "acme")
