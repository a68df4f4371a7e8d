from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import (
    ContendedError,
    DamagedError,
    DamagedRowError,
    HeadMissingError,
    RealmExistsError,
    RefusedError,
    StoreError,
    TruncatedError,
    UsageError,
)
from lakesweep.store import Store
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import ObjectRow, RowKey
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.store.ids.snowflake import compose, millisecond_of
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.reserved_names import SYSTEM_REALM
from lakesweep.store.transfer import ExportKind, Imported, content_hash, import_realm
from lakesweep.store.transfer.format import ChecksumChain, Line, Totals, decode, encode
from tests.libraries import LARGE, Page, Shelf, commit, export_bytes, export_file, fill, open_store
from tests.moments import NOON

LATER = NOON + timedelta(hours=1)


@pytest.fixture(scope="module")
def source() -> Store:
    store = open_store()
    fill(store)
    return store


@pytest.fixture(scope="module", params=list(ExportKind))
def data(request: pytest.FixtureRequest, source: Store) -> bytes:
    """An export of either kind."""
    return export_bytes(source, kind=request.param)


@pytest.fixture
def store() -> Store:
    return open_store(clock=ManualClock(LATER))


def _import(store: Store, data: bytes, name: str | None = None, *, active: bool = True) -> Imported:
    """Import what comes through a pipe."""
    pipe = io.BufferedReader(io.BytesIO(data))
    return import_realm(store, pipe, name=name, active=active, clock=ManualClock(LATER))


def _state(store: Store, name: str = "acme") -> RealmStatus:
    return store.realms.get(name).status


def _rows(store: Store, name: str = "acme") -> dict[RowKey, ObjectRow]:
    keys = [RowKey(row.id, row.part) for row in store.backend.scan_rows(name)]
    return dict(store.backend.fetch(name, keys))


def _changed(data: bytes, change: Callable[[list[Line]], list[Line]]) -> bytes:
    """An export that somebody made up: other lines, with totals and checksums that match them."""
    reading, writing, totals = ChecksumChain(), ChecksumChain(), Totals()
    *lines, _ = [decode(reading.open(line)) for line in data.splitlines(keepends=True)]
    texts = []
    for line in change(lines):
        texts.append(encode(line))
        totals.add(line, texts[-1])
    return b"".join(map(writing.seal, [*texts, encode(totals.end())]))


def test_a_realm_comes_back_with_all_that_it_had(source: Store, store: Store, data: bytes) -> None:
    imported = _import(store, data)
    assert (imported.realm.name, imported.realm.status) == ("acme", RealmStatus.ACTIVE)
    assert content_hash(store.realm("acme")) == content_hash(source.realm("acme"))
    assert imported.realm.properties["owner"] == "jane"


def test_a_realm_goes_from_sqlite_to_memory_and_back(tmp_path: Path, source: Store) -> None:
    backends: list[Backend] = [
        SqlBackend(f"sqlite:///{tmp_path / 'one.db'}"),
        MemoryBackend(),
        SqlBackend(f"sqlite:///{tmp_path / 'other.db'}"),
    ]
    wanted, before = content_hash(source.realm("acme")), source
    for backend in backends:
        backend.init_schema()
        store = open_store(backend, ManualClock(LATER))
        _import(store, export_bytes(before))
        assert content_hash(store.realm("acme")) == wanted
        before = store
    for backend in backends:
        backend.close()


def test_rows_come_back_byte_for_byte(source: Store, store: Store) -> None:
    _import(store, export_bytes(source, kind=ExportKind.ROWS))
    assert _rows(store) == _rows(source)


def test_what_nothing_leads_to_comes_back_with_rows_only(store: Store) -> None:
    elsewhere = open_store()
    realm = elsewhere.create_realm("acme")
    lost = realm.objects.write(realm.new_id(), Page("lost")).id
    for kind in ExportKind:
        _import(store, export_bytes(elsewhere, kind=kind), kind.value)
    assert {row.id for row in store.backend.scan_rows("rows")} == {lost}
    assert not list(store.backend.scan_rows("live"))


