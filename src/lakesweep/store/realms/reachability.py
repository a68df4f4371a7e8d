"""All objects that are reachable from the references of a realm.

The walk leads from the commits of each reference to the nodes of their indexes and to linked
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

#: A node may link to thousands of objects, so few nodes are read before those.
_PAGE_NODES = 8
_IF_MISSING = "run it again if maintenance is running, or skip old commits with --history 1"


def reach(
    realm: Realm, references: Sequence[Reference], *, history: int | None = None
) -> Iterator[Payload]:
    """Every object that is reachable from these references, each once, as it is read.

    A log counts with its newest `history` commits, or else completely: a missing commit ends
    it. Anything else that is missing or damaged is an error, which names the path to it. Memory
    grows by 8 bytes per object, and twice that at times.
    """
    kept = LogRetention() if history is None else LogRetention(history)
    return ReachabilityWalk(realm, lambda _: kept).reach(references)


class _Target(NamedTuple):
    """An object in the walk: its role, and the reference in whose log it is, if it is a commit."""

    id: int
    role: LinkRole = WHOLE
    reference: str | None = None

    @property
    def name(self) -> str:
        return self.role.name(self.id) if self.reference is None else f"commit {self.id}"


class _Step(NamedTuple):
    """An object that was read, and its links."""

    target: _Target
    payload: Payload
    links: LinkTargets

    def links_to(self, number: int) -> bool:
        return any(number in ids for ids in self.links.values())


class _Queue:
    """Ids that wait to be read. It stays short: index nodes wait behind whole objects."""

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

    def take(self) -> Sequence[_Target]:
        """Some ids of one role; none when everything was taken."""
        role = self._next()
        ids = self._ids[role]
        page = ids[-(PAGE_ROWS if role == WHOLE else _PAGE_NODES) :]
        del ids[len(ids) - len(page) :]
        return [_Target(number, role) for number in page]

    def _next(self) -> LinkRole:
        nodes = [role for role, ids in self._ids.items() if ids and role != WHOLE]
        # Full pages need the fewest round trips; nodes provide more ids to fill one.
        if not nodes or len(self._ids[WHOLE]) >= PAGE_ROWS:
            return WHOLE
        return max(nodes, key=lambda role: role.height or 0)


class ReachabilityWalk:
    """A walk over one realm. `history` returns the log retention for a reference name."""

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
        """Every object reachable from these references that was not reached before; see `reach`."""
        try:
            for step in self._steps(references):
                yield step.payload
        except _BrokenError as broken:
            again = partial(ReachabilityWalk, self._realm, self._history)
            path = _path_to(broken.target, lambda: again()._steps(references))  # noqa: SLF001
            message = f"{broken.reason}; reached by {' → '.join(path)}"
            raise broken.kind(message, hint=broken.hint) from broken

    def add_optional(self, ids: Collection[int]) -> None:
        """Also reach these objects, if they exist, with the next walk."""
        new = self._reached.add(list(ids))
        self._optional.update(new.tolist())
        self._queue.put(WHOLE, new.tobytes())

    @property
    def has_more(self) -> bool:
        """Whether something waits to be reached."""
        return not self._queue.is_empty

    def ids(self) -> Iterator[Ids]:
        """The ids of everything that was reached, each once."""
        return self._reached.runs()

    def _steps(self, references: Iterable[Reference]) -> Iterator[_Step]:
        for reference in references:
            for commit in self._log(reference):
                if len(self._reached.add([commit.target.id])):
                    self._enter(commit.links)
                    yield commit
                if self._queue.is_long:
                    yield from self._rest()
        yield from self._rest()

    def _log(self, reference: Reference) -> Iterator[_Step]:
        """The commits of a reference, newest first, up to the first missing one."""
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
        for target, payload in self._read([_Target(number, WHOLE, reference) for number in ids]):
            if payload is None:
                break
            found.append(_step(target, payload))
        return found

    def _rest(self) -> Iterator[_Step]:
        """Everything that waits, and everything it links to."""
        while targets := self._queue.take():
            found: defaultdict[LinkRole, list[int]] = defaultdict(list)
            for target, payload in self._read(targets):
                if payload is None and target.id in self._optional:
                    continue
                if payload is None:
                    missing = DamagedRowError(f"{target.name} is missing", hint=_IF_MISSING)
                    raise _BrokenError(target, missing)
                step = _step(target, payload)
                for role, ids in step.links.items():
                    found[role] += ids
                yield step
            self._enter(found)

    def _read(self, targets: Sequence[_Target]) -> Iterator[tuple[_Target, Payload | None]]:
        payloads = self._payloads.read([target.id for target in targets])
        for target in targets:
            try:
                payload = next(payloads)
            except DamagedRowError as error:
                raise _BrokenError(target, error) from error
            yield target, payload

    def _enter(self, links: LinkTargets) -> None:
        """Queue everything that was not reached before."""
        for role, ids in links.items():
            wanted = ids if role == WHOLE else self._nodes[role].add(ids)
            new = self._reached.add(wanted)
            if role != WHOLE and len(new) < len(wanted):
                # Read in one role only, it might seem to link to less than it does.
                target = _Target(min(set(wanted) - set(new)), role)
                raise _BrokenError(target, DamagedRowError("it is also used as something else"))
            self._queue.put(role, new.tobytes())


class _BrokenError(Exception):
    """The walk reached an object that cannot be read."""

    def __init__(self, target: _Target, cause: DamagedRowError | FormatError) -> None:
        super().__init__(cause.message)
        self.target = target
        self.kind = NewerRowError if isinstance(cause, NewerRowError) else DamagedRowError
        # Errors about rows name the object; errors about its bytes do not.
        is_named = str(target.id) in cause.message
        self.reason = cause.message if is_named else f"{target.name}: {cause.message}"
        self.hint = cause.hint


def _step(target: _Target, payload: Payload) -> _Step:
    try:
        return _Step(target, payload, scan_links(payload.payload, target.role))
    except (DamagedRowError, FormatError) as error:
        raise _BrokenError(target, error) from error


def _lineage(commit: _Step) -> CommitLineage:
    try:
        return commit_lineage(commit.payload.payload)
    except DamagedRowError as error:
        raise _BrokenError(commit.target, error) from error


def _path_to(target: _Target, walk: Callable[[], Iterator[_Step]]) -> Sequence[str]:
    """The path by which the walk reached an object.

    Walks again for each step back, to keep no history in memory. A walk reaches what links to an
    object before the object itself.
    """
    path = [target.name]
    while target.reference is None:
        parent = _parent(target.id, walk())
        if parent is None:
            return path
        target = parent.target
        path.insert(0, target.name)
    return [f"reference {target.reference!r}", *path]


def _parent(number: int, steps: Iterator[_Step]) -> _Step | None:
    try:
        return next((step for step in steps if step.links_to(number)), None)
    except (_BrokenError, HeadMissingError):
        return None
