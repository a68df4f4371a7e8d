"""The lifecycle runs of a repository: what the store remembers, and files beside the repository.

    runs/<repository>/<time>-<run>.json what a run saw when it judged; never changed
    stats/dt=<day>/<run>.json           its outcome, written last
    stats/<day>.csv                     all outcomes of a day
    policy/dt=<day>/<run>/              the policy table of the run
    commits/dt=<day>/<run>/             the commits of the run
    addresses/dt=<day>/<run>/           the addresses that its plan deletes

The files are for people and their tools. Anyone who can write to the bucket can change them, so
what a run builds on is kept in the store: the last run, and the last one that swept, that is,
deleted everything it found.

Branches that were deleted or moved back since the last run keep their objects for a grace
period, so that a branch deleted by mistake can be restored. For this alone the newest file of a
run counts as well: a run with another store may have seen a branch that ours did not, and a
forged file can only keep more. Several repositories may share a home, so each has its own folder
of runs. They are ordered by the store's modification time, because the clock of a machine may
have been wrong.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import FormatError, MissingError, NotFoundError
from lakesweep.lakefs.refs.commit_graph import Refs, RepositoryBranch
from lakesweep.storage.address import folder_identity, parse
from lakesweep.untrusted.documents import JSON_ERRORS

if TYPE_CHECKING:
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.object_store import StoreOpener

#: Where a repository's runs are kept, below its namespace.
HOME = "_lakefs/retention/lc/"
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
#: The name of the document in the store.
_DOCUMENT = "lifecycle-runs"

T = TypeVar("T")


@dataclass(frozen=True)
class VouchedDocuments:
    """What the runs of a repository keep in the store, where no writer of the bucket reaches it."""

    runs: RunLog
    lake: str

    def read(self, name: str, kind: type[T]) -> T | None:
        """A document; None if there is none."""
        data = self.runs.document(self.lake, name)
        return None if data is None else typed_json(data, kind)

    def write(self, name: str, document: object) -> None:
        """Replace a document."""
        self.runs.keep_document(self.lake, name, msgspec.json.encode(document))


class LifecycleRunState(StrEnum):
    """What became of a run that was applied. Only SWEPT means that all it found is gone."""

    SWEPT = "swept"
    PARTIAL = "partial"
    FAILED = "failed"
    DRY_RUN = "dry-run"


class LostBranch(msgspec.Struct, frozen=True):
    """A branch that was deleted or moved back, where its HEAD was, and when that was first seen."""

    name: str
    commit_id: str
    since: datetime

    def branch(self) -> RepositoryBranch:
        """As it was."""
        return RepositoryBranch(self.name, self.commit_id)


class LifecycleRunRecord(msgspec.Struct, frozen=True):
    """What a run saw: the policy, the refs, and what was chosen.

    `tables` are the hashes of the tables that a later run builds on.
    """

    run_id: str
    started: datetime
    policy_sha256: str
    options: str
    branches: Mapping[str, str]
    tags: Mapping[str, str]
    lost: tuple[LostBranch, ...]
    verdicts: str
    version: int = 1
    tables: Mapping[str, str] = {}

    @property
    def heads(self) -> set[str]:
        """All commits that branches and tags pointed to, or did until shortly before."""
        return {
            *self.branches.values(),
            *self.tags.values(),
            *(lost.commit_id for lost in self.lost),
        }


class _KnownRuns(msgspec.Struct, frozen=True):
    """What the store knows: the newest run, whatever became of it, and the last that swept."""

    last: LifecycleRunRecord | None = None
    swept: LifecycleRunRecord | None = None


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


def table_address(home: str, name: str, run_id: str, started: datetime) -> str:
    """The address of a table of a run.

    Only the day is a `key=value` folder: `run_id` is a column of the tables, and readers that take
    partitions from paths refuse a column that comes from both.
    """
    return f"{home.rstrip('/')}/{name}/dt={started:%Y-%m-%d}/{run_id}/"


class LifecycleHistory:
    """The runs of a repository, by the address of its namespace, below a home."""

    def __init__(
        self, stores: StoreOpener, home: str, location: str, documents: VouchedDocuments
    ) -> None:
        self._stores = stores
        self._documents = documents
        self.home = home if home.endswith("/") else home + "/"
        known = hashlib.sha256(folder_identity(location).encode())
        self.runs = f"runs/{known.hexdigest()[:16]}/"

    def record(self, run: LifecycleRunRecord) -> None:
        """Write down what a run saw."""
        self._write(f"{self.runs}{_stamp(run.started)}-{run.run_id}.json", run)
        self._learn(last=run)

    def finish(
        self,
        run: LifecycleRunRecord,
        state: LifecycleRunState,
        finished: datetime,
        figures: Mapping[str, int],
    ) -> None:
        """Write down what became of a run; the last word counts."""
        self._write_stats(run, state, finished, figures)
        if state is LifecycleRunState.SWEPT:
            self._learn(swept=run)
        elif self.has_swept(run):
            self._learn(swept=None)

    def finish_dry_run(
        self, run: LifecycleRunRecord, finished: datetime, figures: Mapping[str, int]
    ) -> None:
        """Write down that a run was only tried; no later run builds on it."""
        self._write_stats(run, LifecycleRunState.DRY_RUN, finished, figures)

    def _write_stats(
        self,
        run: LifecycleRunRecord,
        state: LifecycleRunState,
        finished: datetime,
        figures: Mapping[str, int],
    ) -> None:
        has_swept = state is LifecycleRunState.SWEPT
        stats = LifecycleRunStats(
            run.run_id, run.started, finished, state, has_swept, dict(figures)
        )
        day = f"{finished:%Y-%m-%d}"
        suffix = "-dry-run" if state is LifecycleRunState.DRY_RUN else ""
        self._write(f"stats/dt={day}/{run.run_id}{suffix}.json", stats)
        # Made from the files of all runs of the day, so that no two runs overwrite a line.
        names = sorted(name for _, name in self._names(f"stats/dt={day}/"))
        self._store_bytes(f"stats/{day}.csv", stats_csv(self._stats(names)))

    def _stats(self, names: Iterable[str]) -> Iterator[LifecycleRunStats]:
        """The outcomes in some files; what is none is left out of a table for people."""
        for name in names:
            with suppress(FormatError, MissingError):
                yield self._read(name, LifecycleRunStats)

    def last(self) -> LifecycleRunRecord | None:
        """The newest run that the store knows, whatever became of it."""
        return self._known.last

    def last_swept(self) -> LifecycleRunRecord | None:
        """The last run that swept."""
        return self._known.swept

    @property
    def _known(self) -> _KnownRuns:
        return self._documents.read(_DOCUMENT, _KnownRuns) or _KnownRuns()

    def _learn(self, **runs: LifecycleRunRecord | None) -> None:
        # The lease of the repository is held, so nothing else changes the document meanwhile.
        self._documents.write(_DOCUMENT, msgspec.structs.replace(self._known, **runs))

    def has_swept(self, run: LifecycleRunRecord) -> bool:
        """Whether a run is the last one that swept."""
        swept = self.last_swept()
        return swept is not None and swept.run_id == run.run_id

    def last_seen(self) -> list[LifecycleRunRecord]:
        """The newest run of this store, and the newest that a file tells of."""
        known = self.last()
        return [*([] if known is None else [known]), *self._newest_file()]

    def _newest_file(self) -> Iterator[LifecycleRunRecord]:
        for _, name in sorted(self._names(self.runs), reverse=True)[:1]:
            yield self._read(name, LifecycleRunRecord)

    def _names(self, folder: str) -> Iterator[tuple[datetime, str]]:
        """The files of a folder, and when the store wrote them."""
        place = parse(self.home)
        prefix = place.key + folder
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
        self._store_bytes(name, msgspec.json.encode(document))

    def _store_bytes(self, name: str, data: bytes) -> None:
        place = parse(self.home + name)
        self._stores.open(place).write(place.key, data)

    def _read(self, name: str, kind: type[T]) -> T:
        place = parse(self.home + name)
        data = self._stores.open(place).read(place.key)
        try:
            return typed_json(data, kind)
        except JSON_ERRORS as error:
            raise FormatError(
                place.path,
                f"this is no record of a run: {error}",
                hint="remove the file: the store has its own record of the last run",
            ) from error


#: The figures of a run in the table of a day, in this order.
_FIGURES = (
    "found",
    "deleted",
    "bytes_deleted",
    "quarantined",
    "absent",
    "changed",
    "failed",
    "kept_by_remark",
    "waiting",
    "taken_off",
)


def stats_csv(runs: Iterable[LifecycleRunStats]) -> bytes:
    """The outcomes of runs as CSV, in the order in which they ended."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run_id", "started", "finished", "state", "dry_run", "success", *_FIGURES])
    for run in sorted(runs, key=lambda each: (each.finished, each.run_id)):
        dry_run = run.state is LifecycleRunState.DRY_RUN
        flags = (str(dry_run).lower(), str(run.success).lower())
        times = (f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in (run.started, run.finished))
        counts = (run.figures.get(name, 0) for name in _FIGURES)
        writer.writerow([run.run_id, *times, run.state.value, *flags, *counts])
    return text.getvalue().encode()


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y%m%dT%H%M%S.%fZ}"


def lost_branches(
    refs: Refs, seen: list[LifecycleRunRecord], now: datetime, grace: timedelta
) -> tuple[LostBranch, ...]:
    """The HEADs that the last runs saw and that their branches no longer reach, within the grace.

    What several runs saw is kept for the longest time: no forged record ends it earlier.
    """
    found: dict[tuple[str, str], LostBranch] = {}
    for run in seen:
        for lost in _lost(refs, run, now):
            known = found.setdefault((lost.name, lost.commit_id), lost)
            found[lost.name, lost.commit_id] = max(known, lost, key=lambda each: each.since)
    return tuple(lost for lost in found.values() if now - lost.since < grace)


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
