"""Journals decide what is deleted, so only those count that the store vouches for."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.errors import DamagedError
from lakesweep.paimon.expire.expiry import journaled, plan_expiry
from lakesweep.paimon.model.owned_folders import OwnedFolders
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.address import identities
from lakesweep.storage.deleting.journal import write_journal
from lakesweep.storage.file_batches import file_batch
from lakesweep.storage.file_identity import resolve_aliases
from lakesweep.storage.stores import Stores
from tests.paimon import JavaWarehouses
from tests.paimon_expiry import (
    ROOT,
    ListedStore,
    MemoryJournals,
    expire,
    in_memory,
    journals,
    keep,
    open_table,
)
from tests.paimon_history import History
from tests.paimon_tables import File

#: Of another table, outside of every table, and of this table but none of its garbage.
VICTIMS = (
    "t2/bucket-0/data-1.parquet",
    "t2/schema/schema-0",
    "notes.txt",
    "t/schema/schema-0",
    "t/tag/tag-kept",
)


@pytest.fixture
def store(java_tables: JavaWarehouses) -> ListedStore:
    store = in_memory(java_tables.table("append_plain"))
    for key in VICTIMS:
        if key != "t/schema/schema-0":
            store.write(key, b"")
    store.delete(["t/tag/tag-kept"])
    return store


def _plant(store: ListedStore, *keys: str) -> MemoryJournals:
    """A journal that names files, and a log that vouches for it."""
    log, table = MemoryJournals(), open_table(store)
    paths = [(f"memory://bucket/{key}", 1) for key in keys]
    write_journal(journaled(table), log, [file_batch("data", paths)])
    return log


def test_a_planted_journal_is_reported_and_deletes_nothing(store: ListedStore) -> None:
    _plant(store, *VICTIMS, "t/bucket-0/anything")
    store.write("t/bucket-0/anything", b"")
    before = store.current()
    table = open_table(store)
    with plan_expiry(table, keep(5, 5)(table), MemoryJournals().known) as plan:
        (ignored,) = plan.journals.ignored
        assert not plan.total_files
    assert (ignored.reason, ignored.address.rpartition("/_lakesweep/expiry-")[0]) == (
        "this store did not write it",
        ROOT,
    )
    expire(store, keep(5, 5))
    assert store.current() == before


@pytest.mark.parametrize("victim", VICTIMS)
def test_no_journal_reaches_what_the_table_cannot_own(store: ListedStore, victim: str) -> None:
    """Not even one that the store vouches for."""
    log = _plant(store, victim)
    before = store.current()
    table = open_table(store)
    with plan_expiry(table, keep(5, 5)(table), log.known) as plan:
        assert not plan.total_files
        assert "is not among the files" in plan.journals.ignored[0].reason
    expire(store, keep(5, 5), log=log)
    assert store.current() == before


def test_a_journal_that_is_vouched_for_keeps_what_is_live(
    store: ListedStore, java_tables: JavaWarehouses
) -> None:
    live = java_tables.table("append_plain").live()["main:snapshot-5"]
    store.write("t/bucket-0/data-left-behind", b"")
    log = _plant(store, *(f"t/{name}" for name in live), "t/bucket-0/data-left-behind")
    before = store.current().keys()
    expire(store, keep(5, 5), log=log)
    gone = {key for key in before - store.current().keys() if "/_lakesweep/" not in key}
    assert gone == {"t/bucket-0/data-left-behind"}
    assert not journals(store)


def test_metadata_that_names_files_of_another_table_expires_nothing() -> None:
    """A schema may say that a table writes into the folder of another one."""
    other = "memory://bucket/t2"
    history = History({"data-file.external-paths": other})
    history.store.write("t2/schema/schema-0", b"{}")
    history.store.write("t2/bucket-0/data-1.parquet", b"live")
    stolen = File("data-1.parquet", external_path=f"{other}/bucket-0/data-1.parquet")
    history.commit(add=[stolen])
    history.commit(delete=[stolen])
    before = history.store.current()
    with pytest.raises(DamagedError, match="in the folder of the table memory://bucket/t2/"):
        expire(history.store, keep())
    assert history.store.current() == before


def test_a_link_leads_to_no_file_of_the_table(tmp_path: Path, java_tables: JavaWarehouses) -> None:
    java = java_tables.table("append_plain").copy_to(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (java.folder / "bucket-7").symlink_to(outside)
    owned = OwnedFolders(PaimonTable.open(Stores(), str(java.folder)))
    paths = file_batch("data", [(f"{java.folder}/bucket-{n}/data-1", 1) for n in (0, 7)])["path"]
    owned.check(resolve_aliases(identities(paths[:1])))
    with pytest.raises(DamagedError, match="outside/data-1"):
        owned.check(resolve_aliases(identities(paths)))
