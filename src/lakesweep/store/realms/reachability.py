"""All objects that are reachable from the references of a realm.

The walk leads from the commits of each reference to the nodes of their indexes and to linked
objects, and on from there. It needs no knowledge of types: see `links`.

The ids of millions of objects are kept in little memory.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lakesweep.errors import DamagedRowError, FormatError, HeadMissingError, NewerRowError
from lakesweep.store.backends.rows import Ids, Reference
from lakesweep.store.commits.log import LogRetention
from lakesweep.store.realms.link_reader import LinkPage, LinkReader, LocalLinks
from lakesweep.store.realms.link_scan import (
    WHOLE,
    CommitLineage,
    LinkRole,
    LinkTargets,
    commit_lineage,
    scan_links,
)
from lakesweep.store.realms.payloads import Payload, Payloads
from lakesweep.store.realms.realm import Realm

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
    """A single object that was read, and its links."""

    target: _Target
    payload: Payload
    links: LinkTargets

    def page(self) -> LinkPage:
        return LinkPage(
            self.target.role,
            np.array([self.target.id], np.int64),
            {role: np.array(ids, np.int64) for role, ids in self.links.items()},
            sum(map(len, self.links.values())),
            [self.payload],
            reference=self.target.reference,
        )


class _Queue:
    """Ids that wait to be read. It stays short: index nodes wait behind whole objects."""

    def __init__(self, most: Callable[[LinkRole], int]) -> None:
        self._most = most
        self._ids: defaultdict[LinkRole, array[int]] = defaultdict(lambda: array("q"))

    @property
    def is_empty(self) -> bool:
        return not any(self._ids.values())

    @property
    def is_long(self) -> bool:
        return sum(map(len, self._ids.values())) >= self._most(WHOLE)

    def put(self, role: LinkRole, ids: bytes) -> None:
        self._ids[role].frombytes(ids)

    def take(self) -> tuple[LinkRole, Ids]:
        """Some ids of one role; none when everything was taken."""
        role = self._next()
        ids = self._ids[role]
        page = ids[-self._most(role) :]
        del ids[len(ids) - len(page) :]
        return role, np.array(page, np.int64)

    def _next(self) -> LinkRole:
        nodes = [role for role, ids in self._ids.items() if ids and role != WHOLE]
        # Full pages need the fewest round trips; nodes provide more ids to fill one.
        if not nodes or len(self._ids[WHOLE]) >= self._most(WHOLE):
            return WHOLE
        return max(nodes, key=lambda role: role.height or 0)


class ReachabilityWalk:
    """A walk over one realm. `history` returns the log retention for a reference name.

    `reader` reads everything behind the commits; by default in this process, with all payloads.
    """

    def __init__(
        self,
        realm: Realm,
        history: Callable[[str], LogRetention],
        reader: LinkReader | None = None,
    ) -> None:
        self._realm = realm
        self._payloads = Payloads(realm)
        self._references = realm.references
        self._history = history
        self._reader = reader or LocalLinks(realm)
        self._reached = IdSet()
        self._nodes: defaultdict[LinkRole, IdSet] = defaultdict(IdSet)
        self._queue = _Queue(self._reader.most)
        self._optional: set[int] = set()
        #: How many links were followed, those of references and logs included.
        self.link_count = 0

    def reach(self, references: Sequence[Reference]) -> Iterator[Payload]:
        """Every object reachable from these references that was not reached before; see `reach`."""
        for page in self.pages(references):
            yield from page.payloads

    def pages(self, references: Sequence[Reference]) -> Iterator[LinkPage]:
        """The same objects, page by page."""
        try:
            yield from self._pages(references)
        except _BrokenError as broken:
            message = f"{broken.reason}; reached by {' → '.join(self._path(broken, references))}"
            raise broken.kind(message, hint=broken.hint) from broken

    def add_optional(self, ids: Collection[int]) -> None:
        """Also reach these objects, if they exist, with the next walk."""
        self.link_count += len(ids)
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

    def _pages(self, references: Iterable[Reference]) -> Iterator[LinkPage]:
        for reference in references:
            for commit in self._log(reference):
                self.link_count += 1
                if len(self._reached.add([commit.target.id])):
                    yield self._entered(commit.page())
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

    def _rest(self) -> Iterator[LinkPage]:
        """Everything that waits, and everything it links to."""
        while not self._queue.is_empty:
            for page in self._reader.read(*self._queue.take()):
                # Alone, an object is either there after all, or the error says what is wrong.
                again = list(self._again(page.role, page.broken))
                for each in (page, *(step.page() for step in again)):
                    yield self._entered(each)

    def _again(self, role: LinkRole, ids: Sequence[int]) -> Iterator[_Step]:
        for target, payload in self._read([_Target(number, role) for number in sorted(ids)]):
            if payload is not None:
                yield _step(target, payload)
            elif target.id not in self._optional:
                missing = DamagedRowError(f"{target.name} is missing", hint=_IF_MISSING)
                raise _BrokenError(target, missing)

    def _read(self, targets: Sequence[_Target]) -> Iterator[tuple[_Target, Payload | None]]:
        payloads = self._payloads.read([target.id for target in targets])
        for target in targets:
            try:
                payload = next(payloads)
            except DamagedRowError as error:
                raise _BrokenError(target, error) from error
            yield target, payload

    def _entered(self, page: LinkPage) -> LinkPage:
        """The page, after everything that it links to and was not reached before is queued."""
        self.link_count += page.link_count
        for role, ids in page.links.items():
            wanted = ids if role == WHOLE else self._nodes[role].add(ids)
            new = self._reached.add(wanted)
            if role != WHOLE and len(new) < len(wanted):
                # Read in one role only, it might seem to link to less than it does.
                target = _Target(int(np.setdiff1d(wanted, new)[0]), role)
                raise _BrokenError(target, DamagedRowError("it is also used as something else"))
            self._queue.put(role, new.tobytes())
        return page

    def _path(self, broken: _BrokenError, references: Sequence[Reference]) -> Sequence[str]:
        """The path by which a walk reaches an object.

        Walks again for each step back, to keep no history in memory. A walk reaches what links to
        an object before the object itself.
        """
        target, path = broken.target, [broken.target.name]
        while target.reference is None:
            again = ReachabilityWalk(self._realm, self._history)
            parent = again._parent(target.id, references)
            if parent is None:
                return path
            target = parent
            path.insert(0, target.name)
        return [f"reference {target.reference!r}", *path]

    def _parent(self, number: int, references: Sequence[Reference]) -> _Target | None:
        """The first object of a walk that links to this one."""
        try:
            page = next(page for page in self._pages(references) if page.links_to(number))
        except (StopIteration, _BrokenError, HeadMissingError):
            return None
        targets = [_Target(number, page.role, page.reference) for number in page.ids.tolist()]
        steps = (_step(target, payload) for target, payload in self._read(targets) if payload)
        return next(
            (step.target for step in steps if any(number in ids for ids in step.links.values())),
            None,
        )


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


class IdSet:
    """Ids in sorted runs, 8 bytes each; briefly twice that, while two runs are merged.

    Each run is more than twice as long as the next, so there are few to search.
    """

    def __init__(self) -> None:
        self._runs: list[Ids] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def runs(self) -> Iterator[Ids]:
        """All ids, each once, in arrays of some thousands or more."""
        return iter(self._runs)

    def add(self, ids: Sequence[int] | Ids) -> Ids:
        """Add ids; returns the new ones, each once, in ascending order."""
        new = np.unique(np.asarray(ids, np.int64))
        for run in self._runs:
            new = new[~_has(run, new)]
        if len(new):
            self._runs.append(new)
            self._tidy()
        return new

    def _tidy(self) -> None:
        runs = self._runs
        while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]):
            merged = np.concatenate((runs.pop(), runs.pop()))
            merged.sort(kind="stable")  # detects the two sorted halves and merges them
            runs.append(merged)


def _has(run: Ids, ids: Ids) -> npt.NDArray[np.bool_]:
    """Which of the ids are in the run."""
    positions = np.searchsorted(run, ids)
    positions[positions == len(run)] = 0
    found: npt.NDArray[np.bool_] = run[positions] == ids
    return found
