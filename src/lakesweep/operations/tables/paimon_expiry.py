"""Expire snapshots, changelogs and tags of a Paimon table, with the files that only they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.errors import RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.hashing import HashSet
from lakesweep.operations.interaction import SILENT_IO, Confirm, EngineName, Interaction
from lakesweep.operations.tables.paimon_protection import (
    ProtectedFiles,
    TablesInQuestion,
    protected_files,
)
from lakesweep.operations.tables.paimon_tables import MAIN, guard_clock, open_branch
from lakesweep.paimon.expire.expiry import (
    Expiry,
    ExpiryOutcome,
    ExpiryPlan,
    apply_expiry,
    plan_expiry,
)
from lakesweep.paimon.expire.retention import (
    NO_OVERRIDES,
    RetentionLimits,
    RetentionOverrides,
    changelog_retention,
    snapshot_retention,
)
from lakesweep.paimon.expire.settle_time import SETTLE
from lakesweep.paimon.expire.snapshot_expiry import choose_changelogs, choose_snapshots
from lakesweep.paimon.expire.tag_expiry import TagRule, choose_tags
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.table import PaimonBranch, PaimonTable
from lakesweep.paimon.model.warehouse import check_copies
from lakesweep.runs.records import table_lake
from lakesweep.storage.deleting.journal import IgnoredJournal
from lakesweep.storage.deleting.outcome_totals import FailedFile
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.storage.wrappers.fenced import FencedStores
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter
from lakesweep.units import format_moment


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExpiryRequest:
    """What every expiry takes: a branch of the table at an absolute address, and how to delete."""

    table: str
    branch: str = MAIN
    rate: DeleteRate = UNLIMITED
    #: How long a tag or a branch may take to be written once its snapshot was read.
    settle: timedelta = SETTLE
    overrides: frozenset[str] = frozenset()
    dry_run: bool = False
    #: Where manifests are read.
    engine: EngineName = EngineName.LOCAL
    #: How many threads read and delete; None is as many as suit the store.
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireHistoryRequest(_ExpiryRequest):
    """Snapshots or changelogs to expire. What `retention` leaves open, the table's options say."""

    retention: RetentionOverrides = NO_OVERRIDES


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireTagsRequest(_ExpiryRequest):
    """Tags to expire: those past their retention time.

    With `older_than`, also older tags that have no retention time. `zone` is the time zone of the
    writers, in which tags record when they were created.
    """

    older_than: datetime | None = None
    zone: tzinfo = UTC


class ExpiryResult(msgspec.Struct, frozen=True, kw_only=True):
    """How an expiry ended; `deleted` counts files by kind. UNSET members are not in the JSON.

    `earliest` and `latest` are the snapshots, or the changelogs, that are left. `ignored_journals`
    are in the table's folder and were not carried out, because the store does not vouch for them.
    """

    expired_snapshots: int = 0
    expired_changelogs: int | msgspec.UnsetType = msgspec.UNSET
    expired_tags: int | msgspec.UnsetType = msgspec.UNSET
    tags: list[str] | msgspec.UnsetType = msgspec.UNSET
    earliest: int | None
    latest: int | None
    deleted: dict[str, int]
    bytes_deleted: int
    failures: list[FailedFile] = []
    failures_omitted: int | msgspec.UnsetType = msgspec.UNSET
    absent: int | msgspec.UnsetType = msgspec.UNSET
    folders_removed: int | msgspec.UnsetType = msgspec.UNSET
    ignored_journals: tuple[IgnoredJournal, ...] | msgspec.UnsetType = msgspec.UNSET
    dry_run: bool

    @property
    def is_complete(self) -> bool:
        return not self.failures


@dataclass(frozen=True, slots=True)
class ExpiryPreview:
    """What an expiry is about to delete, with what `unfinished` interrupted runs left behind.

    `owners` counts what expires, and `noun` is what one of them is called. `planned` is the result
    if nothing fails, and of a dry run. `batches` gives all files (FILE_SCHEMA), and works only
    while the preview is being confirmed.
    """

    table: str
    noun: str
    owners: int
    bytes: Mapping[str, int]
    total_files: int
    unfinished: int
    planned: ExpiryResult
    batches: Callable[[], Iterator[pa.RecordBatch]]


def expire_snapshots(
    app: App,
    request: ExpireHistoryRequest,
    confirm: Confirm[ExpiryPreview],
    io: Interaction = SILENT_IO,
) -> ExpiryResult:
    """Expire old snapshots; a file stays while another snapshot, tag, changelog or branch needs it.

    Snapshots that a consumer has still to read stay. Changelogs outlive their snapshots if the
    table's options say so.
    """
    with _open_recovered(app, request, io) as branch:
        retention = _retention(app, branch, request.retention, snapshot_retention)
        io.notify(_describe(branch, retention, "snapshot"))
        chosen = choose_snapshots(branch, retention)
        ends = {"earliest": chosen.earliest, "latest": chosen.latest}
        subject = _Subject("snapshot", PaimonKind.SNAPSHOT, ends)
        return _expire(app, branch, chosen, subject, request, confirm, io)


