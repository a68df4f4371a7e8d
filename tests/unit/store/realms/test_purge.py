from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import msgspec
import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import ContendedError, RealmMissingError, RefusedError
from lakesweep.store import Store
from lakesweep.store.backends.backend import Backend, BackendCapabilities
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import ObjectRow, Reference, ReferenceGuard, RowKey
from lakesweep.store.backends.wrapper import BackendWrapper
from lakesweep.store.realms.access import VIEW_SECONDS
from lakesweep.store.realms.purge import ROUNDS, STATE_CHECK_SECONDS, RealmPurger, RealmSize
from lakesweep.store.realms.registry import NAME_SECONDS, RealmDefinition, RealmStatus
from tests.moments import NOON
from tests.stores import Note, Paper, add

TYPES: dict[str, type[msgspec.Struct]] = {"note": Note, "paper": Paper}
#: What a realm has from the beginning, and what two commits add.
OWN_REFERENCES = 7
ROWS = 4


class Meddling(BackendWrapper):
    """A backend that deletes no realm by itself, and lets somebody act before each delete."""

    def __init__(self, backend: Backend, meddle: Callable[[Backend], None]) -> None:
        super().__init__(backend)
        self.meddle = meddle

    @property
    def capabilities(self) -> BackendCapabilities:
        return replace(super().capabilities, deletes_realms=False, atomic_commits=False)

    def delete(self, realm: str, keys: object) -> None:
        super().delete(realm, keys)  # type: ignore[arg-type]
        self.meddle(self._backend)


