"""What the endpoints of Polaris' management API share.

A principal that may manage the realm may do all of it; the roles and grants of a catalog need
`manage-access` on it only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import msgspec

from lakesweep.catalog.access.access_control import AccessControl
from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.containers.container import EntityContainer
from lakesweep.catalog.entities import (
    Entity,
    Principal,
)
from lakesweep.catalog.grants import Privilege
from lakesweep.catalog.warehouse.problems import ProblemType, WarehouseError
from lakesweep.errors import EntityChangedError, EntityExistsError, EntityMissingError
from lakesweep.server.iceberg.call import IcebergCall, IcebergReply

_PAGE = 1_000
Handler = Callable[[IcebergCall], IcebergReply]


class NamedEntityBody(msgspec.Struct, frozen=True):
    """A principal or a role by its name."""

    name: str
    properties: dict[str, str] = {}


def managed(privilege: Privilege = Privilege.MANAGE_REALM) -> Callable[[Handler], Handler]:
    """A handler for those who have a privilege on the realm, or on the catalog of the path."""

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        def answer(call: IcebergCall) -> IcebergReply:
            _check(call, privilege)
            try:
                return handler(call)
            except EntityExistsError as error:
                raise WarehouseError(ProblemType.ALREADY_EXISTS, error.message) from None
            except EntityChangedError as error:
                raise WarehouseError(ProblemType.COMMIT_FAILED, error.message) from None
            except EntityMissingError as error:
                raise WarehouseError(ProblemType.NOT_FOUND, error.message) from None

        return answer

    return decorate


def _check(call: IcebergCall, privilege: Privilege) -> None:
    caller = call.caller
    if caller.principal is None:
        allowed = caller.covers(ServiceRole.ADMIN)
    else:
        catalog = None
        if "catalog" in call.parts and privilege is Privilege.MANAGE_ACCESS:
            # Names are not told apart from absent ones to those who may not see them.
            catalog = next(_active(call, call.name("catalog")), None)
        allowed = AccessControl(call.catalogs).may(caller.principal, privilege, catalog)
    if not allowed:
        raise WarehouseError(ProblemType.FORBIDDEN, f"{caller.name} needs {privilege}")


def _active(call: IcebergCall, name: str) -> Iterator[Catalog]:
    return (each for each in call.catalogs.every(fresh=True) if each.name == name)


def catalog_of(call: IcebergCall) -> Catalog:
    call.catalogs.snapshot(fresh=True)
    return call.catalogs.open(call.name("catalog"))


def stamped(entity: Entity) -> dict[str, Any]:
    return {
        "name": entity.name,
        "properties": entity.properties,
        "createTimestamp": entity.created_at // 1000,
        "lastUpdateTimestamp": entity.updated_at // 1000,
        "entityVersion": entity.version,
    }


def show_entity(entity: Entity) -> dict[str, Any]:
    shown = stamped(entity)
    return {**shown, "clientId": entity.client_id} if isinstance(entity, Principal) else shown


def show_all(container: EntityContainer[Any]) -> list[dict[str, Any]]:
    found, token = [], None
    container.snapshot(fresh=True)
    while True:
        page = container.list(size=_PAGE, token=token)
        found += [show_entity(each) for each in page.items]
        token = page.token
        if token is None:
            return found


#: For what `manage-access` on the catalog of the path is enough.
managed_in_catalog = managed(Privilege.MANAGE_ACCESS)
