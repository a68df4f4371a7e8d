"""Find everything that is retained in one realm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from lakesweep.errors import ReferenceMissingError
from lakesweep.maintenance.live_filters import LiveFilters
from lakesweep.maintenance.plugin_api import RealmIdentifier, TypeIdentifier
from lakesweep.progress import ProgressTask
from lakesweep.store import Commit, Realm, Stored
from lakesweep.store.commits.log import LogRetention
from lakesweep.store.realms.link_reader import LinkPage, LinkReader
from lakesweep.store.realms.reachability import ReachabilityWalk


class RealmCollector:
    """Collects what identifiers name in a realm, and everything that this references."""

    def __init__(
        self,
        realm: Realm,
        cut_off: datetime,
        history: Callable[[str], LogRetention],
        reader: LinkReader,
        types: Sequence[TypeIdentifier] = (),
    ) -> None:
        self.realm = realm
        self.cut_off = cut_off
        self._history = history
        self._types = _by_type(types)
        self._walk = ReachabilityWalk(realm, history, reader)
        self._names: dict[str, None] = {}
        self._waiting: list[str] = []
        #: How many distinct references and objects are retained.
        self.reference_count = 0
        self.object_count = 0
        #: How often a reference was named as retained.
        self.reference_calls = 0

    @property
    def object_calls(self) -> int:
        """How often an object was named as retained, by identifiers and by what links to it."""
        return self._walk.link_count

    def retain_reference(self, name: str) -> None:
        self.reference_calls += 1
        if name not in self._names:
            self._names[name] = None
            self._waiting.append(name)

    def retain_objects(self, ids: Collection[int]) -> None:
        self._walk.add_optional(ids)

    def commits(self, reference: str) -> Iterator[Stored[Commit]]:
        history = self._history(reference)
        try:
            for count, commit in enumerate(self.realm.log(reference), 1):
                yield commit
                if history.ends(count, commit.value.committed_at):
                    return
        except ReferenceMissingError:
            return

    def collect(self, task: ProgressTask, look: Callable[[], None]) -> None:
        """Follow everything that was named. `look` is called at intervals, and may raise."""
        # More than once where objects of some type name others.
        while self._waiting or self._walk.has_more:
            names, self._waiting = self._waiting, []
            found = self.realm.backend.fetch_references(self.realm.name, names)
            self.reference_count += len(found)
            self._follow(self._walk.pages(list(found.values())), task, look)

    def mark(self, marks: LiveFilters) -> None:
        """Add everything found to the filters."""
        marks.add_references(self.realm.name, list(self._names))
        for ids in self._walk.ids():
            marks.add_objects(self.realm.name, ids)

    def _follow(
        self, found: Iterator[LinkPage], task: ProgressTask, look: Callable[[], None]
    ) -> None:
        for page in found:
            self.object_count += len(page.ids)
            look()
            task.advance(len(page.ids))
            for payload in page.payloads:
                for identifier in self._types.get(payload.type, ()):
                    identifier.identify(self, payload)


def identify(
    collector: RealmCollector, identifiers: Sequence[RealmIdentifier], references: Iterable[str]
) -> bool:
    """Have all identifiers name what is retained; returns whether one knows the realm.

    Existing `references` that no identifier owns are retained in any case.
    """
    for name in references:
        if not is_owned(identifiers, name):
            collector.retain_reference(name)
    # Ask each of them: what one names does not depend on what others know.
    known = [identifier.identify(collector) for identifier in identifiers]
    return any(known)


def is_owned(identifiers: Sequence[RealmIdentifier], reference: str) -> bool:
    """Whether a reference of this name is deleted unless an identifier retains it."""
    return any(identifier.owns(reference) for identifier in identifiers)


def _by_type(types: Sequence[TypeIdentifier]) -> Mapping[str, Sequence[TypeIdentifier]]:
    found: defaultdict[str, list[TypeIdentifier]] = defaultdict(list)
    for identifier in types:
        found[identifier.type].append(identifier)
    return found
