"""Guards of purges: what must hold before a table is deleted with its files.

None of them lifts the protection of another table: what a root references stays, whatever is
overridden.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lakesweep.app import App
from lakesweep.errors import RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.iceberg.known_tables import TargetTable
from lakesweep.iceberg.metadata import Metadata
from lakesweep.iceberg.purge import folders_of, real_folder
from lakesweep.storage.address import parse
from lakesweep.sweep.purge_target import PurgeTarget
from lakesweep.sweep.references import ReferencedFiles
from lakesweep.sweep.verdicts import Reason
from lakesweep.units import format_count


@dataclass(frozen=True, slots=True)
class OverlappingTable:
    """Another table that keeps files in a folder of the purged one."""

    name: str
    folder: str


def guard_gc_enabled(target: TargetTable, overrides: Collection[str]) -> None:
    """Refuse a table whose files may belong to others."""
    if not target.metadata.gc_enabled and GuardName.GC_ENABLED not in overrides:
        raise RefusedError(
            GuardName.GC_ENABLED,
            f"{target.name} has gc.enabled=false: its files may belong to others",
            hint="if nothing else uses them, set gc.enabled=true in the table's properties",
        )


def guard_names(found: PurgeTarget, target: TargetTable) -> None:
    """Refuse an address if it is unclear which of several names is meant."""
    names = found.names if target.entry is None else []
    if len(names) > 1:
        raise RefusedError(
            GuardName.FOREIGN,
            f"several catalog entries point to {target.name}: {', '.join(names)}",
            hint="purge one of them by its name",
        )


def guard_outside(seen: ReferencedFiles, target: TargetTable, overrides: Collection[str]) -> None:
    """Metadata may name any path, so it owns only what lies where tables are configured to lie."""
    files = seen.reasons()[Reason.OUTSIDE]
    if not files:
        return
    example = seen.example(Reason.OUTSIDE)
    if GuardName.OUTSIDE in overrides:
        raise RefusedError(
            GuardName.OUTSIDE,
            f"{format_count(files, 'file')} of {target.name} in a bucket that is neither the"
            f" table's own nor in the configuration, such as {example}",
            hint="if the table owns them, add their folder to the locations of a lake",
        )
    raise RefusedError(
        GuardName.OUTSIDE,
        f"{format_count(files, 'file')} of {target.name} outside its location and the locations"
        f" of all lakes, such as {example}",
        hint=f"look at them with lakesweep iceberg files {target.name}; if the table owns them, add"
        " their folder to the locations of a lake, or add --override outside",
    )


def guard_location(seen: ReferencedFiles, target: TargetTable, overrides: Collection[str]) -> None:
    """Refuse to delete everything in a folder that other tables use as well."""
    location = target.metadata.location
    if parse(location).folder == "":
        raise RefusedError(
            GuardName.FOREIGN,
            f"the location of {target.name} is an entire store: {location}",
            hint="purge without --base-location",
        )
    for name, folder in _declared_folders(seen):
        holds = real_folder(location).startswith(real_folder(folder))
        if holds and GuardName.FOREIGN not in overrides:
            raise RefusedError(
                GuardName.FOREIGN,
                f"{name} keeps its files in {folder}, which is or contains the location of"
                f" {target.name}",
                hint="purge without --base-location: then only what the table reaches is deleted",
            )


def guard_changed(app: App, target: TargetTable) -> None:
    """Refuse a table that moved on since its files were counted."""
    if app.iceberg.refresh(target).metadata.path != target.metadata.path:
        raise RefusedError(
            GuardName.STALE_PLAN,
            f"{target.name} was changed since the plan was made",
            hint="run the command again",
        )


def overlapping_tables(seen: ReferencedFiles, metadata: Metadata) -> Iterator[OverlappingTable]:
    """Other tables with a folder that equals, contains or is inside one of the table's."""
    own = [real_folder(folder) for folder in folders_of(metadata)]
    found: dict[str, OverlappingTable] = {}
    for name, folder in _declared_folders(seen):
        theirs = real_folder(folder)
        if any(theirs.startswith(mine) or mine.startswith(theirs) for mine in own):
            found.setdefault(name, OverlappingTable(name, folder))
    return iter(found.values())


def _declared_folders(seen: ReferencedFiles) -> Iterator[tuple[str, str]]:
    for root in seen.marks.roots:
        if root.facts is not None:
            yield from (
                (root.name, each) for each in (root.facts.location, *root.facts.write_paths)
            )