def test_the_imported_realm_takes_commits(store: Store, data: bytes) -> None:
    _import(store, data)
    realm = store.realm("acme")
    before = realm.head("main", Shelf)
    assert before is not None
    commit(realm, "main", lambda _: Shelf())
    log = list(realm.log("main"))
    assert [each.value.seq for each in log] == list(range(before.value.seq + 1, 0, -1))


def test_an_object_that_can_be_changed_can_still_be(store: Store, data: bytes) -> None:
    _import(store, data)
    realm = store.realm("acme")
    head = realm.head("catalogs", Shelf)
    assert head is not None
    assert head.value.first is not None
    found = realm.objects.fetch(head.value.first, Page)
    assert found is not None
    assert found.value.text == "after"
    assert realm.objects.update(found, Page("changed")) is not None


def test_a_large_object_comes_back(store: Store, data: bytes) -> None:
    _import(store, data)
    realm = store.realm("acme")
    head = realm.head("root", Shelf)
    assert head is not None
    assert head.value.first is not None
    page = realm.objects.fetch(head.value.first, Page)
    assert page is not None
    assert len(page.value.text) == LARGE


def test_a_realm_may_get_another_name(source: Store, data: bytes) -> None:
    assert _import(source, data, f"copy-{len(data)}").realm.name == f"copy-{len(data)}"
    copy = source.realm(f"copy-{len(data)}")
    assert content_hash(copy) == content_hash(source.realm("acme"))


def test_a_name_that_no_realm_can_have_is_refused(store: Store, data: bytes) -> None:
    with pytest.raises(UsageError):
        _import(store, data, SYSTEM_REALM)
    assert not list(store.realms.list())


def test_a_realm_may_stay_inactive(store: Store, data: bytes) -> None:
    assert _import(store, data, active=False).realm.status is RealmStatus.INACTIVE


def test_as_much_of_each_log_as_was_exported_comes_back(source: Store, store: Store) -> None:
    _import(store, export_bytes(source, history=1))
    realm = store.realm("acme")
    assert content_hash(realm) == content_hash(source.realm("acme"), history=1)
    assert [each.value.seq for each in realm.log("main")] == [3]


def test_an_import_that_is_repeated_changes_nothing(store: Store, data: bytes) -> None:
    first = _import(store, data)
    again = _import(store, data)
    assert again.repeated
    assert (again.realm, again.end) == (first.realm, first.end)


def test_a_realm_that_has_changed_since_is_not_taken_for_the_same(
    store: Store, data: bytes
) -> None:
    _import(store, data)
    commit(store.realm("acme"), "main", lambda _: Shelf())
    with pytest.raises(RealmExistsError, match="has changed since"):
        _import(store, data)


def test_a_new_reference_is_a_change(store: Store, data: bytes) -> None:
    _import(store, data)
    store.realm("acme").references.create("new")
    with pytest.raises(RealmExistsError, match="has changed since"):
        _import(store, data)


def test_a_realm_that_is_there_is_left_alone(store: Store, data: bytes) -> None:
    realm = store.create_realm("acme")
    commit(realm, "root", lambda _: Shelf())
    before = content_hash(realm)
    with pytest.raises(RealmExistsError, match="already exists and is active") as caught:
        _import(store, data)
    assert "--realm" in caught.value.hint
    assert content_hash(realm) == before


@pytest.mark.parametrize("status", [RealmStatus.INITIALIZING, RealmStatus.PURGING])
def test_a_realm_in_another_state_is_left_alone(
    store: Store, data: bytes, status: RealmStatus
) -> None:
    before = store.realms.move(store.realms.create("acme"), status)
    with pytest.raises(RealmExistsError, match=f"is {status}"):
        _import(store, data)
    assert store.realms.get("acme") == before