def expire_changelogs(
    app: App,
    request: ExpireHistoryRequest,
    confirm: Confirm[ExpiryPreview],
    io: Interaction = SILENT_IO,
) -> ExpiryResult:
    """Expire old changelogs that outlived their snapshots.

    The newest stays, and so do those that a consumer has still to read.
    """
    with _open_recovered(app, request, io) as branch:
        retention = _retention(app, branch, request.retention, changelog_retention)
        io.notify(_describe(branch, retention, "changelog"))
        chosen = choose_changelogs(branch, retention)
        ends = {"earliest": chosen.earliest, "latest": chosen.latest}
        subject = _Subject("changelog", PaimonKind.CHANGELOG_META, ends)
        return _expire(app, branch, chosen, subject, request, confirm, io)


def expire_tags(
    app: App,
    request: ExpireTagsRequest,
    confirm: Confirm[ExpiryPreview],
    io: Interaction = SILENT_IO,
) -> ExpiryResult:
    """Expire tags whose retention time has passed."""
    with _open_recovered(app, request, io) as branch:
        rule = TagRule(app.clock.now(), request.zone, request.older_than)
        chosen = choose_tags(branch, rule)
        ids = branch.snapshot_ids()
        left = {"earliest": min(ids, default=None), "latest": max(ids, default=None)}
        subject = _Subject("tag", PaimonKind.TAG, {"tags": chosen.names, **left})
        return _expire(app, branch, chosen, subject, request, confirm, io)


@contextmanager
def _open_recovered(app: App, request: _ExpiryRequest, io: Interaction) -> Iterator[PaimonBranch]:
    """The branch, once everything is back that it needs of what a killed expiry removed."""
    from lakesweep.paimon.expire.owner_copies import has_copies

    with open_branch(app, request, io) as branch:
        lake = table_lake("paimon-expiry", branch.table.address.path)
        if not request.dry_run and has_copies(branch.table, partial(_known, app, lake)):
            _recover(app, branch.table, lake, io)
        yield branch


def _recover(app: App, table: PaimonTable, lake: str, io: Interaction) -> None:
    from lakesweep.paimon.expire.owner_copies import recover_owners
    from lakesweep.runs.fencing import RequestFence
    from lakesweep.runs.journals import SessionJournals
    from lakesweep.runs.records import RunKind
    from lakesweep.runs.sessions import run_session

    spec = {"paimon": table.address.path, "recovers": "owners that an interrupted expiry removed"}
    with run_session(app.runs, lake, RunKind.EXPIRE, spec=spec) as session:
        fence = RequestFence(session.lease.verified_until, app.clock)
        for path in recover_owners(table, SessionJournals(app.runs, session, fence)):
            io.notify(
                f"warning: {path} is written again: an expiry removed it, and was interrupted,"
                " while the table was rolled back to it"
            )


def _retention(
    app: App,
    branch: PaimonBranch,
    given: RetentionOverrides,
    configured: Callable[[Options, datetime], RetentionLimits],
) -> RetentionLimits:
    return given.over(configured(branch.layout.options, app.clock.now()))


def _describe(branch: PaimonBranch, retention: RetentionLimits, noun: str) -> str:
    bounds = f"at least {retention.retain_min:,}"
    if retention.is_bounded:
        bounds += f" and at most {retention.retain_max:,}"
    return (
        f"{branch.table.address.path}, branch {branch.name}: keeps {bounds} {noun}s, including all "
        f"since {format_moment(retention.cut)}; expires at most {retention.limit:,} at a time"
    )


@dataclass(frozen=True, slots=True)
class _Subject:
    """What expires, and what its result says besides files."""

    noun: str
    kind: PaimonKind
    facts: Mapping[str, Any]

    def planned(self, plan: ExpiryPlan) -> ExpiryResult:
        """The result if nothing fails."""
        files = {kind.value: count for kind, count in plan.files.items() if count}
        return ExpiryResult(
            **self._counted(plan.files[self.kind]),
            deleted=files,
            bytes_deleted=plan.total_bytes,
            ignored_journals=plan.journals.ignored or msgspec.UNSET,
            dry_run=True,
        )

    def applied(self, plan: ExpiryPlan, outcome: ExpiryOutcome) -> ExpiryResult:
        """The result of what was deleted."""
        report = outcome.tally.report()
        return ExpiryResult(
            **self._counted(outcome.deleted[self.kind]),
            deleted={kind.value: count for kind, count in outcome.deleted.items()},
            bytes_deleted=report.bytes_deleted,
            failures=report.failures,
            failures_omitted=report.failures_omitted,
            absent=report.absent,
            folders_removed=outcome.folders,
            ignored_journals=plan.journals.ignored or msgspec.UNSET,
            dry_run=False,
        )

    def _counted(self, count: int) -> dict[str, Any]:
        return {f"expired_{self.noun}s": count, **self.facts}


