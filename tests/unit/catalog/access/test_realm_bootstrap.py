from __future__ import annotations

import pytest

from lakesweep.catalog import TYPES, Catalogs
from lakesweep.catalog.access.access_control import AccessControl
from lakesweep.catalog.access.realm_bootstrap import ADMIN_ROLES, bootstrap_realm
from lakesweep.catalog.grants import Privilege
from lakesweep.catalog.principals import Credentials
from lakesweep.clock import ManualClock
from lakesweep.errors import StoreError
from lakesweep.store import Realm, Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.realms.registry import RealmStatus
from tests.moments import NOON


@pytest.fixture
def store() -> Store:
    return Store(MemoryBackend(), types=TYPES, clock=ManualClock(NOON))


def test_a_new_realm_has_a_root_admin_roles_and_a_principal_that_may_manage_it(
    store: Store,
) -> None:
    made: list[Credentials] = []
    store.create_realm("acme", fill=lambda realm: made.append(bootstrap_realm(realm)))
    catalogs = Catalogs(store.realm("acme"))
    root = catalogs.principals.login(made[0].client_id, made[0].secret)
    assert catalogs.root().version == 1
    assert {role.name for role in catalogs.principal_roles.list().items} == set(ADMIN_ROLES)
    assert AccessControl(catalogs).may(root, Privilege.MANAGE_REALM)


def test_a_realm_is_active_only_when_all_of_it_is_there(store: Store) -> None:
    seen: list[RealmStatus] = []

    def fail(realm: Realm) -> None:
        bootstrap_realm(realm)
        seen.append(store.realms.get(realm.name).status)
        raise StoreError("the database went away")

    with pytest.raises(StoreError):
        store.create_realm("acme", fill=fail)
    assert (seen, store.realms.get("acme").status) == (
        [RealmStatus.INITIALIZING],
        RealmStatus.INITIALIZING,
    )
    made: list[Credentials] = []
    store.create_realm("acme", fill=lambda realm: made.append(bootstrap_realm(realm)))
    catalogs = Catalogs(store.realm("acme"))
    assert catalogs.principals.login(made[0].client_id, made[0].secret).name == "root"
