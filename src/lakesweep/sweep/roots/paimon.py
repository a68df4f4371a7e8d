"""Paimon tables of a warehouse as roots, and which of their files may be missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakesweep.errors import NotFoundError
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.model.warehouse import table_folders
from lakesweep.paimon.reach.mark_levels import owner_numbers
from lakesweep.paimon.reach.owners import (
    OwnerFile,
    RequiredManifests,
    list_owner_files,
    read_owners,
)
from lakesweep.paimon.reach.root_files import version_of
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import identity, parse
from lakesweep.sweep.roots.root import EmptyRootSource, RootKind, RootProblem, RootRow
from lakesweep.untrusted.limits import read_failure

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

#: The prefix of the names of these sources.
PAIMON_ORIGIN = "paimon-warehouse "


@dataclass(frozen=True)
class PaimonRoots:
    """Every table of a warehouse or of one database, or a single table, found by listing folders.

    A table is named by the address of its folder.
    """

    stores: Stores
    path: str
    workers: int = 16

    @property
    def name(self) -> str:
        return PAIMON_ORIGIN + self.path

    def collect(self) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
        found = [*self._tables()]
        yield from found
        if not found:
            yield EmptyRootSource(self.name, "it holds no table")

    def look(self, root: RootRow) -> RootRow | None:
        return self._row(root.locations[0])

    def _tables(self) -> Iterator[RootRow | RootProblem]:
        place = parse(self.path)
        itself = self._found(place.base + place.folder)
        if itself is not None:
            yield itself
            return
        folders = table_folders(self.stores, self.path)
        for row in map_ordered(self._found, folders, workers=self.workers):
            if row is not None:
                yield row

    def _found(self, folder: str) -> RootRow | RootProblem | None:
        try:
            return self._row(folder)
        except Exception as error:
            kind, locations = RootKind.PAIMON_TABLE, (folder,)
            reason = read_failure(folder, error).message
            return RootProblem(self.name, reason, _name(folder), kind, locations)

    def _row(self, folder: str) -> RootRow | None:
        """The table in a folder; None if there is none."""
        try:
            table = PaimonTable.open(self.stores, folder)
        except NotFoundError:
            return None
        version = version_of(table)
        return RootRow(
            name=_name(folder),
            kind=RootKind.PAIMON_TABLE,
            pointer=f"{version.schema_path}#{version.token}",
            source=self.name,
            locations=(folder,),
            own_file=version.schema_path,
        )


class ExpiredOwners:
    """Excuses files that are missing together with the snapshots, tags and changelogs needing them.

    `known` are the numbers of all owners that were marked. If no owner was added since, a file that
    no existing owner needs is not a loss.
    """

    def __init__(self, stores: Stores, root: RootRow, known: AbstractSet[int]) -> None:
        self._table = PaimonTable(stores, parse(root.locations[0]))
        self._known = known

    def excuse(self, path: str) -> bool:
        """Whether a missing file was needed only by owners that are gone."""
        try:
            return self._is_owner_or_meta(path) and not self._is_there_or_needed(path)
        except Exception:
            return False  # in doubt, the file is missed

    @cached_property
    def _files(self) -> Sequence[OwnerFile]:
        """The current owners."""
        return list_owner_files(self._table)

    @cached_property
    def _needs(self) -> RequiredManifests:
        return RequiredManifests(self._table, list(read_owners(self._files)))

    @cached_property
    def _paths(self) -> AbstractSet[str]:
        return {identity(file.path) for file in self._files}

    def _is_there_or_needed(self, path: str) -> bool:
        # An owner added since may need anything.
        if not set(owner_numbers(self._files)) <= self._known or identity(path) in self._paths:
            return True
        return self._needs.is_needed(path.rpartition("/")[2])

    def _is_owner_or_meta(self, path: str) -> bool:
        """Whether the file is metadata: a missing data file is never excused."""
        folder, _, name = path.rpartition("/")
        inside = folder.rpartition("/")[2]
        return inside == "manifest" or (
            inside in {"snapshot", "tag", "changelog"} and name.startswith(f"{inside}-")
        )


def _name(folder: str) -> str:
    return folder.rstrip("/") or folder