def test_a_created_realm_is_loaded_and_keeps_its_properties(store: Store, data: bytes) -> None:
    store.realms.create("acme", {"tier": "gold"})
    properties = _import(store, data).realm.properties
    assert (properties["tier"], properties["owner"]) == ("gold", "jane")


def test_an_interrupted_import_is_finished_by_the_same_export_only(
    store: Store, source: Store, data: bytes
) -> None:
    half = data[: len(data) // 2]
    with pytest.raises(TruncatedError):
        _import(store, half)
    assert _state(store) is RealmStatus.LOADING
    with pytest.raises(RefusedError, match="is being imported from another export"):
        _import(store, export_bytes(source, history=2))
    assert _import(store, data).realm.status is RealmStatus.ACTIVE
    assert content_hash(store.realm("acme")) == content_hash(source.realm("acme"))


def test_nobody_gets_into_a_realm_that_is_not_complete(store: Store, data: bytes) -> None:
    with pytest.raises(TruncatedError):
        _import(store, data[:-10])
    with pytest.raises(RefusedError, match="realm acme is loading"):
        store.realm("acme")


def test_a_damaged_file_changes_nothing(tmp_path: Path, store: Store, source: Store) -> None:
    path = tmp_path / "export"
    export_file(source, path)
    damaged = bytearray(path.read_bytes())
    damaged[-1_000] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DamagedError, match=r"export: line \d+: .* does not match its"):
        import_realm(store, path)
    assert not list(store.realms.list())


def test_a_file_is_imported(tmp_path: Path, store: Store, source: Store) -> None:
    path = tmp_path / "export"
    end = export_file(source, path).end
    assert import_realm(store, path).end == end


def test_other_realms_are_left_alone(store: Store, data: bytes) -> None:
    other = fill(store, "other")
    before = (content_hash(other), store.realms.get("other"))
    _import(store, data)
    assert (content_hash(other), store.realms.get("other")) == before


def test_an_id_that_is_yet_to_come_is_refused(tmp_path: Path, source: Store) -> None:
    path = tmp_path / "export"
    export_file(source, path)
    early = ManualClock(NOON - timedelta(hours=1))
    store = open_store(clock=early)
    with pytest.raises(RefusedError, match="a new object could be given the same id"):
        import_realm(store, path, clock=early)
    assert not list(store.realms.list())


def test_an_id_that_is_about_to_come_is_waited_for(tmp_path: Path, source: Store) -> None:
    path = tmp_path / "export"
    export_file(source, path)
    early = ManualClock(NOON - timedelta(seconds=30))
    store = open_store(clock=early)
    import_realm(store, path, clock=early)
    newest = max(row.id for row in store.backend.scan_rows("acme"))
    assert store.realm("acme").new_id() > newest
    assert early.now() > NOON


def test_new_ids_are_above_all_that_came_in(store: Store, data: bytes) -> None:
    _import(store, data)
    newest = max(row.id for row in store.backend.scan_rows("acme"))
    assert newest < store.realm("acme").new_id()
    assert newest < compose(millisecond_of(LATER), 0, 0)


def test_rows_of_somebody_else_keep_a_realm_from_getting_active(
    store: Store, source: Store, data: bytes
) -> None:
    store.realms.create("acme")
    [stranger] = list(_rows(source).values())[:1]
    store.backend.write("acme", [stranger._replace(id=1)])
    with pytest.raises(StoreError, match=r"does not match|not from this export"):
        _import(store, data)
    assert _state(store) is RealmStatus.LOADING


def test_references_of_somebody_else_keep_a_realm_from_getting_active(
    store: Store, source: Store, data: bytes
) -> None:
    store.realms.create("acme")
    [stranger] = list(source.backend.scan_references("acme"))[:1]
    store.backend.insert_reference("acme", type(stranger)("stranger", None, 0, 0))
    with pytest.raises(StoreError, match="references that are not from this export"):
        _import(store, data)
    assert _state(store) is RealmStatus.LOADING


