"""Resolve names of catalog entities, principals and roles to grant targets, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakesweep.errors import EntityMissingError, ReferenceMissingError, UsageError

if TYPE_CHECKING:
    from lakesweep.catalog import Catalog, Catalogs, Principal
    from lakesweep.catalog.container import EntityContainer
    from lakesweep.catalog.grants import EntityRef, Grants


def split_entity(text: str) -> tuple[str, tuple[str, ...]]:
    """The catalog and the path of a name."""
    from lakesweep.catalog.entity_names import split

    catalog, *path = split(text)
    if not path:
        raise UsageError(
            f"{text!r} names a catalog only", hint=f"write {text}.NAME for something in it"
        )
    return catalog, tuple(path)


def full_name(catalog: str, path: tuple[str, ...]) -> str:
    """A name behind its catalog, as people write it."""
    from lakesweep.catalog.entity_names import join

    return join((catalog, *path))


def securable(catalogs: Catalogs, text: str) -> EntityRef:
    """A catalog, or something in one, as an end of a grant or mapping."""
    from lakesweep.catalog.entity_names import split
    from lakesweep.catalog.grants import entity_ref

    top, *path = split(text)
    catalog = catalogs.open(top)
    if not path:
        return entity_ref(catalog.definition)
    return entity_ref(catalog.snapshot(fresh=True).get(tuple(path)), catalog.id)


def path_within(catalog: Catalog, text: str) -> tuple[str, ...]:
    """The path of a full name in this catalog."""
    other, path = split_entity(text)
    if other != catalog.name:
        raise UsageError(
            f"{text} is in another catalog", hint=f"name a place in catalog {catalog.name}"
        )
    return path


def resolve_target(catalogs: Catalogs, text: str) -> EntityRef:
    """One end of a grant, as it is written."""
    from lakesweep.catalog.entity_names import split
    from lakesweep.catalog.grants import REALM, entity_ref

    start, colon, name = text.partition(":")
    if text == "realm":
        return REALM
    if not colon:
        return securable(catalogs, text)
    if start == "principal":
        return entity_ref(find_principal(catalogs, name))
    if start != "role":
        raise UsageError(f"{text!r} says not what it is", hint="write role:NAME or principal:NAME")
    parts = split(name)
    if len(parts) == 1:
        return entity_ref(catalogs.principal_roles.snapshot(fresh=True).get(parts))
    top, path = split_entity(name)
    catalog = catalogs.open(top)
    return entity_ref(catalog.roles.snapshot(fresh=True).get(path), catalog.id)


def target_name(catalogs: Catalogs, end: EntityRef) -> str:
    """One end of a grant as it would be written; its id where it is gone."""
    from lakesweep.catalog import EntityType

    if end.kind is EntityType.ROOT:
        return "realm"
    try:
        match end.kind:
            case EntityType.CATALOG:
                return catalogs.open_id(end.id).name
            case EntityType.PRINCIPAL:
                return f"principal:{catalogs.principals.by_id(end.id).name}"
            case EntityType.PRINCIPAL_ROLE:
                return f"role:{catalogs.principal_roles.by_id(end.id).name}"
            case _:
                return _name_in_catalog(catalogs, end)
    except (EntityMissingError, ReferenceMissingError):
        return f"{end.kind.words} {end.id}, which is gone"


def _name_in_catalog(catalogs: Catalogs, end: EntityRef) -> str:
    from lakesweep.catalog import EntityType

    catalog = catalogs.open_id(end.catalog)
    if end.kind is EntityType.CATALOG_ROLE:
        return f"role:{full_name(catalog.name, (catalog.roles.by_id(end.id).name,))}"
    view = catalog.snapshot()
    return full_name(catalog.name, view.path(view.by_id(end.id)))


def find_principal(catalogs: Catalogs, name: str) -> Principal:
    from lakesweep.catalog import EntityType, Principal

    entity = catalogs.principals.snapshot(fresh=True).get((name,), EntityType.PRINCIPAL)
    assert isinstance(entity, Principal)
    return entity


def grants_of(catalogs: Catalogs, what: EntityRef) -> Grants:
    from lakesweep.catalog import EntityType

    number = what.id if what.kind is EntityType.CATALOG else what.catalog
    return catalogs.open_id(number).grants if number else catalogs.grants


def role_container(catalogs: Catalogs, catalog: str | None) -> EntityContainer[Any]:
    return catalogs.principal_roles if catalog is None else catalogs.open(catalog).roles