class HeldUp(BackendWrapper):
    """A backend whose process is held up, once, when it is about to delete a realm or its rows."""

    def __init__(self, backend: Backend, meanwhile: Callable[[], object], atomic: bool) -> None:
        super().__init__(backend)
        self.meanwhile: Callable[[], object] | None = meanwhile
        self.atomic = atomic

    @property
    def capabilities(self) -> BackendCapabilities:
        return replace(
            super().capabilities,
            deletes_realms=self.atomic,
            atomic_commits=self.atomic,
            batch_rows=1,
        )

    def delete_realm(self, realm: str, guard: ReferenceGuard | None = None) -> bool:
        self.hold_up()
        return super().delete_realm(realm, guard)

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        self.hold_up()
        super().delete(realm, keys)

    def hold_up(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def store(clock: ManualClock) -> Iterator[Store]:
    with Store(MemoryBackend(), types=TYPES, clock=clock) as store:
        yield store


def _purging(store: Store, clock: ManualClock, backend: Backend | None = None) -> RealmPurger:
    return RealmPurger(store.realms, backend or store.backend, clock)


def _filled(store: Store, name: str = "acme") -> RealmDefinition:
    """A realm with two commits, which nobody uses any more."""
    realm = store.create_realm(name)
    realm.references.create("main")
    for deed in ("one", "two"):
        realm.commit("main", add(deed), Note)
    return store.realms.move(store.realms.get(name), RealmStatus.INACTIVE)


def _is_empty(store: Store, name: str = "acme") -> bool:
    return name not in store.backend.realms()


def test_what_a_realm_has_is_counted(store: Store, clock: ManualClock) -> None:
    _filled(store)
    assert _purging(store, clock).count("acme") == RealmSize(OWN_REFERENCES + 1, ROWS)


def test_a_purge_deletes_everything_of_one_realm_only(store: Store, clock: ManualClock) -> None:
    other = store.create_realm("other")
    other.commit("root", add("kept"), Note)
    purged = _purging(store, clock).purge(_filled(store))
    assert purged.status is RealmStatus.PURGED
    assert _is_empty(store)
    head = other.head("root", Note)
    assert head is not None
    assert head.value.done == ("kept",)


def test_where_no_realm_goes_by_itself_its_rows_go_one_by_one(
    store: Store, clock: ManualClock
) -> None:
    backend = Meddling(store.backend, lambda _: None)
    assert _purging(store, clock, backend).purge(_filled(store)).status is RealmStatus.PURGED
    assert _is_empty(store)


def test_a_purge_waits_for_those_who_saw_the_realm_before(store: Store, clock: ManualClock) -> None:
    realm = _filled(store)
    before = clock.monotonic()
    _purging(store, clock).purge(realm)
    assert clock.monotonic() - before >= VIEW_SECONDS


def test_an_active_realm_is_not_purged(store: Store, clock: ManualClock) -> None:
    store.create_realm("acme")
    with pytest.raises(RefusedError, match="active; nothing was deleted") as caught:
        _purging(store, clock).purge(store.realms.get("acme"))
    assert "deactivate acme" in caught.value.hint
    assert not _is_empty(store)


def test_a_realm_that_was_never_active_can_be_purged(store: Store, clock: ManualClock) -> None:
    realm = store.realms.create("acme")
    assert _purging(store, clock).purge(realm).status is RealmStatus.PURGED


def test_a_purge_that_was_interrupted_is_gone_on_with(store: Store, clock: ManualClock) -> None:
    realm = store.realms.move(_filled(store), RealmStatus.PURGING)
    assert _purging(store, clock).purge(realm).status is RealmStatus.PURGED
    assert _is_empty(store)


def test_a_purged_realm_stays_as_it_is(store: Store, clock: ManualClock) -> None:
    purged = _purging(store, clock).purge(_filled(store))
    assert _purging(store, clock).purge(purged) is purged


def test_a_realm_that_somebody_else_changed_keeps_its_rows(
    store: Store, clock: ManualClock
) -> None:
    realm = store.realms.move(_filled(store), RealmStatus.PURGING)
    store.realms.set_properties(realm, {"owner": "somebody"})
    with pytest.raises(RefusedError, match="changed by another process"):
        _purging(store, clock).purge(realm)
    assert not _is_empty(store)


def test_what_was_written_too_late_is_deleted_as_well(store: Store, clock: ManualClock) -> None:
    late = iter([True])

    def write_once(backend: Backend) -> None:
        if next(late, False):
            backend.write("acme", [ObjectRow(999, 0, "paper", 0, None, b"")])
            backend.insert_reference("acme", Reference("late", None, 0, 0))

    backend = Meddling(store.backend, write_once)
    assert _purging(store, clock, backend).purge(_filled(store)).status is RealmStatus.PURGED
    assert _is_empty(store)


def test_who_never_stops_writing_keeps_the_realm_from_being_purged(
    store: Store, clock: ManualClock
) -> None:
    written: list[int] = []

    def write(backend: Backend) -> None:
        written.append(len(written))
        backend.write("acme", [ObjectRow(len(written), 0, "paper", 0, None, b"")])

    with pytest.raises(ContendedError, match="keeps writing"):
        _purging(store, clock, Meddling(store.backend, write)).purge(_filled(store))
    assert len(written) == ROUNDS
    assert store.realms.get("acme").status is RealmStatus.PURGING


def test_a_purged_realm_is_forgotten_with_what_came_late(store: Store, clock: ManualClock) -> None:
    purged = _purging(store, clock).purge(_filled(store))
    store.backend.write("acme", [ObjectRow(1, 0, "paper", 0, None, b"")])
    store.backend.insert_reference("acme", Reference("late", None, 0, 0))
    assert _purging(store, clock).delete(purged) == RealmSize(1, 1)
    assert _is_empty(store)
    with pytest.raises(RealmMissingError):
        store.realms.get("acme")


@pytest.mark.parametrize("status", ["inactive", "purging"])
def test_only_a_purged_realm_is_forgotten(store: Store, clock: ManualClock, status: str) -> None:
    realm = _filled(store)
    if status == "purging":
        realm = store.realms.move(realm, RealmStatus.PURGING)
    with pytest.raises(RefusedError, match=f"is {status}"):
        _purging(store, clock).delete(realm)
    assert not _is_empty(store)


def test_a_new_realm_of_the_same_name_loses_nothing_to_a_late_delete(
    store: Store, clock: ManualClock
) -> None:
    purged = _purging(store, clock).purge(_filled(store))
    _purging(store, clock).delete(purged)
    store.create_realm("acme").commit("root", add("new"), Note)
    with pytest.raises(RefusedError):
        _purging(store, clock).delete(purged)
    assert _purging(store, clock).count("acme") == RealmSize(OWN_REFERENCES, 2)


@pytest.mark.parametrize("step", ["purge", "delete"])
def test_a_purge_that_was_held_up_deletes_nothing_of_a_new_realm_of_the_same_name(
    store: Store, clock: ManualClock, step: str
) -> None:
    def make_anew() -> None:
        other = _purging(store, clock)
        other.delete(other.purge(store.realms.get("acme")))
        store.create_realm("acme").commit("root", add("new"), Note)

    realm = _filled(store)
    held_up = _purging(store, clock, HeldUp(store.backend, make_anew, atomic=True))
    if step == "delete":
        realm = _purging(store, clock).purge(realm)
    with pytest.raises(RefusedError, match="is now active"):
        (held_up.purge if step == "purge" else held_up.delete)(realm)
    assert _purging(store, clock).count("acme") == RealmSize(OWN_REFERENCES, 2)


def test_a_purge_is_not_kept_from_its_work_by_changes_of_other_realms(
    store: Store, clock: ManualClock
) -> None:
    backend = HeldUp(store.backend, lambda: store.create_realm("other"), atomic=True)
    assert _purging(store, clock, backend).purge(_filled(store)).status is RealmStatus.PURGED
    assert _is_empty(store)


def test_who_deletes_row_by_row_looks_again_after_it_was_held_up(
    store: Store, clock: ManualClock
) -> None:
    realm = store.realms.move(_filled(store), RealmStatus.PURGING)

    def change() -> None:
        store.realms.set_properties(realm, {"owner": "somebody"})
        clock.sleep(STATE_CHECK_SECONDS)

    purging = _purging(store, clock, HeldUp(store.backend, change, atomic=False))
    with pytest.raises(RefusedError, match="changed by another process"):
        purging.purge(realm)
    assert purging.count("acme").rows == ROWS - 1


def test_without_guards_the_name_of_a_deleted_realm_is_kept_for_a_while(
    clock: ManualClock,
) -> None:
    backend = HeldUp(MemoryBackend(), lambda: None, atomic=False)
    with Store(backend, types=TYPES, clock=clock) as store:
        purging = _purging(store, clock)
        purging.delete(purging.purge(_filled(store)))
        store.create_realm("other")
        clock.sleep(NAME_SECONDS - 1)
        with pytest.raises(RefusedError, match="deleted moments ago"):
            store.create_realm("acme")
        clock.sleep(1)
        assert store.create_realm("acme").head("root", Note) is None
