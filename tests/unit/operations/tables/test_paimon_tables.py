"""Expire and drop parts of Paimon tables, without a command line."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import UNSET

from lakesweep.app import App
from lakesweep.clock import Clock
from lakesweep.config import Config
from lakesweep.errors import LeaseHeldError, RefusedError, UsageError
from lakesweep.operations.interaction import Interaction
from lakesweep.operations.lakes.runs import list_runs
from lakesweep.operations.tables.paimon_expiry import (
    ExpireHistoryRequest,
    ExpiryPreview,
    ExpiryResult,
    expire_snapshots,
)
from lakesweep.operations.tables.paimon_orphans import CleanOrphansRequest, clean_orphans
from lakesweep.operations.tables.paimon_partitions import (
    DropPartitionsRequest,
    ExpirePartitionsRequest,
    PartitionsPreview,
    drop_partitions,
    expire_partitions,
)
from lakesweep.operations.tables.paimon_tables import PaimonFilesRequest, paimon_files
from lakesweep.paimon.expire.retention import RetentionOverrides
from lakesweep.runs.records import RunKind, RunStatus, table_lake
from lakesweep.runs.sessions import run_session
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, StorageFault
from tests.dict_store import Death
from tests.moments import NOON
from tests.paimon import JavaTable, JavaWarehouses
from tests.paimon_expiry import ROOT, Bystander, ListedStore, in_memory, journals, names

KEEP_ONE = RetentionOverrides(retain_min=1, retain_max=1)
#: The clock of a store in memory stands at a moment long ago.
_AHEAD = frozenset({"clock"})


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(Config(), folder=tmp_path)


@pytest.fixture
def table(java_tables: JavaWarehouses, tmp_path: Path) -> JavaTable:
    return java_tables.table("append_plain").copy_to(tmp_path)


@pytest.fixture
def days(java_tables: JavaWarehouses, tmp_path: Path) -> JavaTable:
    return java_tables.table("append_dt").copy_to(tmp_path)


def refuse(preview: ExpiryPreview | PartitionsPreview) -> None:
    raise RefusedError("confirmation", f"{type(preview).__name__} is refused")


def agree(preview: ExpiryPreview | PartitionsPreview) -> None:
    del preview


def _keep_one(table: JavaTable) -> ExpireHistoryRequest:
    return ExpireHistoryRequest(table=str(table.folder), retention=KEEP_ONE, settle=timedelta())


def test_an_expiry_reports_its_policy_and_deletes_what_it_previewed(
    app: App, table: JavaTable
) -> None:
    notices: list[str] = []
    previews: list[ExpiryPreview] = []
    request = _keep_one(table)
    io = Interaction(notify=notices.append)
    result = expire_snapshots(app, request, previews.append, io)
    assert "keeps at least 1 and at most 1 snapshots" in notices[0]
    assert result.deleted == previews[0].planned.deleted
    assert result.is_complete
    assert (result.earliest, result.dry_run) == (result.latest, False)


def test_nothing_expires_when_the_caller_refuses(app: App, table: JavaTable) -> None:
    before = table.stored()
    request = _keep_one(table)
    with pytest.raises(RefusedError, match="ExpiryPreview"):
        expire_snapshots(app, request, refuse)
    assert table.stored() == before


def test_the_files_of_a_dry_run_can_be_read_while_it_is_confirmed(
    app: App, table: JavaTable
) -> None:
    before, paths = table.stored(), set[str]()

    def read(preview: ExpiryPreview) -> None:
        for batch in preview.batches():
            paths.update(batch["path"].to_pylist())

    request = ExpireHistoryRequest(table=str(table.folder), retention=KEEP_ONE, dry_run=True)
    planned = expire_snapshots(app, request, read)
    assert len(paths) == sum(planned.deleted.values()) > 0
    assert table.stored() == before


def test_no_caller_can_expire_a_table_that_shares_files_with_a_copy(
    app: App, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    original = tmp_path / "w" / "a.db" / "one"
    shutil.copytree(java_tables.table("append_plain").folder, original)
    for path in (original / "schema").glob("schema-*"):
        schema = json.loads(path.read_text())
        schema["options"]["data-file.external-paths"] = f"file://{tmp_path}/out"
        path.chmod(0o600)
        path.write_text(json.dumps(schema))
    shutil.copytree(original, tmp_path / "w" / "b.db" / "copy")
    request = ExpireHistoryRequest(table=str(original), retention=KEEP_ONE)
    with pytest.raises(RefusedError, match="one is a copy of the other"):
        expire_snapshots(app, request, agree)


def _lock(table: JavaTable) -> None:
    schema = table.folder / "schema" / "schema-0"
    text = schema.read_text()
    schema.write_text(text.replace('"options" : {', '"options" : {"lock.enabled": "true",'))


def _drop(app: App, table: JavaTable) -> None:
    drop_partitions(app, DropPartitionsRequest(str(table.folder), ("dt=2021-03-01",)), agree)


def _expire(app: App, table: JavaTable) -> None:
    request = ExpirePartitionsRequest(str(table.folder), keep=timedelta(days=30))
    expire_partitions(app, request, agree)


@pytest.mark.parametrize("drop", [_drop, _expire])
def test_no_caller_can_commit_to_a_table_that_others_lock(
    app: App, days: JavaTable, drop: Callable[[App, JavaTable], None]
) -> None:
    _lock(days)
    before = days.stored()
    with pytest.raises(RefusedError, match="are locked by"):
        drop(app, days)
    assert days.stored() == before


def test_no_partition_is_dropped_when_the_caller_refuses(app: App, days: JavaTable) -> None:
    before = days.stored()
    request = DropPartitionsRequest(str(days.folder), ("dt=2021-03-01",))
    with pytest.raises(RefusedError, match="PartitionsPreview"):
        drop_partitions(app, request, refuse)
    assert days.stored() == before


def test_partitions_without_a_time_are_reported(app: App, days: JavaTable) -> None:
    notices: list[str] = []
    request = ExpirePartitionsRequest(str(days.folder), keep=timedelta(days=30), dry_run=True)
    result = expire_partitions(app, request, agree, Interaction(notify=notices.append))
    assert [notice.partition(" ")[0] for notice in notices] == [
        "dt=__DEFAULT_PARTITION__",
        "dt=not-a-date",
    ]
    assert [each.partition for each in result.partitions if each.time is None] == [
        "dt=__DEFAULT_PARTITION__",
        "dt=not-a-date",
    ]


def test_one_state_is_never_read_tolerantly(app: App, table: JavaTable) -> None:
    with pytest.raises(UsageError, match="--tolerant"):
        paimon_files(app, PaimonFilesRequest(str(table.folder), snapshot=1, tolerant=True))


def _dying_app(folder: Path, store: ListedStore) -> App:
    """An app whose process dies before the first data file is deleted."""

    def die(_: InterceptedCall) -> object:
        raise Death

    fault = StorageFault(die, frozenset({"delete"}), lambda key: "/bucket-" in key)
    return _app(folder, Faulty(store, [fault]))


def _app(folder: Path, store: ObjectStore, clock: Clock | None = None) -> App:
    app = App(Config(), folder=folder, clock=clock)
    app.__dict__["stores"] = Stores(replace={ROOT: store})
    return app


def _keep_one_in_memory(notices: list[str], app: App) -> ExpiryResult:
    request = ExpireHistoryRequest(
        table=ROOT, retention=KEEP_ONE, settle=timedelta(), overrides=_AHEAD
    )
    return expire_snapshots(app, request, agree, Interaction(notify=notices.append))


def test_an_interrupted_expiry_is_finished_by_the_store_that_knows_its_journal(
    java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    java = java_tables.table("compacted")
    store, done, notices = in_memory(java), in_memory(java), list[str]()
    _keep_one_in_memory(notices, _app(tmp_path / "whole", done))
    with suppress(Death):
        _keep_one_in_memory(notices, _dying_app(tmp_path / "first", store))
    left, journal = names(store), journals(store)
    assert journal
    notices.clear()

    other = _keep_one_in_memory(notices, _app(tmp_path / "second", store))

    assert (names(store), journals(store), other.deleted) == (left, journal, {})
    assert isinstance(other.ignored_journals, tuple)
    ignored = other.ignored_journals[0].address
    assert f"warning: {ignored} is not carried out: this store did not write it" in notices
    assert any(f"try: lakesweep paimon orphans {ROOT}/" in notice for notice in notices)
    assert not (tmp_path / "second" / ".lakesweep").exists()

    resumed = _keep_one_in_memory(notices, _app(tmp_path / "first", store))

    assert resumed.deleted["data"] > 0
    assert resumed.ignored_journals is UNSET
    assert names(store).keys() == names(done).keys()
    assert not journals(store)


def test_an_expiry_is_a_recorded_run_under_a_lease(
    java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    store = in_memory(java_tables.table("compacted"))
    app = _app(tmp_path, store)
    lake = table_lake("paimon-expiry", f"{ROOT}/")
    with run_session(app.runs, lake, RunKind.EXPIRE, spec={}), pytest.raises(LeaseHeldError):
        _keep_one_in_memory([], app)
    assert names(store).keys() == names(in_memory(java_tables.table("compacted"))).keys()
    _keep_one_in_memory([], app)
    newest = next(app.runs.list(lake))
    assert (newest.kind, newest.status) == (RunKind.EXPIRE, RunStatus.DONE)
    assert newest.spec["paimon"] == f"{ROOT}/"
    assert not app.runs.plans(lake)  # no journal is left


def test_orphans_wait_for_a_tag_if_an_expiry_is_under_way(
    java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    """The snapshot is gone, and the tag that its creator is about to write is not there yet."""
    java = java_tables.table("compacted")
    store = in_memory(java)
    snapshot = names(store)["snapshot/snapshot-1"]
    store.delete(["t/snapshot/snapshot-1"])
    store.write("t/_lakesweep/expiry-1/_dataset.json", b"{}")

    def write_tag() -> None:
        store.write("t/tag/tag-late", snapshot)

    app = _app(tmp_path, store, Bystander(write_tag, NOON + timedelta(days=9)))
    request = CleanOrphansRequest(ROOT, NOON + timedelta(days=1), overridden=("clock",))
    with clean_orphans(app, request, lambda _: None) as cleaned:
        assert cleaned.result.spared > 0
    assert "tag/tag-late" in names(store)
    assert java.live()["main:snapshot-1"] <= names(store).keys()


def _snapshot_ids(table: JavaTable) -> list[int]:
    return sorted(int(path.name[9:]) for path in (table.folder / "snapshot").glob("snapshot-*"))


@pytest.mark.parametrize("gap", [(), (2,)])
def test_the_number_is_the_range_and_leaves_gaps_out(
    app: App, table: JavaTable, gap: tuple[int, ...]
) -> None:
    for number in gap:
        (table.folder / "snapshot" / f"snapshot-{number}").unlink()
    before = _snapshot_ids(table)
    result = expire_snapshots(app, _keep_one(table), agree)
    begin, end = before[0], _snapshot_ids(table)[0]
    assert result.expired_snapshots == end - begin - len(gap) == len(before) - 1
    assert result.earliest == end


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_read_and_delete_as_many_as_the_caller_says(
    java_tables: JavaWarehouses, tmp_path: Path, threads: int
) -> None:
    store = in_memory(java_tables.table("compacted"))
    used: dict[str, set[str]] = {"read": set(), "delete": set()}

    def note(call: InterceptedCall) -> object:
        used[call.method].add(threading.current_thread().name)
        time.sleep(0.005)
        return call.proceed()

    fault = StorageFault(note, frozenset(used), lambda key: "/bucket-" in key or "manifest" in key)
    app = _app(tmp_path, Faulty(store, [fault]))
    request = ExpireHistoryRequest(
        table=ROOT, retention=KEEP_ONE, settle=timedelta(), threads=threads, overrides=_AHEAD
    )
    expire_snapshots(app, request, agree)
    assert all(names for names in used.values())
    most = max(
        len([name for name in names if name.rpartition("_")[0] == pool])
        for names in used.values()
        for pool in {name.rpartition("_")[0] for name in names}
    )
    assert most <= threads
    assert (most > 1) == (threads > 1)


@pytest.mark.parametrize(("drop", "kind"), [(_drop, "drop"), (_expire, "expire")])
def test_dropping_partitions_is_a_recorded_run(
    app: App, days: JavaTable, drop: Callable[[App, JavaTable], None], kind: str
) -> None:
    drop(app, days)
    [run] = list_runs(app)
    assert (run.kind, run.status, run.subject) == (kind, "done", f"{days.folder}/")
    assert run.figures["partitions"] > 0
    assert run.files == run.figures["dropped_files"]
