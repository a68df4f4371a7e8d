"""Files that no table of Java's has: they expire with all others, and stay with all others."""

from __future__ import annotations

from dataclasses import replace

from lakesweep.paimon.expire.expiry import plan_expiry
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.stores import Stores
from tests.paimon_expiry import ROOT, ListedStore, MemoryJournals, expire, keep
from tests.paimon_history import History
from tests.paimon_tables import File

OUTSIDE = "memory://bucket/elsewhere"
EXTERNAL = {"data-file.external-paths": f"{OUTSIDE},s3://other"}


def _external(history: History, name: str, *, extra: tuple[str, ...] = ()) -> File:
    for each in (name, *extra):
        history.store.write(f"elsewhere/bucket-0/{each}", b"content")
    return File(name, external_path=f"{OUTSIDE}/bucket-0/{name}", extra=extra)


def _elsewhere(history: History) -> set[str]:
    return {
        key.rpartition("/")[2] for key in history.store.current() if key.startswith("elsewhere/")
    }


def test_external_files_go_where_they_lie_with_what_lies_beside_them() -> None:
    history = History(EXTERNAL)
    gone = _external(history, "data-1.parquet", extra=("data-1.parquet.index",))
    stays = _external(history, "data-2.parquet", extra=("data-2.parquet.index",))
    history.commit(add=[gone, stays])
    history.commit(delete=[gone])
    expire(history.store, keep())
    assert _elsewhere(history) == {"data-2.parquet", "data-2.parquet.index"}


def test_another_spelling_of_an_external_path_holds_the_file() -> None:
    history = History(EXTERNAL)
    file = File("data-1.parquet", external_path="s3://other/bucket-0/data-1.parquet")
    history.commit(add=[file])
    history.commit(
        add=[replace(file, external_path="s3a://other/bucket-0/data-1.parquet")], delete=[file]
    )
    history.commit(add=history.new_files(1))
    stores = Stores(replace={ROOT: history.store, "s3://other": ListedStore()})
    table = PaimonTable.open(stores, ROOT)
    with plan_expiry(table, keep()(table), MemoryJournals().known) as plan:
        assert not plan.files[PaimonKind.DATA]


def test_sidecars_of_manifests_go_with_them_and_stay_with_them() -> None:
    history = History()
    table = history.table
    old, new = (
        table.manifest(*history.new_files(1), _EXTRA_FILES=[f"{name}.avro.sidecar"])
        for name in ("old", "new")
    )
    for name in ("old", "new"):
        table.write(f"manifest/{name}.avro.sidecar", b"blocks")
    table.snapshot(1, old)
    table.snapshot(2, base=[new])
    expire(history.store, keep())
    sidecars = {name for name in history.stored if name.endswith(".sidecar")}
    assert sidecars == {"manifest/new.avro.sidecar"}


def test_a_file_that_an_upgrade_deletes_and_adds_stays() -> None:
    history = History()
    files = history.new_files(2, extra=True)
    history.commit(add=files)
    history.commit(add=[replace(file, level=1) for file in files], delete=files)
    history.commit(add=history.new_files(1))
    expire(history.store, keep())
    assert not history.missing()


def test_a_file_that_a_later_commit_brings_back_stays() -> None:
    history = History()
    files = history.new_files(1)
    history.commit(add=files)
    history.commit(delete=files)
    history.commit(add=history.new_files(1))
    history.commit(add=files)
    expire(history.store, keep(2, 2))
    assert not history.missing()


def test_what_was_added_and_deleted_within_one_commit_goes() -> None:
    history = History()
    files = history.new_files(1)
    history.commit(add=history.new_files(1))
    delta = history.table.manifest(*files, *(replace(file, kind=1) for file in files))
    history.table.snapshot(2, delta, base=history.latest().manifests)
    expire(history.store, keep())
    assert f"bucket-0/{files[0].name}" not in history.stored