def test_an_export_without_a_head_does_not_get_active(store: Store, source: Store) -> None:
    head = source.realm("acme").references.fetch("main").pointer

    def without(lines: list[Line]) -> list[Line]:
        return [line for line in lines if getattr(line, "id", None) != str(head)]

    for kind in ExportKind:
        data = _changed(export_bytes(source, kind=kind), without)
        with pytest.raises(HeadMissingError, match=f"the head {head} of reference 'main'"):
            _import(store, data, kind.value)
        wanted = RealmStatus.LOADING if kind is ExportKind.LIVE else RealmStatus.INACTIVE
        assert _state(store, kind.value) is wanted


def test_rows_that_are_damaged_make_an_inactive_realm_and_an_error_each_time(
    store: Store,
) -> None:
    elsewhere = open_store()
    realm = fill(elsewhere)
    head = realm.head("grants", Shelf)
    assert head is not None
    needed = head.value.first
    assert needed is not None
    [row] = realm.backend.fetch("acme", [RowKey(needed)]).values()
    realm.backend.write("acme", [row._replace(value=row.value[:-1])])
    data = export_bytes(elsewhere, kind=ExportKind.ROWS)
    for _ in range(2):
        with pytest.raises(DamagedRowError, match=f"commit {head.id} → object {needed}") as caught:
            _import(store, data, "copy")
        assert "stays inactive" in caught.value.message
        assert caught.value.hint == ("lakesweep store recover grants --realm copy --deep --dry-run")
        assert _state(store, "copy") is RealmStatus.INACTIVE
    assert _rows(store, "copy") == _rows(elsewhere)


def test_an_export_without_a_needed_object_does_not_get_active(store: Store, source: Store) -> None:
    head = source.realm("acme").head("grants", Shelf)
    assert head is not None
    needed = head.value.first

    def without(lines: list[Line]) -> list[Line]:
        return [line for line in lines if getattr(line, "id", None) != str(needed)]

    with pytest.raises(DamagedRowError, match=f"object {needed} is missing; reached by"):
        _import(store, _changed(export_bytes(source), without))
    assert _state(store) is RealmStatus.LOADING


def test_an_export_with_more_than_its_references_lead_to_does_not_get_active(
    store: Store, source: Store
) -> None:
    def without_reference(lines: list[Line]) -> list[Line]:
        return [line for line in lines if getattr(line, "name", None) != "main"]

    with pytest.raises(StoreError, match="does not match the export"):
        _import(store, _changed(export_bytes(source), without_reference))


def test_a_realm_gets_the_references_that_each_must_have(store: Store, source: Store) -> None:
    def without_reference(lines: list[Line]) -> list[Line]:
        return [line for line in lines if getattr(line, "name", None) != "immediate-tasks"]

    _import(store, _changed(export_bytes(source), without_reference))
    assert store.realm("acme").references.fetch("immediate-tasks").pointer is None


def test_the_origin_of_a_realm_does_not_travel_on(source: Store, store: Store) -> None:
    first = _import(store, export_bytes(source))
    again = open_store(clock=ManualClock(LATER))
    second = _import(again, export_bytes(store))
    assert second.header.properties == {"owner": "jane"}
    assert second.end.hash == first.end.hash


def test_two_imports_at_once_make_one_realm(store: Store, source: Store, data: bytes) -> None:
    class Pipe(io.BytesIO):
        """Lets another import go first, in the middle of this one."""

        done = False

        def readinto(self, buffer: object) -> int:
            if self.tell() > len(data) // 2 and not self.done:
                self.done = True
                _import(store, data)
            return super().readinto(buffer)  # type: ignore[arg-type]

    pipe = io.BufferedReader(Pipe(data), 1_000)
    with pytest.raises((ContendedError, RefusedError)):
        import_realm(store, pipe, clock=ManualClock(LATER))
    assert _state(store) is RealmStatus.ACTIVE
    assert content_hash(store.realm("acme")) == content_hash(source.realm("acme"))
