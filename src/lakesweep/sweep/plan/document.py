"""The plan document: what a run found and what it would delete. Written once, never changed.

A plan is a folder of datasets and one document, `plan.json`, which is written last and holds
the hash of each dataset. The store keeps the hash of the document. So apply can tell that it
carries out exactly what was shown. The status of a plan is kept in the store only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import DamagedError, MissingError, NotFoundError, UsageError
from lakesweep.runs.records import command_prefix, is_repository, is_table, plan_command
from lakesweep.runs.run_figures import Recorded
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import load_dataset
from lakesweep.sweep.guards import GoneRoot, Guard
from lakesweep.sweep.judge.totals import NO_FILES, ClassTotals, FileTotals, TableTotals
from lakesweep.sweep.mark.marks import EmptyCatalog, Marks, RootState
from lakesweep.sweep.paths.folder_map import FolderOverlap
from lakesweep.sweep.paths.foreign_formats import ForeignFolder

if TYPE_CHECKING:
    from lakesweep.runs.records import PlanRecord
    from lakesweep.storage.object_store import StoreOpener
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.mark.survey import LakeSurvey

DOCUMENT = "plan.json"
VERSION = 1
#: At most this many roots of each kind are in the document.
MOST_ROOTS = 1_000
#: Plans expire after this.
PLAN_LIFETIME = timedelta(hours=24)


class PlanKind(StrEnum):
    """What a plan judges: a lake by its roots, a repository by a policy, or a table's history."""

    SWEEP = "sweep"
    LIFECYCLE = "lifecycle"
    EXPIRY = "expiry"

    @classmethod
    def of(cls, lake: str) -> PlanKind:
        """The kind of the plans that are recorded under the name of a lake."""
        if is_repository(lake):
            return cls.LIFECYCLE
        return cls.EXPIRY if is_table(lake) else cls.SWEEP


class IncompleteRoot(msgspec.Struct, frozen=True):
    """A root that could not be read, and why."""

    name: str
    reason: str


class UnlistedTable(msgspec.Struct, frozen=True):
    """A table that was found by its files and that no catalog lists.

    `pointer` is its metadata file, or its folder; `origin` the scan that found it, or its format.
    It is kept unless a person has let it go by name. Of one that no root lists at all, `files` and
    `bytes` are what is kept.
    """

    pointer: str
    origin: str
    folders: tuple[str, ...]
    kept: bool
    files: int = 0
    bytes: int = 0


class AcceptedGuard(msgspec.Struct, frozen=True):
    """A standing decision of the configuration that counted when the plan was made.

    `until` is its last day.
    """

    guard: str
    subject: str
    until: date
    reason: str


class RootCounts(msgspec.Struct, frozen=True):
    """How many roots were complete, incomplete, dropped meanwhile or no longer listed."""

    complete: int
    incomplete: int
    absent: int = 0
    gone: int = 0


