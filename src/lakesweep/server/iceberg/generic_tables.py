"""Polaris' endpoints of generic tables: tables of other formats, which nothing here reads."""

from __future__ import annotations

from typing import Any

import msgspec

from lakesweep.catalog.commits import Create, Drop
from lakesweep.catalog.entities import EntityType, GenericTable
from lakesweep.catalog.warehouse.places import check_place, default_place
from lakesweep.catalog.warehouse.problems import Path, name_taken, no_entity, no_namespace
from lakesweep.catalog.warehouse.warehouse import IcebergWarehouse, checked
from lakesweep.errors import EntityExistsError, EntityMissingError
from lakesweep.server.iceberg.call import IcebergCall, IcebergReply, encoded
from lakesweep.server.iceberg.tables import list_kind

_KIND = EntityType.GENERIC_TABLE


class GenericTableBody(msgspec.Struct, frozen=True, rename="kebab"):
    """A table of any format, as it is to be created."""

    name: str
    format: str
    base_location: str | None = None
    doc: str | None = None
    properties: dict[str, str] | None = None


def list_all(call: IcebergCall) -> IcebergReply:
    """The generic tables of a namespace."""
    return list_kind(call, _KIND)


def create(call: IcebergCall) -> IcebergReply:
    """Add a table; without a location it gets one of its own."""
    given, warehouse = call.decode(GenericTableBody), call.warehouse
    path = checked((*call.namespace, given.name))
    view = warehouse.look()
    warehouse.check_free(path, _KIND, view)
    location = given.base_location or default_place(warehouse.catalog, view, path)
    check_place(warehouse.catalog, location, "base-location")
    what = GenericTable(
        format=given.format,
        location=location,
        description=given.doc or "",
        properties=given.properties or {},
    )
    body = {"table": _shown(given.name, what)}
    try:
        warehouse.apply([Create(path, what)], msgspec.json.encode(body))
    except EntityExistsError:
        raise name_taken(_KIND, _kind_at(warehouse, path), path) from None
    except EntityMissingError:
        raise no_namespace(path[:-1]) from None
    return encoded(body)


def load(call: IcebergCall) -> IcebergReply:
    """One table."""
    table = call.warehouse.find(call.path, _KIND)
    assert isinstance(table, GenericTable)
    return encoded({"table": _shown(table.name, table)})


def drop(call: IcebergCall) -> IcebergReply:
    """Drop a table. Its files stay, and it can be brought back for a while."""
    try:
        call.warehouse.apply([Drop(checked(call.path), kind=_KIND)])
    except EntityMissingError:
        raise no_entity(_KIND, call.path) from None
    return IcebergReply()


def _kind_at(warehouse: IcebergWarehouse, path: Path) -> EntityType:
    found = warehouse.look().entries.find(path)
    return found.named.kind if found else _KIND


def _shown(name: str, table: GenericTable) -> dict[str, Any]:
    return {
        "name": name,
        "format": table.format,
        "base-location": table.location,
        "doc": table.description or None,
        "properties": table.properties,
    }
