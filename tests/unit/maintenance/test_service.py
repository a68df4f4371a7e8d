from __future__ import annotations

from collections.abc import Mapping

from lakesweep.maintenance.plugin_api import Plugin
from lakesweep.runs.records import RunStatus
from lakesweep.store import Realm
from lakesweep.store.backends.rows import RowKey
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.reserved_names import SYSTEM_REALM
from tests.libraries import fill
from tests.maintained import Maintained, heads_reach, stored_ids


def test_what_no_head_leads_to_goes_and_all_else_stays() -> None:
    maintained = Maintained()
    realm = fill(maintained.store)
    wanted = heads_reach(realm)
    maintained.pass_grace()
    run = maintained.maintain()
    assert run.status is RunStatus.DONE
    assert heads_reach(realm) == wanted == stored_ids(maintained.backend, realm.name)
    assert run.obj_stats.purged == run.obj_stats.unreferenced > 0
    assert run.obj_stats.failed == 0


def test_what_is_new_stays() -> None:
    maintained = Maintained()
    realm = fill(maintained.store)
    before = stored_ids(maintained.backend, realm.name)
    run = maintained.maintain()
    assert stored_ids(maintained.backend, realm.name) == before
    assert run.obj_stats.newer == run.obj_stats.scanned
    assert run.obj_stats.unreferenced == 0


def test_a_dry_run_counts_the_same_and_deletes_nothing() -> None:
    maintained = Maintained()
    realm = fill(maintained.store)
    maintained.pass_grace()
    before = stored_ids(maintained.backend, realm.name)
    dry = maintained.maintain(dry_run=True)
    assert stored_ids(maintained.backend, realm.name) == before
    assert dry.obj_stats.purged == 0
    assert maintained.service.run_log() == []
    real = maintained.maintain()
    counted, done = (run.per_realm_per_obj_type_stats[realm.name] for run in (dry, real))
    assert {name: stats.unreferenced for name, stats in counted.items()} == {
        name: stats.purged for name, stats in done.items()
    }


def test_a_second_run_finds_nothing_to_do() -> None:
    maintained = Maintained()
    fill(maintained.store)
    maintained.pass_grace()
    maintained.maintain()
    maintained.clock.sleep(1)
    again = maintained.maintain()
    assert again.obj_stats.unreferenced == again.reference_stats.unreferenced == 0
    assert maintained.service.run_log()[0] == again


def test_a_realm_that_is_to_be_purged_goes_and_is_purged_in_the_same_run() -> None:
    maintained = Maintained()
    fill(maintained.store)
    fill(maintained.store, "acme2")
    realms = maintained.store.realms
    inactive = realms.move(realms.get("acme"), RealmStatus.INACTIVE)
    realms.move(inactive, RealmStatus.PURGING)
    run = maintained.maintain()
    assert run.success
    assert (run.purged_realms, run.realms_purged) == (1, ("acme",))
    assert realms.get("acme").status is RealmStatus.PURGED
    assert list(maintained.backend.realms()) == [SYSTEM_REALM, "acme2"]


def test_a_realm_that_cannot_be_read_is_left_alone_and_others_are_cleaned() -> None:
    maintained = Maintained()
    fill(maintained.store)
    other = fill(maintained.store, "acme2")
    head = maintained.store.realm("acme").references.fetch("main").pointer
    assert head is not None
    maintained.backend.delete("acme", [RowKey(head)])
    before = stored_ids(maintained.backend, "acme")
    maintained.pass_grace()
    run = maintained.maintain()
    assert run.status is RunStatus.INCOMPLETE
    assert "realm acme: the head" in run.status_message
    assert run.status_message in run.detailed_information
    assert stored_ids(maintained.backend, "acme") == before
    assert stored_ids(maintained.backend, "acme2") == heads_reach(other)


class _Grants:
    """A tidier that finds three stale grants wherever it looks."""

    def tidy(self, realm: Realm, *, dry_run: bool) -> Mapping[str, int]:
        del realm, dry_run
        return {"grants": 3}


def test_what_tidiers_removed_is_told() -> None:
    maintained = Maintained()
    fill(maintained.store)
    maintained.plugins = [*maintained.plugins, Plugin("grants", tidiers=(_Grants(),))]
    assert maintained.maintain().tidied["acme"] == {"grants": 3}
