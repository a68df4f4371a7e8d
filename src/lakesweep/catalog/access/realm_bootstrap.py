"""What a realm needs before anyone can use it: its root, admin roles, and a first principal."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.commits import Create
from lakesweep.catalog.entities import PrincipalRole
from lakesweep.catalog.grants import REALM, Privilege, entity_ref
from lakesweep.catalog.principals import Credentials
from lakesweep.errors import EntityExistsError
from lakesweep.store import Realm

#: The first principal, and the role that it has.
FIRST_PRINCIPAL = "root"
REALM_ADMIN = "realm-admin"

#: The roles that every realm starts with, and their privileges on the whole realm.
ADMIN_ROLES: Mapping[str, tuple[Privilege, ...]] = {
    REALM_ADMIN: (Privilege.MANAGE_REALM,),
    "catalog-admin": (Privilege.CREATE_CATALOG, Privilege.MANAGE_CATALOG),
}


def bootstrap_realm(realm: Realm) -> Credentials:
    """Fill a new realm; the credentials of its first principal, whose secret is not stored.

    Every step may be repeated, after a crash or by another process. A principal that exists already
    gets one more secret, since no one may have seen the first.
    """
    catalogs = Catalogs(realm)
    catalogs.set_root(catalogs.root().properties)
    for name, privileges in ADMIN_ROLES.items():
        with suppress(EntityExistsError):
            catalogs.principal_roles.apply([Create((name,), PrincipalRole())])
        role = catalogs.principal_roles.snapshot(fresh=True).get((name,))
        catalogs.grants.grant(REALM, entity_ref(role), privileges)
    credentials = _first_credentials(catalogs)
    principal = catalogs.principals.snapshot(fresh=True).get((FIRST_PRINCIPAL,))
    admin = catalogs.principal_roles.snapshot(fresh=True).get((REALM_ADMIN,))
    catalogs.grants.grant(entity_ref(admin), entity_ref(principal), [Privilege.USE_ROLE])
    return credentials


def _first_credentials(catalogs: Catalogs) -> Credentials:
    try:
        return catalogs.principals.create(FIRST_PRINCIPAL)[1]
    except EntityExistsError:
        return catalogs.principals.rotate(FIRST_PRINCIPAL)
