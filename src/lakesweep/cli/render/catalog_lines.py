"""Catalog entities, grants and policy mappings as lines and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from lakesweep.cli.render.text_table import TextTable
from lakesweep.units import format_moment

if TYPE_CHECKING:
    from lakesweep.catalog.access.access_control import EffectivePrivilege
    from lakesweep.operations.catalogs.entities import ApplicablePolicyView
    from lakesweep.operations.catalogs.views import (
        DroppedView,
        EntityLine,
        EntityView,
        GrantView,
        MappingView,
    )

#: Fields that a table shows in its heading or in rows of their own.
_APART = frozenset({"name", "kind", "id", "version", "created", "updated", "properties"})


def entity_text(entity: EntityLine) -> str:
    """An entity in one line."""
    where = entity.details.metadata_location or entity.details.location
    return f"{entity.kind:<14}  {entity.name}{f'  {where}' if isinstance(where, str) else ''}"


def dropped_text(dropped: DroppedView) -> str:
    """A dropped entity in one line."""
    return f"{dropped.kind:<14}  {dropped.name}  {dropped.id}  until {_when(dropped.until)}"


def grant_text(grant: GrantView) -> str:
    """A grant in one line."""
    return f"{grant.to}  may  {', '.join(grant.privileges)}  on  {grant.on}"


def mapping_text(mapping: MappingView) -> str:
    """A policy mapping in one line."""
    given = ", ".join(f"{key}={value}" for key, value in sorted(mapping.parameters.items()))
    return (
        f"{mapping.policy}  ({mapping.type})  on  {mapping.target}{f'  {given}' if given else ''}"
    )


def entity_facts(entity: EntityView) -> TextTable:
    """Everything about one entity."""
    rows = [
        ["id", entity.id],
        ["version", str(entity.version)],
        *([name.replace("_", " "), str(value)] for name, value in _own_fields(entity)),
        ["created", _when(entity.created)],
        ["updated", _when(entity.updated)],
        *([f"property {key}", value] for key, value in sorted(entity.properties.items())),
    ]
    return TextTable((entity.kind.words, entity.name), rows)


def _own_fields(entity: EntityView) -> Iterator[tuple[str, object]]:
    import msgspec

    for name, value in msgspec.structs.asdict(entity).items():
        if name not in _APART and value is not msgspec.UNSET:
            yield name, value


def catalog_table(catalogs: Sequence[EntityView]) -> TextTable:
    """Catalogs."""
    rows = [
        [each.name, str(each.status), _shown(each.location), _when(each.created)]
        for each in catalogs
    ]
    return TextTable(("catalog", "status", "location", "created"), rows)


def entity_table(entities: Sequence[EntityView]) -> TextTable:
    """Entities."""
    rows = [
        [each.kind, each.name, each.id, str(each.version), _when(each.updated)] for each in entities
    ]
    return TextTable(
        ("kind", "name", "id", "version", "updated"), rows, numbers=frozenset({"version"})
    )


def allowed_table(allowed: Iterable[EffectivePrivilege]) -> TextTable:
    """Effective privileges."""
    rows = [[each.privilege.value, each.through, each.on] for each in allowed]
    return TextTable(("privilege", "granted to", "on"), rows)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else ""


def _when(moment: datetime) -> str:
    return format_moment(moment.replace(microsecond=0))


def policy_text(policy: ApplicablePolicyView) -> str:
    """A policy in force in one line."""
    how = ", ".join(f"{key}={value}" for key, value in sorted(policy.content.config.items()))
    switch = "on" if policy.content.enable else "off"
    return f"{policy.type}  {switch}{f'  {how}' if how else ''}  by  {policy.origin}"