def _expire(
    app: App,
    branch: PaimonBranch,
    expiry: Expiry,
    subject: _Subject,
    request: _ExpiryRequest,
    confirm: Confirm[ExpiryPreview],
    io: Interaction,
) -> ExpiryResult:
    table = branch.table
    if "foreign" not in request.overrides:
        check_copies(table)
    lake = table_lake("paimon-expiry", table.address.path)
    with (
        plan_expiry(table, expiry, partial(_known, app, lake), progress=io.progress) as plan,
        protected_files(
            app, TablesInQuestion([table]), plan.all_batches(), request.overrides, io
        ) as protected,
    ):
        for ignored in plan.journals.ignored:
            _notify_ignored(table, ignored, io)
        if protected is not None:
            _check_owners(plan, protected.kept)
            plan.spare(protected.kept)
        if expiry.leaving and not request.dry_run:
            guard_clock(app, table, request.overrides)
        preview = _preview(plan, subject)
        confirm(preview)
        if request.dry_run:
            return preview.planned
        if plan.is_empty:
            expiry.prepare()  # writes a hint that is missing
            return subject.applied(plan, ExpiryOutcome())
        return subject.applied(plan, _carry_out(app, plan, lake, request, protected, io))


def _check_owners(plan: ExpiryPlan, kept: HashSet) -> None:
    """Refuse an expiry of owners that others keep: an owner that stays needs all its files."""
    for path in plan.kept_owners(kept):
        raise RefusedError(
            GuardName.REFERENCED,
            f"{path} would expire, but a root of a lake keeps it; nothing was deleted",
            hint="a pinned list names it, or the external paths of another table lead there",
        )


def _known(app: App, lake: str, address: str) -> str | None:
    """What the store says about a journal. Without a store, every journal is unknown."""
    from lakesweep.runs.journals import vouched_hash

    return vouched_hash(app.known_runs, lake, address)


def _notify_ignored(table: PaimonTable, journal: IgnoredJournal, io: Interaction) -> None:
    io.notify(f"warning: {journal.address} is not carried out: {journal.reason}")
    io.notify(
        f"try: lakesweep paimon orphans {table.address.path} finds the files that nothing needs; "
        "then delete that folder. If another store wrote it, use that store"
    )


def _carry_out(
    app: App,
    plan: ExpiryPlan,
    lake: str,
    request: _ExpiryRequest,
    protected: ProtectedFiles | None,
    io: Interaction,
) -> ExpiryOutcome:
    """Apply a plan under a lease of the table: one expiry at a time, whose journal is recorded."""
    # A dry run needs no store, and loading one takes longer than most tables.
    from lakesweep.runs.fencing import RequestFence
    from lakesweep.runs.journals import SessionJournals
    from lakesweep.runs.records import RunKind, RunStatus
    from lakesweep.runs.run_figures import recorded_figures
    from lakesweep.runs.sessions import run_session

    limiter = DeleteLimiter(app.clock, request.rate)
    spec = {"paimon": plan.table.address.path, "expires": plan.expiry.title}
    with run_session(app.runs, lake, RunKind.EXPIRE, spec=spec) as session:
        if protected is not None:
            # Owners go long before the files, and confirming may have taken long.
            _check_owners(plan, protected.look().kept)
        fence = RequestFence(session.lease.verified_until, app.clock)
        outcome = apply_expiry(
            plan,
            FencedStores(app.stores, fence),
            SessionJournals(app.runs, session, fence),
            deletion=nullcontext if protected is None else protected.deletion,
            limiter=limiter,
            settle=request.settle,
            progress=io.progress,
        )
        session.figures = recorded_figures(outcome.tally.report(), with_lists=True)
        if outcome.tally.failed:
            session.status = RunStatus.INCOMPLETE
    return outcome


def _preview(plan: ExpiryPlan, subject: _Subject) -> ExpiryPreview:
    return ExpiryPreview(
        table=plan.table.address.path,
        noun=subject.noun,
        owners=len(plan.expiry.leaving),
        bytes={kind.value: size for kind, size in plan.bytes.items()},
        total_files=plan.total_files,
        unfinished=len(plan.journals.interrupted),
        planned=subject.planned(plan),
        batches=plan.all_batches,
    )
