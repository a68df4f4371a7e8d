"""Endpoints of namespaces."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from lakesweep.catalog.entities import EntityType
from lakesweep.catalog.grants import Privilege
from lakesweep.catalog.warehouse.namespaces import (
    create_namespace,
    drop_namespace,
    load_namespace,
    update_properties,
)
from lakesweep.catalog.warehouse.problems import Path, ProblemType, WarehouseError
from lakesweep.server.iceberg.call import SEPARATOR, IcebergCall, IcebergReply, encoded


class NamespaceBody(msgspec.Struct, frozen=True):
    """A namespace to be created."""

    namespace: tuple[str, ...]
    properties: dict[str, str] | None = None


class PropertiesBody(msgspec.Struct, frozen=True):
    """Changes to properties."""

    removals: tuple[str, ...] | None = None
    updates: dict[str, str] | None = None


class NamespaceList(msgspec.Struct, frozen=True, rename="kebab"):
    """Some namespaces of one level."""

    namespaces: tuple[Path, ...]
    next_page_token: str | None = None


def list_all(call: IcebergCall) -> IcebergReply:
    """The namespaces at the top, or in another one."""
    parent = _parent(call)
    call.check(Privilege.LIST, parent)
    page = call.warehouse.names(parent, [EntityType.NAMESPACE], *call.page())
    return encoded(NamespaceList(page.names, page.token))


def create(call: IcebergCall) -> IcebergReply:
    """A new namespace."""
    given = call.decode(NamespaceBody)
    call.check(Privilege.CREATE_NAMESPACE, given.namespace[:-1])
    found = create_namespace(call.warehouse, given.namespace, given.properties or {})
    return encoded({"namespace": given.namespace, "properties": found})


def load(call: IcebergCall) -> IcebergReply:
    """The properties of a namespace."""
    found = load_namespace(call.warehouse, call.namespace)
    return encoded({"namespace": call.namespace, "properties": found})


def exists(call: IcebergCall) -> IcebergReply:
    """Whether a namespace exists."""
    call.warehouse.check_namespace(call.namespace)
    return IcebergReply()


def drop(call: IcebergCall) -> IcebergReply:
    """Drop an empty namespace."""
    drop_namespace(call.warehouse, call.namespace)
    return IcebergReply()


def update(call: IcebergCall) -> IcebergReply:
    """Set and remove properties."""
    given = call.decode(PropertiesBody)
    changes = update_properties(
        call.warehouse, call.namespace, given.removals or (), given.updates or {}
    )
    return encoded(changes)


def _parent(call: IcebergCall) -> Path:
    """The namespace to look into. PyIceberg encodes its name twice."""
    text = call.query.get("parent", "")
    if not text:
        return ()
    path = tuple(text.split(SEPARATOR))
    if "%" in text:
        try:
            call.warehouse.check_namespace(path)
        except WarehouseError as error:
            if error.type is ProblemType.NO_SUCH_NAMESPACE:
                return tuple(unquote(text).split(SEPARATOR))
            raise
    return path