class DatasetRef(msgspec.Struct, frozen=True):
    """A dataset of the plan: its folder below that of the plan, and its hash."""

    folder: str
    sha256: str
    rows: int


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a plan except its files, which are in its datasets.

    `configured_grace_seconds` is the grace of the lake at that time, which the plan's own may
    override. `restores` are the marks of the last restore, by location, and `inner_homes` the
    folders of other lakes inside the locations. `details` are specific to the kind of plan.
    `policy` is the hash of the policy that a repository was judged by.
    """

    plan: str
    lake: str
    kind: PlanKind = PlanKind.SWEEP
    created: datetime
    expires: datetime
    cut_off: datetime
    grace_seconds: float
    configured_grace_seconds: float | None = None
    mode: str
    roots: RootCounts
    incomplete_roots: tuple[IncompleteRoot, ...] = ()
    unlisted: tuple[UnlistedTable, ...] = ()
    gone_roots: tuple[GoneRoot, ...] = ()
    empty_catalogs: tuple[EmptyCatalog, ...] = ()
    foreign: tuple[ForeignFolder, ...] = ()
    totals: dict[str, dict[str, FileTotals]]
    guesses: dict[str, FileTotals] = {}
    tables: tuple[TableTotals, ...] = ()
    ages: tuple[ClassTotals, ...] = ()
    sizes: tuple[ClassTotals, ...] = ()
    overlaps: tuple[FolderOverlap, ...] = ()
    filter: Recorded = {}
    guards: tuple[Guard, ...] = ()
    overridden: tuple[str, ...] = ()
    accepted: tuple[AcceptedGuard, ...] = ()
    locations: tuple[str, ...] = ()
    spec: Recorded = {}
    seconds: dict[str, float] = {}
    datasets: dict[str, DatasetRef] = {}
    restores: dict[str, str] = {}
    inner_homes: tuple[str, ...] = ()
    policy: str | None = None
    details: Recorded = {}
    version: int = VERSION

    @property
    def commands(self) -> str:
        """The beginning of the commands for it."""
        return command_prefix(self.lake)

    @property
    def started(self) -> datetime:
        """When the listing began, or an inventory was taken."""
        return self.cut_off + timedelta(seconds=self.grace_seconds)

    def cut_off_by(self, grace: timedelta) -> datetime:
        """The cut-off if the lake's grace is configured like this now: never a later one.

        A grace that was given for this plan alone holds until the lake's own is made longer.
        """
        configured = self.configured_grace_seconds
        if grace.total_seconds() <= (self.grace_seconds if configured is None else configured):
            return self.cut_off
        longer = grace - timedelta(seconds=self.grace_seconds)
        return self.cut_off - max(longer, timedelta())

    def amount(self, verdict: str) -> FileTotals:
        """The files with one verdict."""
        return sum(self.totals.get(verdict, {}).values(), start=NO_FILES)


def accepted_guards(lake: Lake, now: datetime) -> tuple[AcceptedGuard, ...]:
    """The standing decisions of a lake that count now."""
    return tuple(
        AcceptedGuard(each.guard, each.subject, each.until, each.reason)
        for each in lake.accepted(now)
    )


def check_kind(document: PlanDocument, wanted: PlanKind) -> None:
    """UsageError for a plan of another kind."""
    if document.kind is wanted:
        return
    raise UsageError(
        f"{document.plan} is a plan of kind {document.kind}, not {wanted}",
        hint=f"{document.commands} show {document.plan}",
    )


def unlisted_roots(survey: LakeSurvey) -> Iterator[IncompleteRoot]:
    """The locations that could not be listed, as what cannot be known completely."""
    for each in survey.unlisted:
        yield IncompleteRoot(each.location, f"cannot be listed: {each.reason}")


def incomplete_roots(marks: Marks) -> Iterator[IncompleteRoot]:
    """The roots that could not be read completely, unreadable sources first."""
    yield from (IncompleteRoot(unknown.origin, unknown.reason) for unknown in marks.unknown)
    for root in marks.in_state(RootState.INCOMPLETE):
        yield IncompleteRoot(root.name, "; ".join(root.reasons))


def write_plan(stores: StoreOpener, address: str, document: PlanDocument) -> str:
    """Store the document of a plan whose datasets are complete. Returns its hash."""
    data = msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2)
    place = parse(f"{address.rstrip('/')}/{DOCUMENT}")
    stores.open(place).write(place.key, data)
    return hashlib.sha256(data).hexdigest()


def load_plan(stores: StoreOpener, record: PlanRecord) -> PlanDocument:
    """The document that the store knows, byte for byte; DamagedError if it was changed."""
    place = parse(f"{record.address.rstrip('/')}/{DOCUMENT}")
    try:
        data = stores.open(place).read(place.key)
    except MissingError as error:
        raise NotFoundError(
            f"the files of plan {record.plan} are gone from {record.address}",
            hint=plan_command(record.lake),
        ) from error
    if hashlib.sha256(data).hexdigest() != record.sha256:
        raise DamagedError(place.path, "is not the plan that was made")
    return typed_json(data, PlanDocument)


def dataset_ref(folder: str, dataset: Dataset) -> DatasetRef:
    """How a document refers to a dataset in a folder of its plan."""
    return DatasetRef(folder, dataset.sha256, dataset.rows)


def open_dataset(
    stores: StoreOpener, address: str, datasets: Mapping[str, DatasetRef], name: str
) -> Dataset:
    """One dataset of a plan, as it was when the plan was made."""
    wanted = datasets[name]
    dataset = load_dataset(stores, f"{address.rstrip('/')}/{wanted.folder}")
    if dataset.sha256 != wanted.sha256:
        raise DamagedError(dataset.address, "is not what it was when the plan was made")
    return dataset
