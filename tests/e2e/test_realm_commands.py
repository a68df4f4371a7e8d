"""`lakesweep realm` from the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lakesweep.clock import SystemClock
from lakesweep.maintenance.run_records import TYPES as MAINTENANCE_TYPES
from lakesweep.maintenance.run_records import MaintenanceRuns
from lakesweep.runs.leases import take_lease
from lakesweep.store import Store
from lakesweep.store.backends.rows import ObjectRow
from lakesweep.store.realms.registry import RealmStatus
from tests.command import Lakesweep
from tests.database_servers import DatabaseServer
from tests.stores import Note, Paper, add

TYPES: dict[str, Any] = {"note": Note, "paper": Paper}


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/store.db"
    Store.create_tables(url)
    return url


@pytest.fixture
def lakesweep(
    tmp_path: Path, url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Lakesweep:
    for name in list(os.environ):
        if name.startswith("LAKESWEEP_"):
            monkeypatch.delenv(name)
    config = tmp_path / "lakesweep.toml"
    config.write_text(f'[store]\nurl = "{url}"\n')
    return Lakesweep(capfd, config)


@pytest.fixture
def acme(lakesweep: Lakesweep, url: str) -> Lakesweep:
    """A realm of that name, with one commit of two rows."""
    with Store.open(url, types=TYPES) as store:
        store.create_realm("acme").commit("root", add("deed"), Note)
    return lakesweep


def _status(lakesweep: Lakesweep) -> str:
    return str(lakesweep("realm", "show", "acme").document["status"])


def _rows(url: str) -> int:
    with Store.open(url) as store:
        return sum(1 for _ in store.backend.scan_rows("acme"))


def _bring(url: str, *states: str) -> None:
    """Bring the realm through these states, without what the commands would do meanwhile."""
    with Store.open(url) as store:
        for state in states:
            store.realms.move(store.realms.get("acme"), RealmStatus(state))


def test_a_realm_is_created_active(lakesweep: Lakesweep) -> None:
    done = lakesweep("realm", "create", "acme", "--property", "a=b", "--property", "c=d=e")
    assert done.code == 0
    assert done.document["status"] == "active"
    assert done.document["properties"] == {"a": "b", "c": "d=e"}


def test_a_creation_that_was_interrupted_can_be_repeated(lakesweep: Lakesweep, url: str) -> None:
    with Store.open(url) as store:
        store.realms.create("acme", {"a": "b"})
    _bring(url, "initializing")
    done = lakesweep("realm", "create", "acme")
    assert (done.code, done.document["status"]) == (0, "active")
    assert lakesweep("realm", "show", "acme").document["references"] == 7


def test_realms_are_listed_by_name(lakesweep: Lakesweep) -> None:
    for name in ("b", "a", "c"):
        lakesweep("realm", "create", name)
    done = lakesweep("realm", "list")
    assert [realm["name"] for realm in done.document["realms"]] == ["a", "b", "c"]
    assert "active" in lakesweep("realm", "list", json=False).out


def test_a_realm_is_shown_with_its_references(acme: Lakesweep) -> None:
    document = acme("realm", "show", "acme").document
    assert (document["name"], document["references"]) == ("acme", 7)
    assert document["created"].endswith("Z")


def test_a_realm_can_be_closed_and_opened_again(acme: Lakesweep) -> None:
    assert acme("realm", "deactivate", "acme").document["status"] == "inactive"
    assert acme("realm", "deactivate", "acme").code == 0
    assert acme("realm", "activate", "acme").document["status"] == "active"
    assert acme("realm", "activate", "acme").code == 0


def test_an_active_realm_is_not_purged(acme: Lakesweep, url: str) -> None:
    done = acme("realm", "purge", "acme", "--yes")
    assert (done.code, done.error["hint"]) == (3, "lakesweep realm deactivate acme")
    assert (_status(acme), _rows(url)) == ("active", 2)


def test_the_totals_of_a_purge_are_shown_and_nothing_goes(acme: Lakesweep, url: str) -> None:
    acme("realm", "deactivate", "acme")
    done = acme("realm", "purge", "acme", "--dry-run")
    assert done.document == {
        "realm": "acme",
        "status": "inactive",
        "references": 7,
        "rows": 2,
        "dry_run": True,
    }
    assert "7 references, 2 rows" in done.err
    assert (_status(acme), _rows(url)) == ("inactive", 2)


def test_without_consent_nothing_goes(acme: Lakesweep, url: str) -> None:
    acme("realm", "deactivate", "acme")
    done = acme("realm", "purge", "acme")
    assert done.code == 3
    assert "--yes" in done.error["hint"]
    assert (_status(acme), _rows(url)) == ("inactive", 2)


def test_a_realm_goes_from_its_purge_to_its_end(acme: Lakesweep, url: str) -> None:
    # An interrupted purge is the harder case: it is gone on with.
    _bring(url, "inactive", "purging")
    done = acme("realm", "purge", "acme", "--now", "--yes")
    assert (done.code, done.document["status"], done.document["rows"]) == (0, "purged", 2)
    assert _rows(url) == 0
    assert acme("realm", "purge", "acme", "--yes").document["status"] == "purged"
    assert acme("realm", "create", "acme").code == 4  # the name is still taken

    with Store.open(url) as store:  # somebody comes too late
        store.backend.write("acme", [ObjectRow(1, 0, "paper", 0, None, b"")])
    assert acme("realm", "delete", "acme", "--dry-run").document["rows"] == 1
    assert acme("realm", "delete", "acme").code == 3
    done = acme("realm", "delete", "acme", "--yes")
    assert (done.code, done.document["rows"]) == (0, 1)
    assert _rows(url) == 0
    assert acme("realm", "show", "acme").code == 6
    assert acme("realm", "create", "acme").document["status"] == "active"


def test_a_purge_is_left_to_maintenance_unless_it_shall_be_now(acme: Lakesweep, url: str) -> None:
    acme("realm", "deactivate", "acme")
    assert acme("realm", "purge", "acme", "--yes").document["status"] == "purging"
    assert _rows(url) == 2
    run = acme("store", "maintain", "--yes").document
    assert (run["realms_purged"], _status(acme), _rows(url)) == (["acme"], "purged", 0)


def test_a_purge_waits_for_no_other_scanner(acme: Lakesweep, url: str) -> None:
    acme("realm", "deactivate", "acme")
    with Store.open(url, types=MAINTENANCE_TYPES) as store:
        runs = MaintenanceRuns(store.system, SystemClock(), 5)
        lease = take_lease(store.system, SystemClock(), "the store", runs.lease(), "run", "me")
        done = acme("realm", "purge", "acme", "--now", "--yes")
        assert (done.code, _rows(url)) == (5, 2)
        lease.release()


@pytest.mark.parametrize(
    ("states", "command", "hint"),
    [
        ((), "delete", "realm purge acme"),
        (("inactive",), "delete", "realm purge acme"),
        (("inactive", "purging"), "delete", "realm purge acme"),
        (("inactive", "purging"), "activate", "realm show acme"),
        (("inactive", "purging"), "deactivate", "realm show acme"),
        (("inactive", "purging", "purged"), "activate", "realm show acme"),
    ],
)
def test_there_is_no_other_way_from_state_to_state(
    states: tuple[str, ...], command: str, hint: str, acme: Lakesweep, url: str
) -> None:
    _bring(url, *states)
    before = _status(acme)
    done = acme("realm", command, "acme")
    assert (done.code, done.error["type"]) == (3, "RefusedError")
    assert hint in done.error["hint"]
    assert (_status(acme), _rows(url)) == (before, 2)


@pytest.mark.parametrize("state", ["created", "loading"])
def test_a_realm_that_is_not_complete_is_not_activated(
    state: str, lakesweep: Lakesweep, url: str
) -> None:
    with Store.open(url) as store:
        store.realms.create("acme")
    if state == "loading":
        _bring(url, "loading")
    done = lakesweep("realm", "activate", "acme")
    assert (done.code, _status(lakesweep)) == (3, state)


@pytest.mark.parametrize("command", ["show", "activate", "deactivate", "purge", "delete"])
def test_a_realm_that_is_not_there_is_not_found(command: str, lakesweep: Lakesweep) -> None:
    done = lakesweep("realm", command, "acme")
    assert (done.code, done.error["type"]) == (6, "RealmMissingError")
    assert "realm list" in done.error["hint"]


@pytest.mark.parametrize("command", ["create", "show", "activate", "purge", "delete"])
@pytest.mark.parametrize("name", ["::system::", "::mine", "a b", "", "x" * 129, "ä"])
def test_impossible_names_are_wrong_usage(command: str, name: str, lakesweep: Lakesweep) -> None:
    done = lakesweep("realm", command, name)
    assert (done.code, done.error["type"]) == (2, "UsageError")


def test_a_property_has_a_key_and_a_value(lakesweep: Lakesweep) -> None:
    done = lakesweep("realm", "create", "acme", "--property", "owner")
    assert (done.code, done.error["hint"]) == (2, "write --property KEY=VALUE")
    assert lakesweep("realm", "list").document["realms"] == []


def test_a_realm_of_a_server_goes_the_same_way(
    lakesweep: Lakesweep, mariadb_databases: DatabaseServer
) -> None:
    words = ("--url", mariadb_databases.new_database())
    assert lakesweep("store", "init", *words).code == 0
    assert lakesweep("realm", "create", "acme", *words).document["status"] == "active"
    assert lakesweep("realm", "deactivate", "acme", *words).code == 0
    purged = lakesweep("realm", "purge", "acme", "--now", "--yes", *words)
    assert purged.code == 0, purged.err
    assert purged.document["status"] == "purged"
    assert lakesweep("realm", "delete", "acme", "--yes", *words).code == 0
    names = [realm["name"] for realm in lakesweep("realm", "list", *words).document["realms"]]
    assert names == ["default"]
