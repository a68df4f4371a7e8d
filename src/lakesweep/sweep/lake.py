"""A lake as one run sees it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lakesweep.config import AcceptSection, LakeSection, Root
from lakesweep.errors import NotFoundError
from lakesweep.runs.records import RootMemory
from lakesweep.storage.address import folder_identity
from lakesweep.storage.file_identity import resolve_alias

#: Where the states of lakeFS repositories are, below the folder of a lake's plans.
STATES = "states"


@dataclass(frozen=True, slots=True)
class Lake:
    """The locations to keep clean and what is said about them.

    `plans` is the folder of all plans of the lake. `neighbours` are the locations of other lakes,
    by the name of the lake, and `kept` the folders that Lakesweep keeps for those, or that hold
    what earlier runs set aside.
    `roots_of_others` may keep files of this lake alive as well. With `roots_stay`, one that cannot
    be read keeps nothing but what lies in the folders that it is known to use. Locations that are
    `unlisted` could not be listed completely by this run, so everything in them is kept.
    """

    name: str
    section: LakeSection
    plans: str
    neighbours: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    roots_of_others: tuple[Root, ...] = ()
    roots_stay: bool = False
    unlisted: tuple[str, ...] = ()

    @property
    def locations(self) -> tuple[str, ...]:
        return self.section.locations

    @property
    def grace(self) -> timedelta:
        return self.section.grace

    def accepted(self, now: datetime) -> tuple[AcceptSection, ...]:
        """The standing decisions that count now."""
        return tuple(each for each in self.section.accept if now < each.ends)

    def quarantine(self, location: str) -> str:
        """The folder that files of a location are set aside in."""
        return self.section.quarantine or f"{location.rstrip('/')}/_lakesweep/quarantine"

    @property
    def own_folders(self) -> tuple[str, ...]:
        """What Lakesweep itself keeps in or near the lake."""
        quarantines = (self.quarantine(location) for location in self.locations)
        return (self.plans, *quarantines, *self.kept)


def find_lake(
    lakes: Mapping[str, LakeSection], name: str, plans: str, open_lakes: Collection[str] = ()
) -> Lake:
    """A lake of the configuration; `plans` is where plans go that have no place of their own.

    The roots of closed lakes do not matter to it, unless they overlap, or are known to be open.
    """
    if name not in lakes:
        known = ", ".join(lakes) or "none"
        raise NotFoundError(
            f"there is no lake {name} in the configuration; there is {known}",
            hint="lakesweep init shows how a lake is configured",
        )
    others = {other: _alone(lakes, other, plans) for other in lakes if other != name}
    return replace(
        _alone(lakes, name, plans),
        neighbours={other: lake.locations for other, lake in others.items()},
        kept=tuple(folder for lake in others.values() for folder in lake.own_folders),
        roots_of_others=tuple(
            reaching_roots(
                {other: lake.section for other, lake in others.items()},
                lakes[name].locations,
                open_lakes,
            )
        ),
    )


def reaching_roots(
    lakes: Mapping[str, LakeSection], places: Iterable[str], open_lakes: Collection[str] = ()
) -> Iterator[Root]:
    """The roots of lakes that may reference files in some places."""
    mine = [_folder(each) for each in places]
    for name, lake in lakes.items():
        if name in open_lakes or not lake.closed or _overlap(lake.locations, mine):
            yield from lake.roots


def _overlap(locations: Iterable[str], folders: Sequence[str]) -> bool:
    pairs = ((_folder(each), folder) for each in locations for folder in folders)
    return any(one.startswith(other) or other.startswith(one) for one, other in pairs)


def folder_outside(section: LakeSection, memory: Iterable[RootMemory]) -> str | None:
    """A folder outside the locations of a lake that one of some roots was seen to use."""
    inside = tuple(_folder(each) for each in section.locations)
    folders = (folder for known in memory for folder in known.folders)
    return next((each for each in folders if not _folder(each).startswith(inside)), None)


def former_lake(
    lakes: Mapping[str, LakeSection], name: str, locations: tuple[str, ...], plans: str
) -> Lake:
    """A lake that the configuration has no more, by what is known of it.

    What kept its files alive is forgotten, but for roots of other lakes. `plans` is its own folder.
    """
    section = LakeSection(locations=locations)
    roots = tuple(root for lake in lakes.values() for root in lake.roots)
    return Lake(name, section, plans, roots_of_others=roots)


def _folder(path: str) -> str:
    """The folder that an address means, in the form in which folders are compared."""
    return resolve_alias(folder_identity(path.rstrip("/")))


def _alone(lakes: Mapping[str, LakeSection], name: str, plans: str) -> Lake:
    section = lakes[name]
    return Lake(name, section, f"{(section.plans or plans).rstrip('/')}/{name}")
