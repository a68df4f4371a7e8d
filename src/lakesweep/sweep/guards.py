"""Guards: what must hold before anything is deleted.

A guard looks at the figures of a plan. One that is about the whole lake refuses the apply. One
that is about a table or a root withholds the files of that table or root, and the rest is deleted.
Both can be overridden by name. An override never deletes a file whose verdict is keep.

Ages are counted back from our clock. A clock ahead of the store's makes every file look older
than it is, so one guard compares it with what the store says of a file that was just written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lakesweep.errors import RefusedError, override_options
from lakesweep.guard_names import NAMED_TABLE, GuardName
from lakesweep.storage.address import parse
from lakesweep.units import format_count, format_duration, format_some

if TYPE_CHECKING:
    from lakesweep.storage.datasets.manifest import Dataset
    from lakesweep.storage.object_store import StoreOpener

#: No shorter grace without saying so.
MIN_GRACE = timedelta(hours=24)
#: The live count of a lake does not fall by more than this share from one run to the next.
MAX_LIVE_DROP = 0.2
#: No more than this share of a location, or of the folder of a table, may be deleted at once.
MAX_DELETE_SHARE = 0.5
#: Clocks differ, and those of some stores have whole seconds only.
MAX_CLOCK_SKEW = timedelta(minutes=10)
#: Shares say little of a handful of files.
MIN_FILES = 100


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard that failed, and why.

    `subjects` are the tables or roots whose files it withholds, about `files` of them; without any,
    it is about the whole lake.
    """

    name: str
    message: str
    subjects: tuple[str, ...] = ()
    files: int = 0


#: Guards that ask for a look. The others doubt what is live, and no hint offers to override those.
CONFIRMED = frozenset(
    {
        GuardName.FIRST_RUN,
        GuardName.LIVE_FELL,
        GuardName.SHARE,
        GuardName.GRACE,
        GuardName.POLICY_CHANGED,
        GuardName.SHORT_RETENTION,
    }
)
_FIX = "fix what the guard names, then run the command again"
_ADVICE: Mapping[str, str] = {
    GuardName.ZERO_LIVE: "check the roots of the lake",
    GuardName.EMPTY_CATALOG: "check the name and the rights of the catalog",
    GuardName.ROOTS_GONE: "check whether these roots were really dropped",
    GuardName.REPOSITORIES: "add the repositories to the roots of the lake",
    GuardName.FOREIGN: "give each location to one lake, then make a new plan",
    GuardName.GC_ENABLED: "make a new plan without overriding gc.enabled",
    GuardName.CLOCK: "set the clock of this machine",
    GuardName.STALE_PLAN: "make a new plan",
    GuardName.REFS_DUMP: "configure the lakeFS server of the repository",
    GuardName.STALE_REFS: "dump the refs again",
    GuardName.AS_PROPOSED: "plan without --as-proposed, which keeps what HEADs hold",
    GuardName.LAKE_GONE: "configure the lake or the repository again",
    GuardName.PLAN_GONE: "restore the folder of the plan",
}


_POLICY_CHANGED = Guard(
    GuardName.POLICY_CHANGED, "the last plan that was applied was made by another policy"
)


@dataclass(frozen=True, slots=True)
class DeleteShare:
    """How many of the files of a location, or of a table, would be deleted."""

    place: str
    files: int
    deletes: int
    is_table: bool = False


@dataclass(frozen=True, slots=True)
class GoneRoot:
    """A root that was known and is not listed any more.

    Of `stored` files in the folders that it used, `deletes` would go.
    """

    name: str
    origin: str
    seen: datetime
    stored: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """What guards look at."""

    was_applied: bool
    live: int
    live_before: int | None
    listed: int
    deletes: int
    grace: timedelta
    shares: Sequence[DeleteShare] = ()
    incomplete: Sequence[str] = ()
    gone: Sequence[GoneRoot] = ()
    #: The tables that no root lists, with the files that are kept for each.
    unlisted: Sequence[tuple[str, int]] = ()
    empty: Sequence[str] = ()
    foreign: Sequence[str] = ()
    opted_in: Sequence[str] = ()
    missing: int = 0
    lacking: Sequence[str] = ()
    table_deletes: Mapping[str, int] = field(default_factory=dict)
    is_policy_new: bool = False
    repositories: Sequence[str] = ()
    dumps: Sequence[str] = ()
    stale_dumps: Sequence[str] = ()
    clock_ahead: timedelta = timedelta()


