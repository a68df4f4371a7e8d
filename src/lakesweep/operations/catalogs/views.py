"""Catalog entities, grants and policy mappings as results of operations.

An id is text, because many JSON parsers cannot hold such large numbers. Fields that an entity does
not have are unset, and absent from its JSON.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from lakesweep.app import App
from lakesweep.catalog import Catalogs, Entity
from lakesweep.catalog.entities import EntityType, kind_of
from lakesweep.clock import moment
from lakesweep.redaction import masked_settings

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
