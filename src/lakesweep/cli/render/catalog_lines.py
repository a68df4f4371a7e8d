"""Catalog entities, grants and policy mappings as lines and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakesweep.cli.render.output import TextTable
from lakesweep.units import format_moment

if TYPE_CHECKING:
    from lakesweep.catalog import Entity
    from lakesweep.catalog.access_control import EffectivePrivilege

#: What every entity has, and what is nobody's business.
_COMMON = frozenset({"id", "name", "parent", "version", "created_at", "updated_at", "properties"})
_HIDDEN = frozenset({"secrets", "memo"})


@dataclass(frozen=True, slots=True)
class EntityLine:
    """One entity by its full name. Ids are text, since many programs cannot hold them."""

    name: str
    kind: str
    id: str
    version: int
    created: datetime
    updated: datetime
    properties: dict[str, str]
    details: dict[str, Any]

    @classmethod
    def of(cls, name: str, entity: Entity) -> EntityLine:
        import msgspec

        from lakesweep.catalog.entities import kind_of
        from lakesweep.timestamps import moment

        every = msgspec.structs.asdict(entity)
        own = {key: each for key, each in every.items() if key not in _COMMON | _HIDDEN}
        return cls(
            name,
            kind_of(entity).value,
            str(entity.id),
            entity.version,
            moment(entity.created_at),
            moment(entity.updated_at),
            dict(entity.properties),
            {key: _shown(key, each) for key, each in own.items() if each not in {None, ""}},
        )

    def text(self) -> str:
        where = self.details.get("metadata_location") or self.details.get("location") or ""
        return f"{self.kind:<14}  {self.name}{f'  {where}' if where else ''}"

    def document(self) -> dict[str, Any]:
        """The entity for programs."""
        return {
            **{key: getattr(self, key) for key in ("name", "kind", "id", "version")},
            **self.details,
            **{key: getattr(self, key) for key in ("created", "updated", "properties")},
        }

    def table(self, more: dict[str, object] | None = None) -> TextTable:
        """The entity for people."""
        moments = {
            "created": _when(self.created),
            "updated": _when(self.updated),
        }
        facts: dict[str, object] = {
            "id": self.id,
            "version": self.version,
            **{key.replace("_", " "): value for key, value in self.details.items()},
            **moments,
            **(more or {}),
            **{f"property {key}": value for key, value in sorted(self.properties.items())},
        }
        rows = [[key, str(value)] for key, value in facts.items()]
        return TextTable((self.kind.replace("-", " "), self.name), rows)


@dataclass(frozen=True, slots=True)
class GrantLine:
    """Who may do what with what."""

    on: str
    to: str
    privileges: list[str]

    def text(self) -> str:
        return f"{self.to}  may  {', '.join(self.privileges)}  on  {self.on}"


@dataclass(frozen=True, slots=True)
class MappingLine:
    """A policy that is attached to something."""

    policy: str
    type: str
    target: str
    parameters: dict[str, str]

    def text(self) -> str:
        told = ", ".join(f"{key}={value}" for key, value in sorted(self.parameters.items()))
        return f"{self.policy}  ({self.type})  on  {self.target}{f'  {told}' if told else ''}"


def _shown(key: str, value: Any) -> Any:
    """Moments as such, and all else as it is."""
    from lakesweep.timestamps import moment

    return moment(value) if key.endswith(("_since", "_at", "_until")) else value


def catalog_table(lines: Sequence[EntityLine]) -> TextTable:
    """Catalogs for people."""
    rows = [
        [
            line.name,
            str(line.details["status"]),
            str(line.details.get("location", "")),
            _when(line.created),
        ]
        for line in lines
    ]
    return TextTable(("catalog", "status", "location", "created"), rows)


def entity_table(lines: Sequence[EntityLine]) -> TextTable:
    """Entities for people."""
    rows = [
        [line.kind, line.name, line.id, str(line.version), _when(line.updated)] for line in lines
    ]
    return TextTable(
        ("kind", "name", "id", "version", "updated"), rows, numbers=frozenset({"version"})
    )


def allowed_table(allowed: Iterable[EffectivePrivilege]) -> TextTable:
    """Effective privileges for people."""
    rows = [[each.privilege.value, each.through, each.on] for each in allowed]
    return TextTable(("privilege", "granted to", "on"), rows)


def _when(moment: datetime) -> str:
    return format_moment(moment.replace(microsecond=0))
