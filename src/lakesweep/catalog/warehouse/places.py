"""Where tables and views of a warehouse may lie, and where they lie if nobody says so.

A catalog allows its own location, and others that its property `allowed-locations` lists. Whatever
a client asks for is checked in every spelling that some engine or store takes for the same folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from uuid import uuid4

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.containers.locations import location_parts, plain_parts
from lakesweep.catalog.containers.snapshot import ContentSnapshot
from lakesweep.catalog.entities import STORED_KINDS, EntityType, Namespace, kind_of
from lakesweep.catalog.warehouse.metadata_files import addresses_in
from lakesweep.catalog.warehouse.problems import Path, bad_request
from lakesweep.iceberg.document.fields import RawDocument

#: The property of a catalog that lists further places, separated by spaces.
ALLOWED = "allowed-locations"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_PART = 64


def allowed_places(catalog: Catalog) -> tuple[str, ...]:
    """The places that a catalog's tables may lie in."""
    definition = catalog.definition
    own = (definition.location,) if definition.location else ()
    return (*own, *definition.properties.get(ALLOWED, "").split())


def is_allowed(catalog: Catalog, address: str) -> bool:
    """Whether a place lies in one that the catalog allows, however it is spelled."""
    return any(_lies_in(address, place) for place in allowed_places(catalog))


def check_place(catalog: Catalog, address: str, what: str = "location") -> None:
    """WarehouseError unless a place lies in one that the catalog allows, however it is spelled."""
    if not is_allowed(catalog, address):
        allowed = ", ".join(allowed_places(catalog)) or "none: the catalog has no location"
        raise bad_request(
            f"{what} {address[:200]} is outside of what catalog {catalog.name} allows: {allowed}"
        )


def check_places(catalog: Catalog, before: RawDocument | None, after: RawDocument) -> None:
    """The same for all places that a document newly names."""
    known = {} if before is None else addresses_in(before)
    for name, address in addresses_in(after).items():
        if known.get(name) != address:
            check_place(catalog, address, name)


def check_apart(
    view: ContentSnapshot, own: int | None, before: RawDocument | None, after: RawDocument
) -> None:
    """WarehouseError if a table newly writes beside its location, into that of another entity.

    The catalog itself compares the locations; see `ContentBatch`.
    """
    if view.head.allow_overlaps:
        return
    known = {} if before is None else addresses_in(before)
    for name, address in addresses_in(after).items():
        if name == "location" or known.get(name) == address:
            continue
        for entity, _ in view.at(address):
            if kind_of(entity) in STORED_KINDS and entity.id != own:
                raise bad_request(f"{name} {address[:200]} overlaps the location of another table")


def default_place(catalog: Catalog, view: ContentSnapshot, path: Path) -> str:
    """A folder of its own for a new table: no other table ever has it, whatever its name was."""
    base, below = _base(catalog, view, path[:-1])
    names = "/".join(_safe(part) for part in (*below, path[-1]))
    return f"{base.rstrip('/')}/{names}-{uuid4().hex}"


def _base(catalog: Catalog, view: ContentSnapshot, namespace: Path) -> tuple[str, Path]:
    """The nearest location from a namespace upwards, and the names below it."""
    for depth in range(len(namespace), 0, -1):
        found = view.find(namespace[:depth], EntityType.NAMESPACE)
        if isinstance(found, Namespace) and found.location:
            return found.location, namespace[depth:]
    places = allowed_places(catalog)
    if not places:
        raise bad_request(
            f"catalog {catalog.name} has no location for new tables: lakesweep catalog update"
            f" {catalog.name} --location ADDRESS gives it one"
        )
    return places[0], namespace


def _safe(part: str) -> str:
    """A name as part of a folder's name that every store and engine takes as it is."""
    return _UNSAFE.sub("_", part)[:_LONGEST_PART]


def _lies_in(address: str, place: str) -> bool:
    return all(
        parts(address)[: len(parts(place))] == parts(place)
        for parts in (location_parts, plain_parts)
    )


def split_location(properties: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """The location among the properties of a namespace, and the others."""
    others = dict(properties)
    return others.pop("location", None), others
