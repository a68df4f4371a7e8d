"""A lake, as one run sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from lakesweep.config import LakeSection
from lakesweep.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class Lake:
    """The locations to keep clean and what is said about them.

    `plans` is the folder of all plans of the lake. `neighbours` are the locations of other lakes,
    by the name of the lake.
    """

    name: str
    section: LakeSection
    plans: str
    neighbours: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def locations(self) -> tuple[str, ...]:
        return self.section.locations

    @property
    def grace(self) -> timedelta:
        return self.section.grace

    def quarantine(self, location: str) -> str:
        """The folder that files of a location are set aside in."""
        return self.section.quarantine or f"{location.rstrip('/')}/_lakesweep/quarantine"

    @property
    def own_folders(self) -> tuple[str, ...]:
        """What Lakesweep itself keeps in or near the lake."""
        return (self.plans, *(self.quarantine(location) for location in self.locations))


def find_lake(lakes: Mapping[str, LakeSection], name: str, plans: str) -> Lake:
    """A lake of the configuration; `plans` is where plans go that have no place of their own."""
    if name not in lakes:
        known = ", ".join(lakes) or "none"
        raise NotFoundError(
            f"there is no lake {name} in the configuration; there is {known}",
            hint="lakesweep init shows how a lake is configured",
        )
    section = lakes[name]
    others = {other: lakes[other].locations for other in lakes if other != name}
    return Lake(name, section, f"{(section.plans or plans).rstrip('/')}/{name}", others)