def failed_guards(figures: PlanFigures) -> Iterator[Guard]:
    """Every guard that says no to a plan."""
    yield from _check_first_run(figures)
    if not figures.live and figures.listed:
        yield Guard(GuardName.ZERO_LIVE, "no file is referenced at all; check the configured roots")
    yield from _check_live_count(figures)
    yield from (_share_guard(share) for share in figures.shares if _exceeds_share(share))
    if figures.incomplete:
        names = format_some(figures.incomplete)
        yield Guard(
            GuardName.INCOMPLETE,
            f"could not be read, so everything they might reference is kept: {names}",
            tuple(figures.incomplete),
        )
    if lost := [root for root in figures.gone if root.deletes]:
        yield gone_roots_guard(lost)
    yield from _check_unlisted(figures.unlisted)
    if figures.empty and figures.deletes:
        names = format_some(figures.empty)
        yield Guard(
            GuardName.EMPTY_CATALOG, f"lists no table at all; check its name and rights: {names}"
        )
    if figures.missing and figures.deletes:
        files = format_count(figures.missing, "file")
        tables = format_some(figures.lacking)
        deletes = sum(figures.table_deletes.get(table, 0) for table in figures.lacking)
        yield Guard(
            GuardName.MISSING,
            f"{files} referenced and not stored: by {tables}",
            tuple(figures.lacking),
            deletes,
        )
    if figures.repositories and figures.deletes:
        names = format_some(figures.repositories)
        what = "no root reads what these repositories may have imported"
        yield Guard(GuardName.REPOSITORIES, f"{what}: {names}")
    yield from _check_refs_and_clock(figures)
    if figures.foreign:
        names = format_some(figures.foreign)
        yield Guard(GuardName.FOREIGN, f"other lakes claim these locations too: {names}")
    if figures.grace < MIN_GRACE:
        grace, shortest = format_duration(figures.grace), format_duration(MIN_GRACE)
        yield Guard(
            GuardName.GRACE, f"a grace of {grace} is under {shortest}: writers may lose files"
        )
    if figures.opted_in:
        names = format_some(figures.opted_in)
        yield Guard(GuardName.GC_ENABLED, f"these tables say gc.enabled=false: {names}")


def _check_unlisted(unlisted: Sequence[tuple[str, int]]) -> Iterator[Guard]:
    """The guard of tables that no root lists: their files are kept, whatever is overridden."""
    if not unlisted:
        return
    tables = [f"{table} ({format_count(files, 'file')})" for table, files in unlisted]
    yield Guard(
        GuardName.UNLISTED_TABLE,
        f"no root lists {format_some(tables)}; add the catalog to the roots, or name a table"
        f" that was dropped: plan --override {NAMED_TABLE}{unlisted[0][0]}",
        tuple(table for table, _ in unlisted),
        sum(files for _, files in unlisted),
    )


def gone_roots_guard(gone: Sequence[GoneRoot]) -> Guard:
    """The guard of roots that were known, and are not listed any more."""
    files = sum(root.deletes for root in gone)
    what = f"; {format_count(files, 'file')} of them would be deleted" if files else ""
    names = format_some([f"{root.name}{_last_seen(root)}" for root in gone])
    return Guard(
        GuardName.ROOTS_GONE,
        f"known before, and not listed now{what}: {names}",
        tuple(root.name for root in gone),
        files,
    )


def check_plan_age(now: datetime, expires: datetime) -> Iterator[Guard]:
    """The guard against plans that were made long ago."""
    if now >= expires:
        yield Guard(GuardName.STALE_PLAN, f"the plan expired at {expires:%Y-%m-%dT%H:%M:%SZ}")


def check_clock(ahead: timedelta) -> Iterator[Guard]:
    """The guard against a clock that is ahead of the store's."""
    if ahead > MAX_CLOCK_SKEW:
        much = format_duration(timedelta(minutes=round(ahead / timedelta(minutes=1))))
        yield Guard(
            GuardName.CLOCK,
            f"the clock here is {much} ahead of the store's, so files look older than they are",
        )


