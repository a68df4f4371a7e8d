"""Entities: what a realm holds, one object each.

An entity keeps its id for life, whatever its name or parent. Every change writes a new object
and increments its version. Callers fill in what is specific to the entity; `id`, `name`,
`parent`, `version` and the timestamps (microseconds since 1970) are filled in for them.

Paths are dotted names from the top of a catalog.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from lakesweep.errors import UsageError
from lakesweep.store import Link

#: A path as callers may write it: its parts, or one text with dots between them.
Name: TypeAlias = str | tuple[str, ...]
MAX_NAME_BYTES = 500
_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
_PATH = re.compile(r'("([^"]|"")+"|[^."]+)(\.("([^"]|"")+"|[^."]+))*')
_PLAIN = re.compile(r'[^."\s]+')


class EntityType(StrEnum):
    """What an entity is."""

    ROOT = "root"
    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"
    GENERIC_TABLE = "generic-table"
    POLICY = "policy"
    PRINCIPAL = "principal"
    PRINCIPAL_ROLE = "principal-role"
    CATALOG_ROLE = "catalog-role"
    TASK = "task"

    @property
    def words(self) -> str:
        """The kind for people."""
        return self.value.replace("-", " ")


#: What keeps files alive: these are remembered for a while after they were dropped.
STORED_KINDS = frozenset({EntityType.TABLE, EntityType.VIEW, EntityType.GENERIC_TABLE})
#: What a catalog contains.
CONTENT_KINDS = STORED_KINDS | {EntityType.NAMESPACE, EntityType.POLICY}
#: The parent of what lies in no namespace, and the id of the realm's root.
NO_PARENT = 0


class Entity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all entities have."""

    id: int = 0
    name: str = ""
    parent: int = NO_PARENT
    version: int = 0
    created_at: int = 0
    updated_at: int = 0
    properties: dict[str, str] = {}


class RootEntity(Entity, frozen=True, kw_only=True):
    """The realm itself, as far as its users can say something of it, or grant something on it."""


class CatalogStatus(StrEnum):
    """The state of a catalog: in use, or being purged."""

    ACTIVE = "active"
    PURGING = "purging"


class CatalogDefinition(Entity, frozen=True, kw_only=True):
    """A catalog. It is being purged since `purging_since`, and ends after its retention."""

    location: str | None = None
    status: CatalogStatus = CatalogStatus.ACTIVE
    purging_since: int | None = None


class Namespace(Entity, frozen=True, kw_only=True):
    """A folder for entities; a `location` is where tables in it lie, unless they say otherwise."""

    location: str | None = None


class TableMemo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a metadata file said when it was read. It never changes, as the file never does."""

    uuid: str | None = None
    format_version: int
    location: str
    size_bytes: int
    gc_enabled: bool = True
    write_paths: tuple[str, ...] = ()
    current_snapshot: int | None = None
    snapshots: int = 0


class Table(Entity, frozen=True, kw_only=True):
    """An Iceberg table: where its metadata file lies, and where its files do.

    Without a `location` it is taken from the place of the metadata file.
    """

    metadata_location: str
    location: str | None = None
    memo: Link | None = None


class View(Entity, frozen=True, kw_only=True):
    """An Iceberg view, in the same way."""

    metadata_location: str
    location: str | None = None
    memo: Link | None = None


class GenericTable(Entity, frozen=True, kw_only=True):
    """A table of any other format, such as delta, hudi or csv, with its files below `location`."""

    format: str
    location: str
    description: str = ""


class CatalogPolicy(Entity, frozen=True, kw_only=True):
    """A rule that can be attached to catalogs, namespaces and tables; `content` is its text."""

    type: str
    content: str = ""
    description: str = ""


class SecretHash(msgspec.Struct, frozen=True):
    """All that is kept of a secret: it proves one, and cannot be turned back."""

    salt: bytes
    hash: bytes
    cost: int


class Principal(Entity, frozen=True, kw_only=True):
    """A user or service that can log in, with up to two secrets while they are being changed."""

    client_id: str = ""
    secrets: tuple[SecretHash, ...] = ()


class PrincipalRole(Entity, frozen=True, kw_only=True):
    """What principals are to the realm."""


class CatalogRole(Entity, frozen=True, kw_only=True):
    """What principal roles are to one catalog."""


class ScheduledTask(Entity, frozen=True, kw_only=True):
    """Work that is to be done once, from `due_at` on; `target` is the id of what it is about.

    Its worker holds it until `leased_until`.
    """

    type: str
    target: int = 0
    due_at: int = 0
    attempts: int = 0
    leased_until: int = 0
    holder: str = ""


KINDS: Mapping[type[Entity], EntityType] = {
    RootEntity: EntityType.ROOT,
    CatalogDefinition: EntityType.CATALOG,
    Namespace: EntityType.NAMESPACE,
    Table: EntityType.TABLE,
    View: EntityType.VIEW,
    GenericTable: EntityType.GENERIC_TABLE,
    CatalogPolicy: EntityType.POLICY,
    Principal: EntityType.PRINCIPAL,
    PrincipalRole: EntityType.PRINCIPAL_ROLE,
    CatalogRole: EntityType.CATALOG_ROLE,
    ScheduledTask: EntityType.TASK,
}


def kind_of(entity: Entity) -> EntityType:
    """What an entity is."""
    return KINDS[type(entity)]


def split(name: Name) -> tuple[str, ...]:
    """The parts of a path; UsageError where one cannot be a name.

    In text, a part that holds a dot stands in double quotes: `sales."2026.q1".orders`. Inside of
    them, a double quote is written twice.
    """
    parts = name if isinstance(name, tuple) else _parse(name)
    if not parts:
        raise UsageError("a name has one part at least", hint="write namespace.table")
    for part in parts:
        check_name(part)
    return parts


def join(parts: tuple[str, ...]) -> str:
    """A path as text that `split` takes back: no two paths have the same."""
    return ".".join(part if _PLAIN.fullmatch(part) else _quoted(part) for part in parts)


def check_name(name: str) -> None:
    """UsageError unless an entity may have this name."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= MAX_NAME_BYTES or any(ord(character) < 32 for character in name):
        raise UsageError(
            f"{name[:80]!r} cannot be a name",
            hint=f"use 1 to {MAX_NAME_BYTES} bytes of UTF-8, without control characters",
        )


def _parse(text: str) -> tuple[str, ...]:
    if not _PATH.fullmatch(text):
        raise UsageError(
            f"{text[:80]!r} is no name",
            hint='write namespace.table, and parts with dots in quotes: sales."2026.q1".orders',
        )
    return tuple(quoted.replace('""', '"') or plain for quoted, plain in _PART.findall(text))


def _quoted(part: str) -> str:
    return '"{}"'.format(part.replace('"', '""'))
