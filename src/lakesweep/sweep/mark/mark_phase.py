"""The mark phase: from roots to everything they reference.

Roots are collected and followed level by level. A file that cannot be read makes the roots
above it incomplete, and nothing else. A root may move or disappear while it is being read,
and its files with it. So every incomplete root is looked up again, and followed if it moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from msgspec.structs import replace as replace_figures

from lakesweep.errors import ConfigError
from lakesweep.marks.columns import RootFacts
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.sweep.mark.earlier_marks import FarRoots
from lakesweep.sweep.mark.levels import ROOT_LEVELS
from lakesweep.sweep.mark.marker import Marker, MarkSpec, work_address
from lakesweep.sweep.mark.marks import (
    EmptyCatalog,
    Marks,
    RootMark,
    RootState,
    UncatalogedTable,
    UnreadableSource,
    save_marks,
)
from lakesweep.sweep.mark.root_identity import has_superseded, is_name_reused
from lakesweep.sweep.mark.root_status import (
    RootUsage,
    incomplete_reasons,
    mark_of,
    mark_of_absent,
    mark_of_list,
    mark_of_problem,
    root_usage,
)
from lakesweep.sweep.roots.root import (
    EmptyRootSource,
    MissingFileTolerance,
    RootKind,
    RootProblem,
    RootRow,
    RootSource,
    collect_roots,
)
from lakesweep.untrusted.limits import read_failure

#: How often a root that moves while it is read is followed.
_LOOKS = 3
_LISTS = {RootKind.PINNED, RootKind.FOREIGN}
_NOTHING: Mapping[str, RootMark] = MappingProxyType({})
_NO_FAR = FarRoots()


def mark(spec: MarkSpec, sources: Sequence[RootSource], far: FarRoots = _NO_FAR) -> Marks:
    """Mark all roots of some sources, except for far ones that have not moved."""
    census = _Census(spec, sources, far.roots)
    try:
        census.adopt(far)
    # Damaged marks cost time, never a file: everything is read again.
    except Exception as error:
        problem = read_failure("earlier marks", error).message
        census = _Census(spec, sources, _NOTHING)
        census.note(problem)
    return census.take()


def remark(spec: MarkSpec, sources: Sequence[RootSource], before: Marks) -> Marks:
    """Mark the roots that are new, moved or were incomplete in earlier marks.

    The datasets contain only what is new; the roots are all current ones.
    """
    spec = replace(spec, cache=before, adopts=False)
    settled = {root.name: root for root in before.in_state(RootState.COMPLETE)}
    return _Census(spec, sources, settled).take()


class _Census:
    """Determines the roots of a run and their final state."""

    def __init__(
        self, spec: MarkSpec, sources: Sequence[RootSource], settled: Mapping[str, RootMark]
    ) -> None:
        self._spec = spec
        self._sources = _by_name(sources)
        self._settled = settled
        self._marker = Marker(spec)
        self._followed: list[RootRow] = []
        #: The tables that a catalog knows, by id.
        self._known: defaultdict[str | None, list[tuple[str, RootFacts]]] = defaultdict(list)
        self._marks: list[RootMark] = []
        self._found: list[UncatalogedTable] = []
        self._unknown: list[UnreadableSource] = []
        self._empty: list[EmptyCatalog] = []
        self._unread = 0

    def adopt(self, far: FarRoots) -> None:
        """Take over what is known of far roots, as far as it is needed."""
        for before, sources in far.sources:
            self._marker.adopt(before, sources)

    def note(self, problem: str) -> None:
        """Record why earlier marks do not help."""
        self._marker.figures = replace_figures(self._marker.figures, cache_problem=problem)

    def take(self) -> Marks:
        rows = list(self._collect())
        # Catalogued roots first: only then is it known which scanned tables a catalog has
        # superseded.
        self._follow([row for row in rows if row.unless_known is None])
        self._follow(list(self._unlisted([row for row in rows if row.unless_known is not None])))
        self._look_again()
        self._marks += self._assess()
        datasets = self._marker.commit()
        marks = Marks(
            self._spec.address,
            datasets,
            tuple(sorted(self._marks, key=lambda root: root.name)),
            tuple(self._unknown),
            tuple(self._found),
            replace_figures(self._marker.figures, unread_roots=self._unread),
            tuple(self._empty),
        )
        saved = save_marks(self._spec.stores, marks)
        # Only now: the work folder is needed until the marks are saved.
        remove_folder(self._spec.stores, work_address(self._spec.address))
        return saved

    def _collect(self) -> Iterator[RootRow]:
        """The tables and views; everything else is recorded."""
        for found in collect_roots(self._sources.values()):
            match found:
                case EmptyRootSource():
                    self._empty.append(EmptyCatalog(found.source, found.reason))
                case RootProblem(name=None):
                    self._unknown.append(UnreadableSource(found.source, found.reason))
                case RootProblem():
                    self._marks.append(mark_of_problem(found))
                case RootRow() if found.kind in _LISTS:
                    self._marks.append(mark_of_list(found))
                case RootRow():
                    yield found

    def _follow(self, rows: Sequence[RootRow]) -> None:
        """Read what is not settled yet, and learn which tables are known."""
        moved = [row for row in rows if not self._is_settled(row)]
        self._unread += len(rows) - len(moved)
        self._marks += [self._settled[row.name] for row in rows if self._is_settled(row)]
        self._marker.follow(moved)
        self._followed += moved
        for row in rows:
            for facts in self._facts(row):
                self._known[facts.uuid].append((row.pointer, facts))

    def _facts(self, row: RootRow) -> Sequence[RootFacts]:
        if not self._is_settled(row):
            return self._marker.facts(row)
        settled = self._settled[row.name].facts
        return [settled] if settled else []

    def _is_settled(self, row: RootRow) -> bool:
        before = self._settled.get(row.name)
        if before is None or (before.kind, before.pointer) != (row.kind, row.pointer):
            return False
        return not is_name_reused(row.pointer)

    def _unlisted(self, rows: Sequence[RootRow]) -> Iterator[RootRow]:
        """Of tables found by a scan, those that no catalog knows, in their current state.

        A catalog may know an earlier version than one that no catalog names, and a copy has the id
        of its original. So only versions that the catalog's own metadata has superseded are void.
        """
        for row in rows:
            known = self._known[row.unless_known]
            if any(has_superseded(pointer, facts, row.pointer) for pointer, facts in known):
                continue
            if row.keeps:
                yield from self._as_it_is(row)
            else:
                self._found.append(UncatalogedTable(row.source, row.pointer, row.locations))

    def _as_it_is(self, row: RootRow) -> Iterator[RootRow]:
        try:
            now = self._sources[row.source].look(row)
        except Exception as error:
            reason = read_failure(row.name, error).message
            problem = RootProblem(row.source, reason, row.name, row.kind, row.locations)
            self._marks.append(mark_of_problem(problem))
            return
        if now is None:
            self._marks.append(mark_of_absent(row))
        else:
            yield now

    def _look_again(self) -> None:
        """Look up incomplete roots again: they, and their files, may have moved or gone."""
        for _ in range(_LOOKS):
            why = self._reasons()
            moved = [
                now
                for row in self._followed
                if why.get(self._marker.number(row))
                for now in self._second_look(row)
            ]
            if not moved:
                return
            self._follow(moved)

    def _second_look(self, row: RootRow) -> Iterator[RootRow]:
        """The root, if it has moved."""
        try:
            now = self._sources[row.source].look(row)
        except Exception:
            return  # it stays incomplete
        if now is None:
            self._marks.append(mark_of_absent(row))
        if now != row:
            # Its marks stay in the datasets: files that it referenced a moment ago are kept by this
            # run.
            self._followed.remove(row)
        if now is not None and now != row:
            yield now

    def _reasons(self) -> Mapping[int, Sequence[str]]:
        if not self._marker.has_problems():
            return {}
        excuses: dict[int, MissingFileTolerance | None] = {}

        def is_excused(root: int, path: str) -> bool:
            if root not in excuses:
                excuses[root] = self._excuses(root)
            found = excuses[root]
            return found is not None and found.excuse(path)

        return incomplete_reasons(
            self._marker.lineage(), lambda: self._marker.rows("problems"), is_excused
        )

    def _excuses(self, number: int) -> MissingFileTolerance | None:
        """What decides which files a root may lack, in its current state."""
        for row in self._followed:
            excuses = ROOT_LEVELS[row.kind].excuses
            if excuses is not None and self._marker.number(row) == number:
                return excuses(self._spec.stores, row, self._marker.children(number))
        return None

    def _assess(self) -> Iterator[RootMark]:
        why = self._reasons()
        used = root_usage(self._marker.lineage(), lambda: self._marker.rows("usage"))
        for row in self._followed:
            number = self._marker.number(row)
            facts = self._marker.facts(row)
            yield mark_of(row, number, facts, used.get(number, RootUsage()), why.get(number, ()))


def _by_name(sources: Sequence[RootSource]) -> Mapping[str, RootSource]:
    """Sources by name: of two with one name, the roots of one would be lost."""
    found: dict[str, RootSource] = {}
    for source in sources:
        if found.setdefault(source.name, source) is not source:
            raise ConfigError(
                f"two sources of roots are called {source.name}",
                hint="give one of them another name",
            )
    return found
