"""All objects that are reachable from the references of a realm.

The walk goes from the commits of each reference to the nodes of their indexes and to linked
objects, and on from there. It needs no knowledge of types: see `links`.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from lakesweep.errors import DamagedRowError, FormatError, HeadMissingError, NewerRowError
from lakesweep.store.backends.head_pages import Ids
from lakesweep.store.backends.rows import Reference
from lakesweep.store.commits.log import LogRetention
from lakesweep.store.ids.id_set import IdSet
from lakesweep.store.realms.link_scan import (
    WHOLE,
    CommitLineage,
    LinkRole,
    LinkTargets,
    commit_lineage,
    scan_links,
)
from lakesweep.store.realms.payloads import PAGE_ROWS, Payload, Payloads
from lakesweep.store.realms.realm import Realm

#: A node may lead to thousands of objects, so few of them are read before those.
_PAGE_NODES = 8
_IF_MISSING = "repeat it if maintenance is under way, or leave old commits out with --history 1"


def reach(
    realm: Realm, references: Sequence[Reference], *, history: int | None = None
) -> Iterator[Payload]:
    """Every object that these references lead to, each once, as it is read.

    A log counts with its newest `history` commits, or else as far back as it goes: a commit that is
    gone ends it. Anything else that is missing or damaged is an error, which names the way to it.
    Memory grows by 8 bytes an object, and twice that at times.
    """
    kept = LogRetention() if history is None else LogRetention(history)
    return ReachabilityWalk(realm, lambda _: kept).reach(references)


class _Place(NamedTuple):
    """An object in the walk: as what it was reached, and in whose log, if it is a commit."""

    id: int
    role: LinkRole = WHOLE
    reference: str | None = None

    @property
    def name(self) -> str:
        return self.role.name(self.id) if self.reference is None else f"commit {self.id}"


class _Step(NamedTuple):
    """An object that was read, and what it leads to."""

    place: _Place
    payload: Payload
    leads: LinkTargets

    def leads_to(self, number: int) -> bool:
        return any(number in ids for ids in self.leads.values())


class _Queue:
    """Ids that wait to be read. It stays short: nodes of indexes wait behind whole objects."""

    def __init__(self) -> None:
        self._ids: defaultdict[LinkRole, array[int]] = defaultdict(lambda: array("q"))

    @property
    def is_empty(self) -> bool:
        return not any(self._ids.values())

    @property
    def is_long(self) -> bool:
        return sum(map(len, self._ids.values())) >= PAGE_ROWS

    def put(self, role: LinkRole, ids: bytes) -> None:
        self._ids[role].frombytes(ids)

    def take(self) -> Sequence[_Place]:
        """Some ids of one role; none when all were taken."""
        role = self._next()
        ids = self._ids[role]
        page = ids[-(PAGE_ROWS if role == WHOLE else _PAGE_NODES) :]
        del ids[len(ids) - len(page) :]
        return [_Place(number, role) for number in page]

    def _next(self) -> LinkRole:
        nodes = [role for role, ids in self._ids.items() if ids and role != WHOLE]
        # Full pages take the fewest round trips; nodes bring more to fill one with.
        if not nodes or len(self._ids[WHOLE]) >= PAGE_ROWS:
            return WHOLE
        return max(nodes, key=lambda role: role.height or 0)


class ReachabilityWalk:
    """A walk over one realm. `history` says of the name of a reference how far back it counts."""

    def __init__(self, realm: Realm, history: Callable[[str], LogRetention]) -> None:
        self._realm = realm
        self._payloads = Payloads(realm)
        self._references = realm.references
        self._history = history
        self._reached = IdSet()
        self._nodes: defaultdict[LinkRole, IdSet] = defaultdict(IdSet)
        self._queue = _Queue()
        self._optional: set[int] = set()

    def reach(self, references: Sequence[Reference]) -> Iterator[Payload]:
        """Every object that these references lead to, and was not reached before; see `reach`."""
        try:
            for step in self._steps(references):
                yield step.payload
        except _BrokenError as broken:
            again = partial(ReachabilityWalk, self._realm, self._history)
            way = _way(broken.place, lambda: again()._steps(references))  # noqa: SLF001
            message = f"{broken.reason}; the way to it: {' → '.join(way)}"
            raise broken.kind(message, hint=broken.hint) from broken

    def also(self, ids: Collection[int]) -> None:
        """Reach these objects too, if they are there, with whatever is reached next."""
        new = self._reached.add(list(ids))
        self._optional.update(new.tolist())
        self._queue.put(WHOLE, new.tobytes())

    @property
    def has_more(self) -> bool:
        """Whether something waits to be reached."""
        return not self._queue.is_empty

    def ids(self) -> Iterator[Ids]:
        """The ids of all that was reached, each once."""
        return self._reached.runs()

    def _steps(self, references: Iterable[Reference]) -> Iterator[_Step]:
        for reference in references:
            for commit in self._log(reference):
                if len(self._reached.add([commit.place.id])):
                    self._enter(commit.leads)
                    yield commit
                if self._queue.is_long:
                    yield from self._rest()
        yield from self._rest()

    def _log(self, reference: Reference) -> Iterator[_Step]:
        """The commits of a reference, newest first, up to the first that is gone."""
        if reference.pointer is None:
            return
        page = self._head(reference, reference.pointer)
        if not page:
            raise self._references.missing_head(reference)
        history, count = self._history(reference.name), 0
        while page:
            for commit in page:
                yield commit
                count += 1
                if history.ends(count, _lineage(commit).committed_at):
                    return
            tail = _lineage(page[-1]).tail[: history.next_page(count)]
            page = self._commits(reference.name, tail)

    def _head(self, reference: Reference, pointer: int) -> Sequence[_Step]:
        try:
            return self._commits(reference.name, [pointer])
        except _BrokenError as broken:
            if broken.kind is DamagedRowError:
                broken.hint = self._references.damaged_head(reference, broken.reason).hint
            raise

    def _commits(self, reference: str, ids: Sequence[int]) -> Sequence[_Step]:
        found = []
        for place, payload in self._read([_Place(number, WHOLE, reference) for number in ids]):
            if payload is None:
                break
            found.append(_step(place, payload))
        return found

    def _rest(self) -> Iterator[_Step]:
        """Everything that waits, and what that leads to."""
        while places := self._queue.take():
            found: defaultdict[LinkRole, list[int]] = defaultdict(list)
            for place, payload in self._read(places):
                if payload is None and place.id in self._optional:
                    continue
                if payload is None:
                    missing = DamagedRowError(f"{place.name} is missing", hint=_IF_MISSING)
                    raise _BrokenError(place, missing)
                step = _step(place, payload)
                for role, ids in step.leads.items():
                    found[role] += ids
                yield step
            self._enter(found)

    def _read(self, places: Sequence[_Place]) -> Iterator[tuple[_Place, Payload | None]]:
        payloads = self._payloads.read([place.id for place in places])
        for place in places:
            try:
                payload = next(payloads)
            except DamagedRowError as error:
                raise _BrokenError(place, error) from error
            yield place, payload

    def _enter(self, leads: LinkTargets) -> None:
        """Let everything wait that was not reached before."""
        for role, ids in leads.items():
            wanted = ids if role == WHOLE else self._nodes[role].add(ids)
            new = self._reached.add(wanted)
            if role != WHOLE and len(new) < len(wanted):
                # Read in one way only, it might lead to less than it does.
                place = _Place(min(set(wanted) - set(new)), role)
                raise _BrokenError(place, DamagedRowError("it is used as something else, too"))
            self._queue.put(role, new.tobytes())


class _BrokenError(Exception):
    """The walk came to an object that cannot be read."""

    def __init__(self, place: _Place, cause: DamagedRowError | FormatError) -> None:
        super().__init__(cause.message)
        self.place = place
        self.kind = NewerRowError if isinstance(cause, NewerRowError) else DamagedRowError
        # Whoever reads rows names the object; whoever reads its bytes does not know it.
        is_named = str(place.id) in cause.message
        self.reason = cause.message if is_named else f"{place.name}: {cause.message}"
        self.hint = cause.hint


def _step(place: _Place, payload: Payload) -> _Step:
    try:
        return _Step(place, payload, scan_links(payload.payload, place.role))
    except (DamagedRowError, FormatError) as error:
        raise _BrokenError(place, error) from error


def _lineage(commit: _Step) -> CommitLineage:
    try:
        return commit_lineage(commit.payload.payload)
    except DamagedRowError as error:
        raise _BrokenError(commit.place, error) from error


def _way(place: _Place, walk: Callable[[], Iterator[_Step]]) -> Sequence[str]:
    """How the walk came to a place. It is walked again for each step back, to remember nothing.

    A walk comes to what leads to an object before it comes to the object itself.
    """
    way = [place.name]
    while place.reference is None:
        parent = _parent(place.id, walk())
        if parent is None:
            return way
        place = parent.place
        way.insert(0, place.name)
    return [f"reference {place.reference!r}", *way]


def _parent(number: int, steps: Iterator[_Step]) -> _Step | None:
    try:
        return next((step for step in steps if step.leads_to(number)), None)
    except (_BrokenError, HeadMissingError):
        return None
