"""Build the rules of a run from the configuration of the lake and from its marks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from msgspec.structs import replace

from lakesweep.guard_names import GuardName
from lakesweep.lakefs.addresses import DATA
from lakesweep.marks.columns import RootFacts
from lakesweep.paimon.model.warehouse import is_database
from lakesweep.runs.records import RootMemory
from lakesweep.storage.address import folder_identity
from lakesweep.sweep.judge.dangling_references import folder_spellings
from lakesweep.sweep.judge.orphan_causes import table_history
from lakesweep.sweep.judge.paimon_names import paimon_namings
from lakesweep.sweep.judge.reasons import JudgeRules
from lakesweep.sweep.judge.unlisted_tables import (
    NO_FOLDERS,
    SurveyedFolders,
    UnlistedFolder,
    named_tables,
    paimon_folders,
)
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.mark.marks import Marks, RootMark, RootState
from lakesweep.sweep.mark.root_identity import gone_roots, is_name_reused
from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder
from lakesweep.sweep.paths.foreign_formats import (
    ForeignFolder,
    ForeignFormat,
    outside_used,
    without_read,
)
from lakesweep.sweep.roots.paimon import PAIMON_ORIGIN
from lakesweep.sweep.roots.root import RootKind

Claims = Iterable[tuple[str, str]]

#: Roots that are just folders.
_LISTS = (RootKind.PINNED, RootKind.FOREIGN)


@dataclass(frozen=True)
class LakeRules:
    """The rules, and what guards need to know about them."""

    rules: JudgeRules
    tables: FolderMap
    foreign: tuple[str, ...]
    opted_in: tuple[str, ...]
    gone: Mapping[str, RootMemory]
    formats: tuple[ForeignFolder, ...] = ()
    unlisted: tuple[UnlistedFolder, ...] = ()
    released: frozenset[str] = frozenset()


def make_rules(
    lake: Lake,
    marks: Marks,
    memory: Mapping[str, RootMemory],
    overridden: Collection[str],
    *,
    now: datetime,
    cutoff: datetime,
    snapshots: Iterable[str] = (),
    found: SurveyedFolders = NO_FOLDERS,
) -> LakeRules:
    """The rules for the files of a lake. `memory` says where roots kept files before.

    `snapshots` are the ids of those that roots name, and serve only for guessing. `found` are
    the folders of others in the lake.
    """
    facts = {root.name: root.facts for root in marks.roots if root.facts}
    tables = table_folders_of(marks)
    others = without_read(paimon_folders(marks), found.foreign)
    released = {claimed_folder(name) for name in _let_go(lake, overridden, now)}
    lost = [each for each in found.unlisted if claimed_folder(each.folder) not in released]
    # An overridden guard lifts only this protection; all other checks still apply.
    foreign = {} if GuardName.FOREIGN in overridden else dict(_neighbours(lake))
    opted_out = () if GuardName.GC_ENABLED in overridden else tuple(marks.opted_out)
    gone = gone_roots(marks, memory)
    used = (folder for root in marks.roots if root.kind not in _LISTS for folder in root.folders)
    namespaces = tuple(_namespaces(marks))
    # What may be deleted is matched exactly; all that protects, by any spelling.
    locations = FolderMap((claimed_folder(location), location) for location in lake.locations)
    formats = tuple(_not_read(namespaces, outside_used(used, others)))
    rules = JudgeRules(
        now=now,
        cutoff=cutoff,
        locations=locations,
        tables=tables,
        pinned=_map(_of_kind(marks, RootKind.PINNED)),
        own=_map((folder, "Lakesweep's own") for folder in lake.own_folders),
        foreign=_map([*_of_kind(marks, RootKind.FOREIGN), *foreign.items(), *_of_formats(formats)]),
        incomplete=_map(_incomplete(lake, marks, memory)),
        opted_out=_map(_claims(opted_out)),
        gone=_map((folder, name) for name, known in gone.items() for folder in known.folders),
        unlisted=_map(claim for each in lost for claim in each.claims),
        released=FolderMap((folder, folder) for folder in released),
        excludes=lake.section.exclude,
        keep_unknown=lake.section.unknown == "keep",
        hidden_fields=_hidden_fields(tables, facts),
        namings=paimon_namings(tables, _named_by(marks, overridden)),
        history=table_history(tables, facts, snapshots),
        repositories=_map(namespaces),
        objects=FolderMap(_objects(namespaces, locations)),
    )
    return LakeRules(
        rules,
        tables,
        foreign=tuple(_overlapping(lake)) if GuardName.FOREIGN in overridden else (),
        opted_in=tuple(root.name for root in marks.opted_out) if not opted_out else (),
        gone=gone,
        formats=formats,
        unlisted=found.unlisted,
        released=frozenset(each.folder for each in found.unlisted) - {each.folder for each in lost},
    )


def table_folders_of(marks: Marks) -> FolderMap:
    """The folders that readable roots declare as their own."""
    return FolderMap(_claims(_tables(marks)))


def _map(claims: Claims) -> FolderMap:
    """Protected folders. Metadata may spell them in another way than the store does."""
    return FolderMap(
        (spelling, name)
        for folder, name in claims
        for spelling in folder_spellings(claimed_folder(folder))
    )


def _tables(marks: Marks) -> Iterator[RootMark]:
    return (root for root in marks.roots if root.facts and root.state is RootState.COMPLETE)


def _claims(roots: Iterable[RootMark]) -> Iterator[tuple[str, str]]:
    """The folders that roots declare as their own."""
    for root in roots:
        if root.facts is not None:
            for folder in (root.facts.location, *root.facts.write_paths):
                yield claimed_folder(folder), root.name


def _of_kind(marks: Marks, kind: RootKind) -> Iterator[tuple[str, str]]:
    for root in marks.roots:
        if root.kind is kind:
            yield from ((folder, root.name) for folder in root.folders)


def _hidden_fields(
    tables: FolderMap, facts: Mapping[str, RootFacts]
) -> Mapping[int, frozenset[str]]:
    """Partition fields whose folders look hidden, by the number of a table's folder."""
    found: dict[int, frozenset[str]] = {}
    for number, name in tables.claims:
        if name in facts and facts[name].hidden_fields:
            found[number] = found.get(number, frozenset()).union(facts[name].hidden_fields)
    return found


