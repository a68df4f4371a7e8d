"""`lakesweep store maintain` from the command line, over SQLite."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.maintenance.run_records import TYPES, MaintenanceRuns
from lakesweep.runs.leases import take_lease
from lakesweep.runs.records import LeaseRecord
from lakesweep.store import Realm, Store
from tests.command import Lakesweep

_LEASE = LeaseRecord(token=0, run="", holder="", expires_at=0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def lakesweep(
    tmp_path: Path, file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Lakesweep:
    """A store with three old objects to which nothing leads."""
    monkeypatch.delenv("LAKESWEEP_CONFIG", raising=False)
    config = tmp_path / "lakesweep.toml"
    config.write_text(f'[store]\nurl = "sqlite:///{file}"\n')
    lakesweep = Lakesweep(capfd, config)
    assert lakesweep("store", "init").code == 0
    clock = ManualClock(SystemClock().now() - timedelta(days=1))
    with _open(file, clock) as store:
        realm = store.realm("default")
        for _ in range(3):
            realm.objects.write(realm.new_id(), _LEASE)
    return lakesweep


def _open(file: Path, clock: ManualClock | None = None) -> Store:
    return Store.open(f"sqlite:///{file}", types=TYPES, clock=clock)


def _rows(realm: Realm) -> int:
    return sum(1 for _ in realm.backend.scan_rows(realm.name))


def _count(file: Path) -> int:
    with _open(file) as store:
        return _rows(store.realm("default"))


def test_a_dry_run_tells_what_a_run_then_does(lakesweep: Lakesweep, file: Path) -> None:
    dry = lakesweep("store", "maintain", "--dry-run").document
    assert (dry["dry_run"], dry["obj_stats"]["unreferenced"]) == (True, 3)
    assert dry["obj_stats"]["purged"] == 0
    assert _count(file) == 3
    done = lakesweep("store", "maintain", "--yes")
    assert done.code == 0
    types = done.document["per_realm_per_obj_type_stats"]["default"]
    assert types["sweep-lease"]["purged"] == 3
    assert _count(file) == 0


def test_nothing_is_deleted_without_consent(lakesweep: Lakesweep, file: Path) -> None:
    done = lakesweep("store", "maintain")
    assert done.code == 3
    assert "no terminal" in done.error["message"]
    assert _count(file) == 3


def test_the_run_is_shown_by_info_and_among_the_runs(lakesweep: Lakesweep) -> None:
    assert lakesweep("store", "info").document["maintenance"] is None
    run = lakesweep("store", "maintain", "--yes").document["run"]
    assert lakesweep("store", "info").document["maintenance"]["run"] == run
    assert [line["run"] for line in lakesweep("runs").lines] == [run]
    assert lakesweep("runs", run).document["obj_stats"]["purged"] == 3
    table = lakesweep("runs", run, json=False).out
    assert "sweep-lease" in table
    assert "unreferenced" in table


def test_a_run_under_way_is_left_alone_unless_it_is_superseded(
    lakesweep: Lakesweep, file: Path
) -> None:
    with _open(file) as store:
        clock = SystemClock()
        runs = MaintenanceRuns(store.system, clock, 5)
        other = take_lease(
            store.system, clock, "the store", runs.lease(), "maintain-1", "elsewhere"
        )
        done = lakesweep("store", "maintain", "--yes")
        assert done.code == 5
        assert "maintain-1" in done.error["message"]
        assert lakesweep("store", "maintain", "--yes", "--supersede", "maintain-1").code == 0
        assert _rows(store.realm("default")) == 0
        with pytest.raises(Exception, match="no longer holds"):
            other.renew()


def test_what_could_not_be_done_ends_with_code_4(lakesweep: Lakesweep, file: Path) -> None:
    with _open(file) as store:
        store.realm("default").references.create("main", pointer=7)
    done = lakesweep("store", "maintain", "--yes", json=False)
    assert done.code == 4
    assert "realm default: the head 7 of reference 'main' is missing" in done.err
    assert _count(file) == 3
    assert lakesweep("runs").lines[0]["status"] == "incomplete"


def test_only_the_named_realms_are_maintained(lakesweep: Lakesweep) -> None:
    assert lakesweep("realm", "create", "acme").code == 0
    run = lakesweep("store", "maintain", "--realm", "acme", "--no-system-realm", "--yes").document
    assert run["per_realm_reference_stats"].keys() == {"acme"}
    run = lakesweep("store", "maintain", "--realm", "default", "--dry-run").document
    assert run["per_realm_reference_stats"].keys() == {"default", "::system::"}
    assert run["obj_stats"]["unreferenced"] == 3
    assert run["identified_objs"] >= run["distinct_objs"] > 0
    assert run["identified_references"] >= run["distinct_references"] > 0


def test_realms_in_the_wrong_state_are_refused_before_anything_happens(
    lakesweep: Lakesweep,
) -> None:
    assert lakesweep("store", "maintain", "--realm", "none", "--yes").code == 6
    refused = lakesweep("store", "maintain", "--purge-realm", "default", "--yes")
    assert (refused.code, "not purging" in refused.error["message"]) == (3, True)


def test_another_database_is_cleaned_in_place_of_the_configured_one(
    lakesweep: Lakesweep, file: Path, tmp_path: Path
) -> None:
    url = ("--url", f"sqlite:///{tmp_path / 'other.db'}")
    assert lakesweep("store", "init", *url).code == 0
    assert lakesweep("store", "maintain", "--yes", *url).document["obj_stats"]["purged"] == 0
    assert _count(file) == 3
