"""Polaris' management API: catalogs, principals and roles, over those of the realm."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.commits import Create, Drop, Update
from lakesweep.catalog.containers.container import EntityContainer
from lakesweep.catalog.entities import (
    CatalogRole,
    Entity,
    PrincipalRole,
)
from lakesweep.catalog.grants import Privilege
from lakesweep.catalog.principals import Credentials
from lakesweep.catalog.warehouse.places import ALLOWED
from lakesweep.server.iceberg.call import IcebergCall, IcebergReply, encoded
from lakesweep.server.iceberg.managed import (
    NamedEntityBody,
    catalog_of,
    managed,
    managed_in_catalog,
    show_all,
    show_entity,
    stamped,
)

_BASE, _CREATED = "default-base-location", HTTPStatus.CREATED


class StorageBody(msgspec.Struct, frozen=True, rename="camel"):
    """Where a catalog may keep its tables. What kind of store that is, its addresses say."""

    allowed_locations: tuple[str, ...] = ()


class CatalogBody(msgspec.Struct, frozen=True, rename="camel"):
    """A catalog."""

    name: str
    properties: dict[str, str] = {}
    storage_config_info: StorageBody = StorageBody()


class NewCatalogBody(msgspec.Struct, frozen=True):
    """A catalog to be created."""

    catalog: CatalogBody


class EntityChangeBody(msgspec.Struct, frozen=True, rename="camel"):
    """New properties of something that has not changed since."""

    current_entity_version: int
    properties: dict[str, str] | None = None
    storage_config_info: StorageBody | None = None


# Catalogs


def _shown_catalog(catalog: Catalog) -> dict[str, Any]:
    definition = catalog.definition
    location = definition.location or ""
    others = definition.properties.get(ALLOWED, "").split()
    kinds = {"s3": "S3", "s3a": "S3", "gs": "GCS", "abfs": "AZURE", "abfss": "AZURE"}
    return {
        **stamped(definition),
        "type": "INTERNAL",
        "properties": {**definition.properties, _BASE: location},
        "storageConfigInfo": {
            "storageType": kinds.get(location.partition("://")[0], "FILE"),
            "allowedLocations": [each for each in (location, *others) if each],
        },
    }


@managed()
def list_catalogs(call: IcebergCall) -> IcebergReply:
    """All catalogs in use."""
    found = (each for each in call.catalogs.every(fresh=True) if each.is_active)
    return encoded({"catalogs": [_shown_catalog(each) for each in found]})


def _settings(
    properties: dict[str, str], storage: StorageBody | None
) -> tuple[str | None, dict[str, str]]:
    others = dict(properties)
    location = others.pop(_BASE, None)
    if storage is not None and storage.allowed_locations:
        others[ALLOWED] = " ".join(each for each in storage.allowed_locations if each != location)
    return location, {name: value for name, value in others.items() if value or name != ALLOWED}


@managed(Privilege.CREATE_CATALOG)
def create_catalog(call: IcebergCall) -> IcebergReply:
    """Create a catalog."""
    given = call.decode(NewCatalogBody).catalog
    location, others = _settings(given.properties, given.storage_config_info)
    made = call.catalogs.create(
        given.name, location=location, properties=others, author=call.caller.name
    )
    return IcebergReply(msgspec.json.encode(_shown_catalog(made)), _CREATED)


@managed()
def load_catalog(call: IcebergCall) -> IcebergReply:
    """One catalog."""
    return encoded(_shown_catalog(catalog_of(call)))


@managed()
def update_catalog(call: IcebergCall) -> IcebergReply:
    """Change its properties, and where its tables may lie."""
    given, catalog = call.decode(EntityChangeBody), catalog_of(call)
    before = catalog.definition
    properties = before.properties if given.properties is None else given.properties
    location, others = _settings(properties, given.storage_config_info)
    call.catalogs.update(
        catalog,
        location=location,
        properties=others,
        version=given.current_entity_version,
        author=call.caller.name,
    )
    return encoded(_shown_catalog(call.catalogs.open_id(catalog.id, fresh=True)))


@managed()
def drop_catalog(call: IcebergCall) -> IcebergReply:
    """Drop an empty catalog."""
    call.catalogs.drop(catalog_of(call).name, author=call.caller.name)
    return IcebergReply()


# Principals


def _with_secret(principal: Entity, credentials: Credentials) -> dict[str, Any]:
    secret = {"clientId": credentials.client_id, "clientSecret": credentials.secret}
    return {"principal": show_entity(principal), "credentials": secret}


@managed()
def list_principals(call: IcebergCall) -> IcebergReply:
    """All principals."""
    return encoded({"principals": show_all(call.catalogs.principals)})


class NewPrincipalRequest(msgspec.Struct, frozen=True):
    """A principal to be created."""

    principal: NamedEntityBody


@managed()
def create_principal(call: IcebergCall) -> IcebergReply:
    """Create a principal; its secret is shown this once."""
    given = call.decode(NewPrincipalRequest).principal
    made = call.catalogs.principals.create(given.name, given.properties)
    return IcebergReply(msgspec.json.encode(_with_secret(*made)), _CREATED)


@managed()
def rotate(call: IcebergCall) -> IcebergReply:
    """A new secret; the previous one stays valid until the next rotation."""
    name = call.name("principal")
    credentials = call.catalogs.principals.rotate(name)
    principal = call.catalogs.principals.snapshot(fresh=True).get((name,))
    return encoded(_with_secret(principal, credentials))


# Entities of the realm and of catalogs: the same for principals and both kinds of roles


def _container(call: IcebergCall) -> tuple[EntityContainer[Any], str]:
    """Where the entity of a path is, and its name."""
    if "catalog-role" in call.parts:
        return catalog_of(call).roles, call.name("catalog-role")
    if "principal-role" in call.parts:
        return call.catalogs.principal_roles, call.name("principal-role")
    return call.catalogs.principals, call.name("principal")


def _entity(call: IcebergCall) -> Entity:
    container, name = _container(call)
    return container.snapshot(fresh=True).get((name,))


def _load(call: IcebergCall) -> IcebergReply:
    return encoded(show_entity(_entity(call)))


def _update(call: IcebergCall) -> IcebergReply:
    given, (container, name) = call.decode(EntityChangeBody), _container(call)
    before = container.snapshot(fresh=True).get((name,))
    after = msgspec.structs.replace(before, properties=given.properties or {})
    container.apply([Update((name,), after, given.current_entity_version)], author=call.caller.name)
    return encoded(show_entity(container.snapshot(fresh=True).get((name,))))


def _drop(call: IcebergCall) -> IcebergReply:
    container, name = _container(call)
    container.apply([Drop((name,))], author=call.caller.name)
    return IcebergReply()


load_entity, update_entity, drop_entity = (managed()(each) for each in (_load, _update, _drop))
load_catalog_role, update_catalog_role, drop_catalog_role = (
    managed_in_catalog(each) for each in (_load, _update, _drop)
)


class NewPrincipalRoleBody(msgspec.Struct, frozen=True, rename="camel"):
    """A principal role."""

    principal_role: NamedEntityBody


class NewCatalogRoleBody(msgspec.Struct, frozen=True, rename="camel"):
    """A catalog role."""

    catalog_role: NamedEntityBody


@managed()
def list_principal_roles(call: IcebergCall) -> IcebergReply:
    """All roles of the realm."""
    return encoded({"roles": show_all(call.catalogs.principal_roles)})


def _create_role(
    call: IcebergCall, roles: EntityContainer[Any], given: NamedEntityBody, what: Entity
) -> IcebergReply:
    made = msgspec.structs.replace(what, properties=given.properties)
    roles.apply([Create((given.name,), made)], author=call.caller.name)
    body = show_entity(roles.snapshot(fresh=True).get((given.name,)))
    return IcebergReply(msgspec.json.encode(body), _CREATED)


@managed()
def create_principal_role(call: IcebergCall) -> IcebergReply:
    """Create a role of the realm."""
    given = call.decode(NewPrincipalRoleBody).principal_role
    return _create_role(call, call.catalogs.principal_roles, given, PrincipalRole())


@managed_in_catalog
def list_catalog_roles(call: IcebergCall) -> IcebergReply:
    """All roles of a catalog."""
    return encoded({"roles": show_all(catalog_of(call).roles)})


@managed_in_catalog
def create_catalog_role(call: IcebergCall) -> IcebergReply:
    """Create a role of a catalog."""
    given = call.decode(NewCatalogRoleBody).catalog_role
    return _create_role(call, catalog_of(call).roles, given, CatalogRole())
