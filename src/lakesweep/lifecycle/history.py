"""The runs of a repository, as files beside it: what each saw, and what became of it.

    runs/<repository>/<time>-<run>.json what a run saw when it judged; never changed
    stats/dt=<day>/run_id=<run>.json    what became of it, written last
    policy/run_id=<run>/                the policy table of the run
    commits/run_id=<run>/               the commits of the run
    addresses/dt=<day>/run_id=<run>/    the addresses that it found

Only a run that swept, so that all it found is gone, tells the next one where to go on. Several
repositories may share a place, so each has a folder of runs. They are told apart by when the store
wrote them down: the clock of a machine may have been wrong for a day.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import msgspec

from lakesweep.errors import FormatError, MissingError, NotFoundError
from lakesweep.lakefs.refs import Branch, Refs
from lakesweep.storage.address import folder_identity, parse

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener

#: Where a repository's runs are kept, below its namespace.
HOME = "_lakefs/retention/lc/"
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

T = TypeVar("T")


class RunState(StrEnum):
    """What became of a run that was applied. Only SWEPT means that all it found is gone."""

    SWEPT = "swept"
    PARTIAL = "partial"
    FAILED = "failed"


class Lost(msgspec.Struct, frozen=True):
    """A branch that was deleted or moved back, where its HEAD was, and when that was first seen."""

    name: str
    commit_id: str
    since: datetime

    def branch(self) -> Branch:
        """As it was."""
        return Branch(self.name, self.commit_id)


class RunRecord(msgspec.Struct, frozen=True):
    """What a run saw: the policy, the refs, and what was chosen."""

    run_id: str
    started: datetime
    policy_sha256: str
    options: str
    branches: Mapping[str, str]
    tags: Mapping[str, str]
    lost: tuple[Lost, ...]
    verdicts: str
    version: int = 1


class RunStats(msgspec.Struct, frozen=True):
    """What became of a run."""

    run_id: str
    started: datetime
    finished: datetime
    state: RunState
    success: bool
    figures: Mapping[str, int]
    version: int = 1


def heads_of(refs: Refs) -> tuple[dict[str, str], dict[str, str]]:
    """Branches and tags with their commits."""
    branches = {branch.name: branch.commit_id for branch in refs.branches}
    return branches, {tag.name: tag.commit_id for tag in refs.tags}


class History:
    """The runs of a repository, by the address of its namespace, below a home."""

    def __init__(self, stores: StoreOpener, home: str, location: str) -> None:
        self._stores = stores
        self.home = home if home.endswith("/") else home + "/"
        known = hashlib.sha256(folder_identity(location).encode())
        self.runs = f"runs/{known.hexdigest()[:16]}/"

    def table(self, name: str, run_id: str) -> str:
        """The address of a table of a run."""
        return f"{self.home}{name}/run_id={run_id}/"

    def record(self, run: RunRecord) -> None:
        """Write down what a run saw."""
        self._write(f"{self.runs}{_stamp(run.started)}-{run.run_id}.json", run)

    def finish(
        self, run: RunRecord, state: RunState, finished: datetime, figures: Mapping[str, int]
    ) -> None:
        """Write down what became of a run; the last word counts."""
        stats = RunStats(
            run.run_id, run.started, finished, state, state is RunState.SWEPT, dict(figures)
        )
        self._write(self._stats_name(run), stats)

    def last(self) -> RunRecord | None:
        """The newest run, whatever became of it."""
        return next(self._records(), None)

    def last_swept(self) -> RunRecord | None:
        """The newest run that swept."""
        return next((run for run in self._records() if self.has_swept(run)), None)

    def find(self, run_id: str) -> RunRecord | None:
        """A run by its id."""
        return next((run for run in self._records() if run.run_id == run_id), None)

    def has_swept(self, run: RunRecord) -> bool:
        """Whether all is gone that a run found."""
        try:
            stats = self._read(self._stats_name(run), RunStats)
        except MissingError:
            return False
        return stats.state is RunState.SWEPT and stats.success

    @staticmethod
    def _stats_name(run: RunRecord) -> str:
        return f"stats/dt={run.started:%Y-%m-%d}/run_id={run.run_id}.json"

    def _records(self) -> Iterator[RunRecord]:
        """All runs, the newest first."""
        for _, name in sorted(self._names(), reverse=True):
            yield self._read(name, RunRecord)

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