def _of_formats(found: Iterable[ForeignFolder]) -> Iterator[tuple[str, str]]:
    return ((each.folder, f"a {each.format} in {each.folder}") for each in found)


def _named_by(marks: Marks, overridden: Collection[str]) -> Mapping[str, RootFacts]:
    """What Paimon tables declare, for recognising their files by name.

    If only a single table was configured, it is unknown who else writes to its external folders.
    """
    found = {root.name: root.facts for root in marks.roots if root.facts}
    if GuardName.FOREIGN in overridden:
        return found
    alone = (root.name for root in marks.roots if root.facts and is_named_table(root))
    return found | {name: replace(found[name], write_paths=()) for name in alone}


def _let_go(lake: Lake, overridden: Collection[str], now: datetime) -> Iterator[str]:
    """The tables that a person says were dropped, by an override or in the configuration."""
    yield from named_tables(overridden)
    for each in lake.accepted(now):
        if each.guard == GuardName.UNLISTED_TABLE.value:
            yield each.subject


def _namespaces(marks: Marks) -> Iterator[tuple[str, str]]:
    """The folders of repositories that were read."""
    for root in _tables(marks):
        if root.kind is RootKind.LAKEFS and root.facts:
            yield root.facts.location, root.name


def _objects(namespaces: Claims, locations: FolderMap) -> Iterator[tuple[str, str]]:
    """The folders of objects that the lake contains completely.

    A part of one might belong to a nested repository whose signs were not listed.
    """
    for folder, name in namespaces:
        data = claimed_folder(f"{folder.rstrip('/')}/{DATA}")
        if locations.find(pa.array([data]))[0] >= 0:
            yield data, name


def _not_read(namespaces: Claims, found: Iterable[ForeignFolder]) -> Iterator[ForeignFolder]:
    """Everything except the repositories that were read: one inside another is still foreign."""
    known = {claimed_folder(folder) for folder, _ in namespaces}
    for each in found:
        if each.format is not ForeignFormat.LAKEFS or claimed_folder(each.folder) not in known:
            yield each


def _neighbours(lake: Lake) -> Iterator[tuple[str, str]]:
    for name, locations in lake.neighbours.items():
        yield from ((location, f"lake {name}") for location in locations)


def _overlapping(lake: Lake) -> Iterator[str]:
    """Locations of other lakes that overlap with one of this lake."""
    mine = [claimed_folder(location) for location in lake.locations]
    for location, name in _neighbours(lake):
        theirs = claimed_folder(location)
        if any(theirs.startswith(folder) or folder.startswith(theirs) for folder in mine):
            yield f"{location} ({name})"


def _incomplete(
    lake: Lake, marks: Marks, memory: Mapping[str, RootMemory]
) -> Iterator[tuple[str, str]]:
    """Everything that unreadable roots may keep alive, and what could not be listed."""
    yield from ((location, location) for location in lake.unlisted)
    for unknown in marks.unknown:
        # It is unknown what the source keeps, so it may be anything.
        yield from ((location, unknown.origin) for location in lake.locations)
    for root in marks.in_state(RootState.INCOMPLETE):
        known = memory.get(root.name)
        # A root whose current version was never read completely may keep files anywhere.
        is_known = known is not None and _is_same(root, known)
        folders = (*root.folders, *known.folders) if known and is_known else lake.locations
        if lake.roots_stay:
            # It is unknown where else it writes: perhaps to the folders of others.
            folders = (*root.folders, *(() if root.facts else _external_folders(marks)))
        yield from ((folder, root.name) for folder in folders)


def _external_folders(marks: Marks) -> Iterator[str]:
    """The external folders that any tables write to."""
    return (folder for root in marks.roots if root.facts for folder in root.facts.write_paths)


def _is_same(root: RootMark, known: RootMemory) -> bool:
    """Whether a root is still the version whose folders are remembered."""
    if not root.pointer or root.pointer != known.pointer:
        return False
    if root.facts is not None:
        return root.facts.uuid == known.uuid
    return not is_name_reused(root.pointer)


def is_named_table(root: RootMark) -> bool:
    """Whether the table itself, or its database, was configured.

    Then nothing is known about the rest of the warehouse.
    """
    named = root.origin.removeprefix(PAIMON_ORIGIN)
    is_one = folder_identity(named) == folder_identity(root.name)
    return root.kind is RootKind.PAIMON_TABLE and (is_one or is_database(named))