def check_policy(policy: str | None, applied: str | None) -> Iterator[Guard]:
    """The guard against a policy that is not the one by which objects went last."""
    if applied is not None and policy not in (None, applied):
        yield _POLICY_CHANGED


def refuse(
    guards: Iterable[Guard],
    overridden: Collection[str],
    plan: str,
    commands: str = "lakesweep",
    again: str | None = None,
) -> None:
    """RefusedError for the guards that fail and were not overridden.

    `again` is the command that was refused, by default apply. The hint repeats it with overrides
    only if all of these guards just ask for a look; the others say what to fix.
    """
    standing = [guard for guard in guards if guard.name not in overridden]
    if not standing:
        return
    lines = [f"{guard.name}: {guard.message}" for guard in standing]
    names = list(dict.fromkeys(guard.name for guard in standing))
    look = f"look with {commands} show {plan}"
    doubts = [name for name in names if name not in CONFIRMED]
    hint = f"{look}, then: {again or f'{commands} apply {plan}'} {override_options(names)}"
    if doubts:
        advice = dict.fromkeys(_ADVICE.get(name, _FIX) for name in doubts)
        hint = f"{look}; {'; '.join(advice)}"
    raise RefusedError(
        standing[0].name,
        [f"nothing was deleted; {format_count(len(standing), 'guard')} failed", *lines],
        hint=hint,
        overrides=() if doubts else names,
    )


def _check_first_run(figures: PlanFigures) -> Iterator[Guard]:
    if not figures.was_applied:
        yield Guard(GuardName.FIRST_RUN, "no plan of this lake was ever applied")
    elif figures.is_policy_new:
        yield _POLICY_CHANGED


def _check_dumps(figures: PlanFigures) -> Iterator[Guard]:
    """Refs that no server told may be old: whatever was committed since is not known."""
    if figures.dumps:
        yield Guard(
            GuardName.REFS_DUMP,
            "no server was asked, so commits, branches and tags that came since are not known:"
            f" {format_some(figures.dumps)}",
        )
    if figures.stale_dumps:
        yield Guard(
            GuardName.STALE_REFS, f"dump the refs again: {format_some(figures.stale_dumps)}"
        )


def _check_refs_and_clock(figures: PlanFigures) -> Iterator[Guard]:
    """Doubts in refs and clocks, which matter only where something would go."""
    if figures.deletes:
        yield from _check_dumps(figures)
        yield from check_clock(figures.clock_ahead)


def _check_live_count(figures: PlanFigures) -> Iterator[Guard]:
    before = figures.live_before
    if before is None or before < MIN_FILES or not figures.live:
        return
    if figures.live < before * (1 - MAX_LIVE_DROP):
        yield Guard(
            GuardName.LIVE_FELL,
            f"{format_count(figures.live, 'file')} referenced now, {before:,} before",
        )


def _exceeds_share(share: DeleteShare) -> bool:
    return share.files >= MIN_FILES and share.deletes > share.files * MAX_DELETE_SHARE


def _share_guard(share: DeleteShare) -> Guard:
    subjects = (share.place,) if share.is_table else ()
    what = f"{share.deletes:,} of {share.files:,} files of {share.place} would be deleted"
    return Guard(GuardName.SHARE, what, subjects, share.deletes)


def _last_seen(root: GoneRoot) -> str:
    where = f"in {root.origin} " if root.origin else ""
    return f" (last seen {where}at {root.seen:%Y-%m-%dT%H:%M:%SZ})"


def clock_skew(since: datetime, written: datetime | None) -> timedelta:
    """By how much a moment of our clock is ahead of a store that wrote something after it."""
    return timedelta() if written is None else max(since - written, timedelta())


def dataset_clock_skew(stores: StoreOpener, dataset: Dataset, since: datetime) -> timedelta:
    """The same, by a dataset that was written since."""
    if not dataset.parts:
        return timedelta()
    place = parse(dataset.address + dataset.parts[0].name)
    return clock_skew(since, stores.open(place).head(place.key).modified)
