"""Realms, as commands show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakesweep.cli.output import Table
from lakesweep.units import format_moment

if TYPE_CHECKING:
    from lakesweep.store.realms import RealmDefinition


@dataclass(frozen=True, slots=True)
class RealmLine:
    """One realm."""

    name: str
    status: str
    references: int | None
    created: datetime
    updated: datetime
    properties: dict[str, str]

    @classmethod
    def of(cls, realm: RealmDefinition, references: int | None = None) -> RealmLine:
        """The line of a realm, with the number of its references where somebody counted them."""
        from lakesweep.store.moments import moment

        created, updated = moment(realm.created_at), moment(realm.updated_at)
        return cls(
            realm.name, realm.status.value, references, created, updated, dict(realm.properties)
        )

    def document(self) -> dict[str, object]:
        """The realm for programs."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def realm_table(realms: Sequence[RealmLine]) -> Table:
    """Realms for people; with the number of references where they were counted."""
    counts = ["references"] if any(realm.references is not None for realm in realms) else []
    columns = ("realm", "status", *counts, "created", "since", "properties")
    rows = [[*_cells(realm, counted=bool(counts))] for realm in realms]
    return Table(columns, rows, numbers=frozenset(counts))


def _cells(realm: RealmLine, *, counted: bool) -> Iterator[str]:
    yield from (realm.name, realm.status)
    if counted:
        yield f"{realm.references:,}"
    yield from (format_moment(m.replace(microsecond=0)) for m in (realm.created, realm.updated))
    yield ", ".join(f"{key}={value}" for key, value in sorted(realm.properties.items()))
