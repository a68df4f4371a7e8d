"""The lifecycle runs of a repository, kept as files beside it.

    runs/<repository>/<time>-<run>.json what a run saw when it judged; never changed
    stats/dt=<day>/run_id=<run>.json    its outcome, written last
    policy/run_id=<run>/                the policy table of the run
    commits/run_id=<run>/               the commits of the run
    addresses/dt=<day>/run_id=<run>/    the addresses that it found

A later run continues only from a run that swept, that is, deleted everything it found.
Several repositories may share a home, so each has its own folder of runs. Runs are ordered by
the store's modification time, because the clock of a machine may have been wrong.

Branches that were deleted or moved back since the last run keep their objects for a grace
period, so that a branch deleted by mistake can be restored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import msgspec

from lakesweep.errors import FormatError, MissingError, NotFoundError
from lakesweep.lakefs.refs.commit_graph import Refs, RepositoryBranch
from lakesweep.storage.address import folder_identity, parse

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener

#: Where a repository's runs are kept, below its namespace.
HOME = "_lakefs/retention/lc/"
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

T = TypeVar("T")


class LifecycleRunState(StrEnum):
    """What became of a run that was applied. Only SWEPT means that all it found is gone."""

    SWEPT = "swept"
    PARTIAL = "partial"
    FAILED = "failed"


class LostBranch(msgspec.Struct, frozen=True):
    """A branch that was deleted or moved back, where its HEAD was, and when that was first seen."""

    name: str
    commit_id: str
    since: datetime

    def branch(self) -> RepositoryBranch:
        """As it was."""
        return RepositoryBranch(self.name, self.commit_id)


class LifecycleRunRecord(msgspec.Struct, frozen=True):
    """What a run saw: the policy, the refs, and what was chosen."""

    run_id: str
    started: datetime
    policy_sha256: str
    options: str
    branches: Mapping[str, str]
    tags: Mapping[str, str]
    lost: tuple[LostBranch, ...]
    verdicts: str
    version: int = 1


class LifecycleRunStats(msgspec.Struct, frozen=True):
    """What became of a run."""

    run_id: str
    started: datetime
    finished: datetime
    state: LifecycleRunState
    success: bool
    figures: Mapping[str, int]
    version: int = 1


def ref_heads(refs: Refs) -> tuple[dict[str, str], dict[str, str]]:
    """Branches and tags with their commits."""
    branches = {branch.name: branch.commit_id for branch in refs.branches}
    return branches, {tag.name: tag.commit_id for tag in refs.tags}


class LifecycleHistory:
    """The runs of a repository, by the address of its namespace, below a home."""

    def __init__(self, stores: StoreOpener, home: str, location: str) -> None:
        self._stores = stores
        self.home = home if home.endswith("/") else home + "/"
        known = hashlib.sha256(folder_identity(location).encode())
        self.runs = f"runs/{known.hexdigest()[:16]}/"

    def table(self, name: str, run_id: str) -> str:
        """The address of a table of a run."""
        return f"{self.home}{name}/run_id={run_id}/"

    def record(self, run: LifecycleRunRecord) -> None:
        """Write down what a run saw."""
        self._write(f"{self.runs}{_stamp(run.started)}-{run.run_id}.json", run)

    def finish(
        self,
        run: LifecycleRunRecord,
        state: LifecycleRunState,
        finished: datetime,
        figures: Mapping[str, int],
    ) -> None:
        """Write down what became of a run; the last word counts."""
        stats = LifecycleRunStats(
            run.run_id,
            run.started,
            finished,
            state,
            state is LifecycleRunState.SWEPT,
            dict(figures),
        )
        self._write(self._stats_name(run), stats)

    def last(self) -> LifecycleRunRecord | None:
        """The newest run, whatever became of it."""
        return next(self._records(), None)

    def last_swept(self) -> LifecycleRunRecord | None:
        """The newest run that swept."""
        return next((run for run in self._records() if self.has_swept(run)), None)

    def find(self, run_id: str) -> LifecycleRunRecord | None:
        """A run by its id."""
        return next((run for run in self._records() if run.run_id == run_id), None)

    def has_swept(self, run: LifecycleRunRecord) -> bool:
        """Whether all is gone that a run found."""
        try:
            stats = self._read(self._stats_name(run), LifecycleRunStats)
        except MissingError:
            return False
        return stats.state is LifecycleRunState.SWEPT and stats.success

    @staticmethod
    def _stats_name(run: LifecycleRunRecord) -> str:
        return f"stats/dt={run.started:%Y-%m-%d}/run_id={run.run_id}.json"

    def _records(self) -> Iterator[LifecycleRunRecord]:
        """All runs, the newest first."""
        for _, name in sorted(self._names(), reverse=True):
            yield self._read(name, LifecycleRunRecord)

    def _names(self) -> Iterator[tuple[datetime, str]]:
        """The records, and when the store wrote them."""
        place = parse(self.home)
        prefix = place.key + self.runs
        cursor: object | None = None
        while True:
            try:
                page = self._stores.open(place).list(prefix, cursor=cursor)
            except NotFoundError:
                return
            for row in page.entries.select(["key", "modified"]).to_pylist():
                yield row["modified"] or _LONG_AGO, row["key"].removeprefix(place.key)
            if page.next is None:
                return
            cursor = page.next

    def _write(self, name: str, document: msgspec.Struct) -> None:
        place = parse(self.home + name)
        self._stores.open(place).write(place.key, msgspec.json.encode(document))

    def _read(self, name: str, kind: type[T]) -> T:
        place = parse(self.home + name)
        data = self._stores.open(place).read(place.key)
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FormatError(place.path, f"this is no record of a run: {error}") from error


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y%m%dT%H%M%S.%fZ}"


def lost_branches(
    refs: Refs, last: LifecycleRunRecord | None, now: datetime, grace: timedelta
) -> tuple[LostBranch, ...]:
    """The HEADs that the last run saw and that their branches no longer reach, within the grace."""
    if last is None:
        return ()
    return tuple(lost for lost in _lost(refs, last, now) if now - lost.since < grace)


def _lost(refs: Refs, last: LifecycleRunRecord, now: datetime) -> Iterator[LostBranch]:
    known = [*last.lost, *(LostBranch(name, head, now) for name, head in last.branches.items())]
    heads = {branch.name: branch.commit_id for branch in refs.branches}
    reached: dict[str, frozenset[str]] = {}
    seen = set()
    for lost in known:
        if heads.get(lost.name) == lost.commit_id or (lost.name, lost.commit_id) in seen:
            continue
        if lost.name in heads and lost.name not in reached:
            reached[lost.name] = refs.reached([heads[lost.name]])
        if lost.commit_id not in reached.get(lost.name, ()) and lost.commit_id in refs.commits:
            seen.add((lost.name, lost.commit_id))
            yield lost
