"""Decisions about access see at once what another process changed, however long caches last."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lakesweep.catalog import TYPES, CatalogRole, Catalogs, Create, Drop, PrincipalRole
from lakesweep.catalog.access.access_control import AccessControl
from lakesweep.catalog.grants import REALM, Privilege, entity_ref
from lakesweep.clock import ManualClock
from lakesweep.errors import EntityMissingError, RefusedError
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.realms.registry import RealmStatus
from tests.moments import NOON

_FOR_EVER = 1e9


@dataclass(frozen=True)
class TwoProcesses:
    """The same realm, opened twice: what one changes, the cache of the other does not know."""

    ours: Catalogs
    theirs: Catalogs
    their_store: Store


@pytest.fixture
def two() -> TwoProcesses:
    backend, clock = MemoryBackend(), ManualClock(NOON)
    first, second = (
        Store(backend, types=TYPES, clock=clock, cache_bytes=2**20, reference_seconds=_FOR_EVER)
        for _ in range(2)
    )
    theirs = Catalogs(first.create_realm("acme"))
    return TwoProcesses(Catalogs(second.realm("acme")), theirs, first)


def test_a_revoked_secret_logs_in_no_more(two: TwoProcesses) -> None:
    _, old = two.theirs.principals.create("jane")
    assert two.ours.principals.login(old.client_id, old.secret).name == "jane"
    new = two.theirs.principals.rotate("jane", revoke=True)
    with pytest.raises(EntityMissingError):
        two.ours.principals.login(old.client_id, old.secret)
    assert two.ours.principals.login(new.client_id, new.secret).name == "jane"


def test_nobody_logs_in_to_a_realm_that_was_deactivated(two: TwoProcesses) -> None:
    _, credentials = two.theirs.principals.create("jane")
    two.ours.principals.login(credentials.client_id, credentials.secret)
    realms = two.their_store.realms
    realms.move(realms.get("acme"), RealmStatus.INACTIVE)
    with pytest.raises(RefusedError, match="inactive"):
        two.ours.principals.login(credentials.client_id, credentials.secret)


def test_a_revoked_grant_gives_nothing_any_more(two: TwoProcesses) -> None:
    jane, _ = two.theirs.principals.create("jane")
    two.theirs.grants.grant(REALM, entity_ref(jane), [Privilege.CREATE_CATALOG])
    access = AccessControl(two.ours)
    assert access.may(jane, Privilege.CREATE_CATALOG)
    two.theirs.grants.revoke(REALM, entity_ref(jane))
    assert not access.may(jane, Privilege.CREATE_CATALOG)


def test_a_dropped_principal_may_do_nothing_any_more(two: TwoProcesses) -> None:
    jane, _ = two.theirs.principals.create("jane")
    two.theirs.grants.grant(REALM, entity_ref(jane), [Privilege.CREATE_CATALOG])
    access = AccessControl(two.ours)
    assert access.may(jane, Privilege.CREATE_CATALOG)
    two.theirs.principals.apply([Drop("jane")])
    assert not access.may(jane, Privilege.CREATE_CATALOG)


def test_a_dropped_role_gives_nothing_any_more(two: TwoProcesses) -> None:
    jane, _ = two.theirs.principals.create("jane")
    shop = two.theirs.create("shop")
    two.theirs.principal_roles.apply([Create("analyst", PrincipalRole())])
    shop.roles.apply([Create("reader", CatalogRole())])
    analyst = entity_ref(two.theirs.principal_roles.get(("analyst",)))
    reader = entity_ref(shop.roles.get(("reader",)), shop.id)
    two.theirs.grants.grant(analyst, entity_ref(jane), [Privilege.USE_ROLE])
    shop.grants.grant(reader, analyst, [Privilege.USE_ROLE])
    catalog = entity_ref(shop.definition, shop.id)
    shop.grants.grant(catalog, reader, [Privilege.LIST])
    access, seen = AccessControl(two.ours), two.ours.open("shop")
    assert access.may(jane, Privilege.LIST, seen)
    shop.roles.apply([Drop("reader")])
    assert not access.may(jane, Privilege.LIST, seen)
    shop.roles.apply([Create("reader", CatalogRole())])
    assert not access.may(jane, Privilege.LIST, seen)
