"""Catalog entities, grants and policy mappings as results of operations.

An id is text, because many JSON parsers cannot hold such large numbers. Fields that an entity does
not have are unset, and absent from its JSON.

Names of entities, principals and roles are resolved to grant targets, and back.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from lakesweep.app import App
from lakesweep.catalog import Catalogs, Entity
from lakesweep.catalog.entities import EntityType, kind_of
from lakesweep.clock import moment
from lakesweep.errors import EntityMissingError, ReferenceMissingError, UsageError
from lakesweep.redaction import masked_settings

if TYPE_CHECKING:
    from lakesweep.catalog import Catalog, Catalogs, Principal
    from lakesweep.catalog.containers.container import EntityContainer
    from lakesweep.catalog.grants import EntityRef, Grants


Text = str | UnsetType
View = TypeVar("View", bound="EntityView")


class EntityDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What depends on the kind of an entity."""

    location: Text = UNSET
    status: Text = UNSET
    purging_since: datetime | UnsetType = UNSET
    metadata_location: Text = UNSET
    format: Text = UNSET
    type: Text = UNSET
    content: Text = UNSET
    description: Text = UNSET
    client_id: Text = UNSET

    @classmethod
    def of(cls, entity: Entity) -> EntityDetails:
        """The details that an entity has; empty ones are left out."""
        given = {name: getattr(entity, name, None) for name in cls.__struct_fields__}
        since = given.pop("purging_since")
        texts = {name: str(value) for name, value in given.items() if value}
        return cls(**texts, purging_since=UNSET if since is None else moment(since))


class EntityLine(msgspec.Struct, frozen=True, kw_only=True):
    """One entity of a list, by its full name."""

    name: str
    kind: EntityType
    id: str
    version: int
    created: datetime
    updated: datetime
    properties: dict[str, str]
    details: EntityDetails

    @classmethod
    def of(cls, name: str, entity: Entity) -> EntityLine:
        return cls(
            name=name,
            kind=kind_of(entity),
            id=str(entity.id),
            version=entity.version,
            created=moment(entity.created_at),
            updated=moment(entity.updated_at),
            properties=masked_settings(entity.properties),
            details=EntityDetails.of(entity),
        )


class EntityView(EntityDetails, frozen=True, kw_only=True):
    """One entity on its own. `status` is that of a change, or of a catalog."""

    name: str
    kind: EntityType
    id: str
    version: int
    created: datetime
    updated: datetime
    properties: dict[str, str]

    @classmethod
    def named(cls, name: str, entity: Entity, *, status: Text = UNSET) -> EntityView:
        """The view of an entity; `status` says what became of it."""
        line = EntityLine.of(name, entity)
        details = msgspec.structs.asdict(line.details)
        common = {each: getattr(line, each) for each in _COMMON}
        return cls(**{**details, **common, **({} if status is UNSET else {"status": status})})


_COMMON = ("name", "kind", "id", "version", "created", "updated", "properties")


class TableView(EntityView, frozen=True, kw_only=True):
    """A table or view, with what its metadata file said if it was read."""

    uuid: str | UnsetType | None = UNSET
    format_version: int | UnsetType = UNSET
    snapshots: int | UnsetType = UNSET
    gc_enabled: bool | UnsetType = UNSET


class PrincipalSecretView(EntityView, frozen=True, kw_only=True):
    """A principal with its new secret, which is not stored and cannot be shown again."""

    secret: str


class CatalogView(EntityView, frozen=True, kw_only=True):
    """A catalog with its settings; the counts are unset unless it is shown."""

    keep_dropped: str
    allow_overlaps: bool
    generic_table: int | UnsetType = UNSET
    namespace: int | UnsetType = UNSET
    policy: int | UnsetType = UNSET
    table: int | UnsetType = UNSET
    view: int | UnsetType = UNSET
    dropped: int | UnsetType = UNSET


class CatalogList(msgspec.Struct, frozen=True):
    """All catalogs of a realm."""

    catalogs: tuple[EntityView, ...]


class EntityPageView(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a listing; `token` continues it, None after the last page."""

    entities: tuple[EntityView, ...]
    token: str | None


class DroppedView(msgspec.Struct, frozen=True, kw_only=True):
    """A dropped entity; `until` then it keeps its files."""

    name: str
    kind: EntityType
    id: str
    dropped: datetime
    until: datetime


class GrantView(msgspec.Struct, frozen=True, kw_only=True):
    """The privileges that one principal or role has on something."""

    on: str
    to: str
    privileges: tuple[str, ...]


class MappingView(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that is attached to a target."""

    policy: str
    type: str
    target: str
    parameters: dict[str, str]


def extend(kind: type[View], view: EntityView, **more: object) -> View:
    """The same entity as a larger view, with more fields."""
    return kind(**{**msgspec.structs.asdict(view), **more})


def open_catalogs(app: App, realm: str | None) -> Catalogs:
    """The catalogs of an active realm; None is the configured one."""
    return Catalogs(app.store.realm(app.config.store.realm if realm is None else realm))


def split_entity(text: str) -> tuple[str, tuple[str, ...]]:
    """The catalog and the path of a name."""
    from lakesweep.catalog.entities import split

    catalog, *path = split(text)
    if not path:
        raise UsageError(
            f"{text!r} names a catalog only", hint=f"write {text}.NAME for something in it"
        )
    return catalog, tuple(path)


def full_name(catalog: str, path: tuple[str, ...]) -> str:
    """A name behind its catalog, as people write it."""
    from lakesweep.catalog.entities import join

    return join((catalog, *path))


def securable(catalogs: Catalogs, text: str) -> EntityRef:
    """A catalog, or something in one, as an end of a grant or mapping."""
    from lakesweep.catalog.entities import split
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
    from lakesweep.catalog.entities import split
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
