"""Namespaces of a warehouse, and their properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from lakesweep.catalog.commits import Create, Drop, Update
from lakesweep.catalog.entities import EntityType, Namespace
from lakesweep.catalog.warehouse.places import check_place, split_location
from lakesweep.catalog.warehouse.problems import (
    Path,
    ProblemType,
    WarehouseError,
    dotted,
    name_taken,
    no_namespace,
)
from lakesweep.catalog.warehouse.warehouse import IcebergWarehouse, checked
from lakesweep.errors import (
    EntityChangedError,
    EntityExistsError,
    EntityMissingError,
    RefusedError,
)

_TRIES = 5


class PropertyChanges(msgspec.Struct, frozen=True):
    """What became of an update of properties: keys that were set, removed, or not there."""

    updated: tuple[str, ...]
    removed: tuple[str, ...]
    missing: tuple[str, ...]


def create_namespace(
    warehouse: IcebergWarehouse, path: Path, properties: Mapping[str, str]
) -> Mapping[str, str]:
    """Create a namespace; those above it must exist. Returns its properties."""
    location, others = split_location(properties)
    if location is not None:
        check_place(warehouse.catalog, location)
    what = Namespace(location=location, properties=others)
    answer = msgspec.json.encode({"namespace": path, "properties": properties_of(what)})
    try:
        warehouse.apply([Create(checked(path), what)], answer)
    except EntityMissingError:
        raise no_namespace(path[:-1]) from None
    except EntityExistsError:
        found = warehouse.look().entries.find(path)
        kind = found.named.kind if found else EntityType.NAMESPACE
        raise name_taken(EntityType.NAMESPACE, kind, path) from None
    return properties_of(what)


def load_namespace(warehouse: IcebergWarehouse, path: Path) -> Mapping[str, str]:
    """The properties of a namespace."""
    return properties_of(_find(warehouse, path))


def drop_namespace(warehouse: IcebergWarehouse, path: Path) -> None:
    """Drop an empty namespace."""
    try:
        drop = Drop(checked(path), kind=EntityType.NAMESPACE)
        warehouse.apply([drop])
    except EntityMissingError:
        raise no_namespace(path) from None
    except RefusedError as error:
        if error.guard != "not-empty":
            raise
        raise WarehouseError(
            ProblemType.NAMESPACE_NOT_EMPTY, f"Namespace {dotted(path)} is not empty"
        ) from None


def update_properties(
    warehouse: IcebergWarehouse, path: Path, removals: Sequence[str], updates: Mapping[str, str]
) -> PropertyChanges:
    """Set and remove properties, in one change."""
    both = sorted({*removals} & updates.keys())
    if both:
        raise WarehouseError(
            ProblemType.UNPROCESSABLE,
            f"Invalid namespace property update: {both[0]} is both set and removed",
        )
    if "location" in updates:
        check_place(warehouse.catalog, updates["location"])
    with warehouse.turn([path]):
        return _set_properties(warehouse, path, removals, updates)


def _set_properties(
    warehouse: IcebergWarehouse, path: Path, removals: Sequence[str], updates: Mapping[str, str]
) -> PropertyChanges:
    """Make the change to what is there, also if others change it."""
    gone = dict.fromkeys(removals)
    for _ in range(_TRIES):
        before = _find(warehouse, path)
        had = properties_of(before)
        kept = {name: value for name, value in had.items() if name not in removals}
        location, others = split_location({**kept, **updates})
        after = msgspec.structs.replace(before, location=location, properties=others)
        changes = PropertyChanges(
            tuple(updates),
            tuple(name for name in gone if name in had),
            tuple(name for name in gone if name not in had),
        )
        try:
            update = Update(path, after, before.version)
            warehouse.apply([update], msgspec.json.encode(changes))
        except EntityChangedError:
            continue
        except EntityMissingError:
            raise no_namespace(path) from None
        return changes
    raise WarehouseError(ProblemType.UNAVAILABLE, "the namespace is being changed by others")


def properties_of(namespace: Namespace) -> dict[str, str]:
    """The properties as clients see them: the location is one of them."""
    own = {} if namespace.location is None else {"location": namespace.location}
    return {**namespace.properties, **own}


def _find(warehouse: IcebergWarehouse, path: Path) -> Namespace:
    found = warehouse.look().find(checked(path), EntityType.NAMESPACE)
    if not isinstance(found, Namespace):
        raise no_namespace(path)
    return found
