"""What guards withhold from an apply: the files of the tables and roots that they are about.

Guards about the whole lake have refused before. Here are those about a table or a root: they were
in the plan, or appear when the plan is rechecked. What `--override` or a standing decision of the
configuration accepts is not withheld.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.guard_names import GuardName
from lakesweep.sweep.judge.dangling_references import loose_paths
from lakesweep.sweep.judge.reasons import WithheldFiles
from lakesweep.sweep.judge.rules import table_folders_of
from lakesweep.sweep.judge.unlisted_tables import named_tables
from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from lakesweep.runs.records import RootMemory
    from lakesweep.sweep.guards import Guard
    from lakesweep.sweep.mark.marks import Marks, RootMark
    from lakesweep.sweep.plan.document import AcceptedGuard, PlanDocument

#: Guards about files that have a reason to be kept, whatever is overridden.
_KEPT: Mapping[str, Reason] = {
    GuardName.INCOMPLETE: Reason.INCOMPLETE_ROOT,
    GuardName.UNLISTED_TABLE: Reason.UNLISTED_TABLE,
}


@dataclass(frozen=True)
class Withholding:
    """Which subjects of guards were accepted: all of a guard by `overridden`, or one by one."""

    overridden: Collection[str]
    accepted: Sequence[AcceptedGuard] = ()

    def standing(self, guard: Guard) -> tuple[str, ...]:
        """The subjects of a guard whose files are withheld."""
        return () if guard.name in self.overridden else self._not_accepted(guard)

    def _not_accepted(self, guard: Guard) -> tuple[str, ...]:
        known = {each.subject for each in self.accepted if each.guard == guard.name}
        if guard.name == GuardName.UNLISTED_TABLE:
            known = {claimed_folder(each) for each in (*known, *named_tables(self.overridden))}
            return tuple(each for each in guard.subjects if claimed_folder(each) not in known)
        return tuple(subject for subject in guard.subjects if subject not in known)

    def files(
        self,
        guards: Iterable[Guard],
        planned: Marks,
        now: Marks,
        memory: Mapping[str, RootMemory],
    ) -> WithheldFiles | None:
        """Where the files lie that guards withhold; None if that is nowhere.

        A table that lacks files, or is gone, may have kept files in any folder that it ever used.
        Its metadata may spell these folders in another way than the store does.
        """
        tables: dict[str, str] = {}
        folders: list[tuple[str, str]] = []
        for guard in guards:
            if guard.name == GuardName.UNLISTED_TABLE:
                # Only its name lets a table go, so overriding the guard as such does not.
                names = self._not_accepted(guard)
                folders += ((folder, guard.name) for folder in _loose_folders(names))
                continue
            for subject in self.standing(guard):
                tables.setdefault(subject, guard.name)
                if guard.name != GuardName.SHARE:
                    used = _folders(subject, (*planned.roots, *now.roots), memory)
                    folders += ((folder, guard.name) for folder in _loose_folders(used))
        if not folders and not tables:
            return None
        return WithheldFiles(FolderMap(folders), table_folders_of(planned), tables)

    def counts(self, guards: Iterable[Guard], withheld: Mapping[str, int]) -> dict[str, int]:
        """The files that each guard withholds. One that stands is named even if it has none."""
        return {guard.name: withheld.get(guard.name, 0) for guard in guards if self.standing(guard)}

    def kept(self, document: PlanDocument) -> dict[str, int]:
        """The files that a plan keeps because of a guard that stands, unless that is accepted.

        A root could not be read, or no root lists a table.
        """
        kept = document.totals.get(Verdict.KEEP.value, {})
        amounts = {guard: kept.get(reason.value) for guard, reason in _KEPT.items()}
        files = {guard: amount.files for guard, amount in amounts.items() if amount is not None}
        return self.counts((guard for guard in document.guards if guard.name in _KEPT), files)


def add_counts(*counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by guard, added up; a guard without files stays."""
    names = dict.fromkeys(name for each in counts for name in each)
    return {name: sum(each.get(name, 0) for each in counts) for name in names}


def _loose_folders(folders: Iterable[str]) -> Iterator[str]:
    claimed = pa.array(map(claimed_folder, folders), pa.string())
    yield from loose_paths(claimed).keys.to_pylist()


def _folders(
    subject: str, roots: Sequence[RootMark], memory: Mapping[str, RootMemory]
) -> Iterator[str]:
    for root in roots:
        if root.name == subject:
            yield from root.folders
    if subject in memory:
        yield from memory[subject].folders
