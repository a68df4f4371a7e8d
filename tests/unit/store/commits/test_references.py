from __future__ import annotations

import pytest

from lakesweep.clock import ManualClock, micros
from lakesweep.errors import ReferenceExistsError, ReferenceMissingError, RefusedError
from lakesweep.store import reserved_names
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.commits.references import RECENT_POINTERS, References
from tests.moments import NOON


@pytest.fixture
def references() -> References:
    return References(MemoryBackend(), "acme", ManualClock(NOON))


def test_a_new_reference_knows_when_it_was_created(references: References) -> None:
    created = references.create("main")
    assert references.fetch("main") == created
    assert (created.pointer, created.version, created.recent) == (None, 0, ())
    assert created.created_at == micros(NOON)


def test_a_name_is_given_once(references: References) -> None:
    references.create("main", 1)
    with pytest.raises(ReferenceExistsError, match="'main' of realm acme already exists"):
        references.create("main", 2)


def test_a_missing_reference_is_named(references: References) -> None:
    with pytest.raises(ReferenceMissingError, match="realm acme has no reference 'main'"):
        references.fetch_for_update("main")


def test_a_reference_without_its_head_names_the_command_that_mends_it(
    references: References,
) -> None:
    error = references.missing_head(references.create("my tables", 7))
    assert error.message == "the head 7 of reference 'my tables' is missing"
    assert error.hint.startswith("lakesweep store recover 'my tables' --realm acme ")


def test_all_references_of_the_realm_are_listed(references: References) -> None:
    references.ensure(["b", "a"])
    assert {reference.name for reference in references.list()} == {"a", "b"}


@pytest.mark.parametrize("existing", [0, 1, 2])
@pytest.mark.parametrize("total", [1, 2, 3, 5, 10])
def test_ensuring_names_touches_none_that_is_there(
    references: References, existing: int, total: int
) -> None:
    there = [references.create(f"r{number}", 7) for number in range(min(existing, total))]
    for _ in range(2):
        references.ensure([f"r{number}" for number in range(total)])
    assert [references.fetch(each.name) for each in there] == there
    assert references.fetch(f"r{total - 1}").version == 0


def test_the_first_swap_has_nothing_to_remember(references: References) -> None:
    first = references.swap(references.create("main"), 5)
    assert first is not None
    assert (first.pointer, first.version, first.recent) == (5, 1, ())
    assert references.fetch("main") == first


def test_recent_pointers_grow_and_then_roll(references: References) -> None:
    reference = references.create("main", 0)
    for pointer in range(1, 2 * RECENT_POINTERS + 1):
        swapped = references.swap(reference, pointer)
        assert swapped is not None
        reference = swapped
        newest = range(pointer - 1, max(-1, pointer - 1 - RECENT_POINTERS), -1)
        assert reference.recent == tuple(newest)
    assert references.fetch("main") == reference


def test_a_swap_from_an_old_state_is_lost(references: References) -> None:
    old = references.create("main", 1)
    references.swap(old, 2)
    assert references.swap(old, 3) is None
    assert references.fetch("main").pointer == 2


def test_a_swap_from_a_deleted_and_created_reference_is_lost() -> None:
    clock = ManualClock(NOON)
    references = References(MemoryBackend(), "acme", clock)
    old = references.create("main", 1)
    references.delete(old)
    clock.sleep(1)
    references.create("main", 1)
    assert references.swap(old, 2) is None


def test_a_swap_must_move(references: References) -> None:
    with pytest.raises(ValueError, match="already points to 1"):
        references.swap(references.create("main", 1), 1)


def test_a_reference_that_moved_is_not_deleted(references: References) -> None:
    old = references.create("main", 1)
    new = references.swap(old, 2)
    assert new is not None
    assert not references.delete(old)
    assert references.delete(new)
    with pytest.raises(ReferenceMissingError):
        references.fetch("main")


@pytest.mark.parametrize("realm", ["acme", reserved_names.SYSTEM_REALM])
def test_references_that_a_realm_needs_are_not_deleted(realm: str) -> None:
    references = References(MemoryBackend(), realm, ManualClock(NOON))
    for name in reserved_names.standing_names(realm):
        with pytest.raises(RefusedError, match="needs its reference"):
            references.delete(references.create(name))


@pytest.mark.parametrize("name", ["", "n" * 1_001, "\u00e4" * 501, "\ud800"])
def test_names_that_no_database_could_hold_are_refused(references: References, name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - encoding raises one with a text of its own
        references.create(name)


def test_the_names_are_those_of_the_requirements() -> None:
    assert reserved_names.standing_names(reserved_names.SYSTEM_REALM) == ("realms",)
    assert reserved_names.standing_names("acme") == (
        *("root", "catalogs", "principals", "principal-roles", "grants"),
        *("immediate-tasks", "policy-mappings"),
    )
    catalog = [
        reserved_names.catalog_roles(7),
        reserved_names.catalog_content(7),
        reserved_names.catalog_grants(7),
    ]
    assert catalog == ["cat/7/roles", "cat/7/heads/main", "cat/7/grants"]
    assert reserved_names.SYSTEM_REALM.startswith(reserved_names.RESERVED)
