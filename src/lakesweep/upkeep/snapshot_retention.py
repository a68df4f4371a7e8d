"""Which snapshots and refs of an Iceberg table stay, and why.

The rule is that of Iceberg's own expiry, with its exact comparisons:

1. A ref stays if it is `main`, or not older than its maximum age.
2. The head of each ref that stays, stays.
3. Of each branch, the newest `min` ancestors stay, and those at or after the branch's cut-off.
4. A snapshot that no branch and no tag reaches stays if it is at or after the caller's cut-off.

A branch's own fields come before the arguments, those before the table's properties. Three
things are kept that Iceberg would expire: ancestors whose clock ran ahead, behind one that is
old; what a running writer looks for (see `writer_markers`); and, with explicit ids alone, all
other snapshots. Everything is decided from nothing each time: nothing chosen for an earlier
state of the table is chosen again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

import msgspec

from lakesweep.errors import DamagedError, RefusedError, UsageError
from lakesweep.guard_names import GuardName
from lakesweep.units import format_some
from lakesweep.untrusted.documents import LARGEST_LONG, parse_long
from lakesweep.upkeep.history import MAIN, HistoryRef, HistorySnapshot, RefType, SnapshotHistory
from lakesweep.upkeep.writer_markers import newest_markers

MAX_SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
_DEFAULT_AGE_MS = 5 * 24 * 3600 * 1000
_DEFAULT_MIN = 1
#: A writer that has not committed for this long no longer holds the history.
MARKER_AGE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class PlannedExpiry:
    """What a stored plan showed: no other snapshot or ref may expire by it."""

    snapshots: frozenset[int]
    refs: frozenset[str]


@dataclass(frozen=True, slots=True)
class RetentionArguments:
    """What the caller asks for; None leaves it to the table.

    `snapshot_ids` expire besides what age selects; with `only_ids`, nothing else does.
    `keep_staged` keeps unpublished staged snapshots, whatever their age. At most `limit` snapshots
    expire, the oldest first. Nothing expires that is not `planned`, if there is a plan.
    """

    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    only_ids: bool = False
    keep_staged: bool = False
    marker_age: timedelta = MARKER_AGE
    limit: int | None = None
    planned: PlannedExpiry | None = None
    max_ref_age_ms: int | None = None
    #: Floors: whatever all others say, younger snapshots and so many of each branch stay.
    floor_age_ms: int = 0
    floor_keep: int = 0

    def __post_init__(self) -> None:
        if self.retain_last is not None and self.retain_last < 1:
            raise UsageError(
                f"at least 1 snapshot must be retained, not {self.retain_last}",
                hint="write --retain-last 1 or more",
            )
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"the limit is {self.limit}", hint="write --limit 1 or more")


class ValueSource(StrEnum):
    """Where a value of the retention comes from, nearest first."""

    REF = "ref"
    ARGUMENT = "argument"
    PROPERTY = "table property"
    DEFAULT = "default"
    FLOOR = "floor"


class RetentionValue(msgspec.Struct, frozen=True):
    """A number of snapshots, or an age or a time in milliseconds, and where it comes from."""

    value: int
    source: ValueSource


class KeptFor(StrEnum):
    """Why a snapshot stays."""

    HEAD = "head"
    COUNT = "count"
    AGE = "age"
    WRITER = "writer"
    STAGED = "staged"
    NOT_NAMED = "not named"
    LIMIT = "limit"
    NOT_PLANNED = "not planned"


class KeepReason(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reason why a snapshot stays.

    `ref` is the branch or tag that keeps it; without one, it is reached by none. `bound` is the
    number of snapshots, or the cut-off in milliseconds, that it satisfies.
    """

    why: KeptFor
    ref: str | None = None
    bound: RetentionValue | None = None
    writer: str | None = None


class SnapshotStanding(StrEnum):
    """What a snapshot that expires was to the table."""

    ANCESTOR = "ancestor"
    STAGED = "staged"
    ROLLED_BACK = "rolled back"
    UNREFERENCED = "unreferenced"


class ExpiringSnapshot(msgspec.Struct, frozen=True):
    """A snapshot that expires."""

    id: int
    timestamp_ms: int
    standing: SnapshotStanding
    is_named: bool = False


class ExpiringRef(msgspec.Struct, frozen=True):
    """A branch or tag that is older than its maximum age."""

    name: str
    type: RefType
    snapshot_id: int
    age_ms: int
    max_age: RetentionValue


@dataclass(frozen=True)
class RetentionDecision:
    """What stays and what expires. `expiring` is in the order of the document."""

    history: SnapshotHistory
    expiring: tuple[ExpiringSnapshot, ...]
    removed_refs: tuple[ExpiringRef, ...]
    kept: dict[int, tuple[KeepReason, ...]] = field(repr=False)
    #: Ids that the caller named and the table does not have.
    unknown_ids: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the history stays as it is."""
        return not (self.expiring or self.removed_refs)

    @property
    def kept_refs(self) -> list[str]:
        gone = {ref.name for ref in self.removed_refs}
        return [name for name in self.history.refs if name not in gone]


def decide(
    history: SnapshotHistory, arguments: RetentionArguments, now_ms: int
) -> RetentionDecision:
    """Decide what expires. RefusedError if a named snapshot is the head of a ref that stays."""
    return _Decision(history, arguments, now_ms).made()


@dataclass
class _Decision:
    history: SnapshotHistory
    arguments: RetentionArguments
    now_ms: int

    def __post_init__(self) -> None:
        self._named = frozenset(self.arguments.snapshot_ids)
        self._planned = self.arguments.planned
        self._reasons: defaultdict[int, list[KeepReason]] = defaultdict(list)
        self._age = self._max_age()
        self._min = self._min_snapshots()

    def made(self) -> RetentionDecision:
        history, named = self.history, dict.fromkeys(self.arguments.snapshot_ids)
        removed = tuple(self._removed_refs())
        gone = {ref.name for ref in removed}
        refs = {name: ref for name, ref in history.refs.items() if name not in gone}
        self._refuse_heads(refs)
        reached = set[int]()
        for name, ref in refs.items():
            reached |= self._keep_ref(name, ref)
        for snapshot in history.snapshots.values():
            if snapshot.id not in reached:
                self._judge_unreached(snapshot)
        leaving = self._leaving()
        return RetentionDecision(
            history,
            tuple(
                self._expiring(each, is_reached=each.id in reached)
                for each in history.snapshots.values()
                if each.id in leaving
            ),
            removed,
            {each: tuple(self._reasons[each]) for each in history.snapshots if each not in leaving},
            tuple(each for each in named if each not in history.snapshots),
        )

    def _removed_refs(self) -> Iterator[ExpiringRef]:
        for name, ref in self.history.refs.items():
            limit = self._max_ref_age(ref)
            age = self.now_ms - self.history.snapshots[ref.snapshot_id].timestamp_ms
            # With ids alone, only what was named may go.
            may_go = not self.arguments.only_ids or ref.snapshot_id in self._named
            may_go &= self._planned is None or name in self._planned.refs
            if name != MAIN and limit is not None and age > limit.value and may_go:
                yield ExpiringRef(name, ref.type, ref.snapshot_id, age, limit)

    def _refuse_heads(self, refs: dict[str, HistoryRef]) -> None:
        for named in self.arguments.snapshot_ids:
            heads = [name for name, ref in refs.items() if ref.snapshot_id == named]
            if heads:
                raise RefusedError(
                    GuardName.REFERENCED,
                    f"{self.history.path}: snapshot {named} cannot expire, it is the head of"
                    f" {format_some(heads)}",
                    hint="drop the branch or tag first, or leave the snapshot out",
                )

    def _keep_ref(self, name: str, ref: HistoryRef) -> set[int]:
        """Keep what a ref keeps; all that it reaches."""
        self._reasons[ref.snapshot_id].append(KeepReason(KeptFor.HEAD, ref=name))
        if ref.type is RefType.TAG:
            return {ref.snapshot_id}
        ancestors = list(self.history.ancestors(ref.snapshot_id))
        least = self._raised(self._own(ref.min_snapshots_to_keep) or self._min)
        cut = self._cut(self._own(ref.max_snapshot_age_ms))
        for number, snapshot in enumerate(ancestors):
            if number < least.value:
                self._reasons[snapshot.id].append(KeepReason(KeptFor.COUNT, ref=name, bound=least))
            if snapshot.timestamp_ms >= cut.value:
                self._reasons[snapshot.id].append(KeepReason(KeptFor.AGE, ref=name, bound=cut))
        self._keep_for_writers(name, ancestors)
        return {snapshot.id for snapshot in ancestors}

    def _keep_for_writers(self, name: str, ancestors: list[HistorySnapshot]) -> None:
        """Keep the chain from the head to the newest marker of each writer that may be alive."""
        positions = {snapshot.id: number for number, snapshot in enumerate(ancestors)}
        oldest = self.now_ms - self.arguments.marker_age // timedelta(milliseconds=1)
        for marker in newest_markers(ancestors):
            if marker.timestamp_ms >= oldest:
                for snapshot in ancestors[: positions[marker.snapshot] + 1]:
                    self._reasons[snapshot.id].append(
                        KeepReason(KeptFor.WRITER, ref=name, writer=marker.writer)
                    )

    def _judge_unreached(self, snapshot: HistorySnapshot) -> None:
        cut = self._cut(None)
        if snapshot.timestamp_ms >= cut.value:
            self._reasons[snapshot.id].append(KeepReason(KeptFor.AGE, bound=cut))
        if self.arguments.keep_staged and self.history.is_staged(snapshot):
            self._reasons[snapshot.id].append(KeepReason(KeptFor.STAGED))

    def _leaving(self) -> set[int]:
        """What expires: the named, and what nothing keeps; no more than the limit."""
        only_ids, limit = self.arguments.only_ids, self.arguments.limit
        chosen = []
        for snapshot in self.history.snapshots.values():
            reasons = self._reasons[snapshot.id]
            if self._planned is not None and snapshot.id not in self._planned.snapshots:
                reasons.append(KeepReason(KeptFor.NOT_PLANNED))
            elif snapshot.id in self._named or not (reasons or only_ids):
                chosen.append(snapshot)
            elif not reasons:
                reasons.append(KeepReason(KeptFor.NOT_NAMED))
        chosen.sort(key=lambda each: each.timestamp_ms)
        for late in [] if limit is None else chosen[limit:]:
            self._reasons[late.id].append(KeepReason(KeptFor.LIMIT))
        return {each.id for each in chosen[:limit]}

    def _expiring(self, snapshot: HistorySnapshot, *, is_reached: bool) -> ExpiringSnapshot:
        standing = SnapshotStanding.ANCESTOR if is_reached else self._unreached(snapshot)
        is_named = snapshot.id in self._named
        return ExpiringSnapshot(snapshot.id, snapshot.timestamp_ms, standing, is_named)

    def _unreached(self, snapshot: HistorySnapshot) -> SnapshotStanding:
        if self.history.is_staged(snapshot):
            return SnapshotStanding.STAGED
        is_logged = snapshot.id in self.history.logged
        return SnapshotStanding.ROLLED_BACK if is_logged else SnapshotStanding.UNREFERENCED

    def _own(self, value: int | None) -> RetentionValue | None:
        return None if value is None else RetentionValue(value, ValueSource.REF)

    def _raised(self, least: RetentionValue) -> RetentionValue:
        floor = self.arguments.floor_keep
        return RetentionValue(floor, ValueSource.FLOOR) if least.value < floor else least

    def _cut(self, own: RetentionValue | None) -> RetentionValue:
        """The cut-off of a branch, or of what no ref reaches, as a time."""
        latest = RetentionValue(self.now_ms - self.arguments.floor_age_ms, ValueSource.FLOOR)
        cut = self._wanted_cut(own)
        return latest if self.arguments.floor_age_ms and cut.value > latest.value else cut

    def _wanted_cut(self, own: RetentionValue | None) -> RetentionValue:
        given = self.arguments.older_than_ms
        if own is not None:
            return RetentionValue(self.now_ms - own.value, own.source)
        if given is not None:
            return RetentionValue(given, ValueSource.ARGUMENT)
        return RetentionValue(self.now_ms - self._age.value, self._age.source)

    def _max_age(self) -> RetentionValue:
        return self._property(MAX_SNAPSHOT_AGE) or RetentionValue(
            _DEFAULT_AGE_MS, ValueSource.DEFAULT
        )

    def _min_snapshots(self) -> RetentionValue:
        given = self.arguments.retain_last
        if given is not None:
            return RetentionValue(given, ValueSource.ARGUMENT)
        return self._property(MIN_SNAPSHOTS) or RetentionValue(_DEFAULT_MIN, ValueSource.DEFAULT)

    def _max_ref_age(self, ref: HistoryRef) -> RetentionValue | None:
        given, floor = self.arguments.max_ref_age_ms, self.arguments.floor_age_ms
        found = self._own(ref.max_ref_age_ms)
        if found is None and given is not None:
            found = RetentionValue(given, ValueSource.ARGUMENT)
        found = found or self._property(MAX_REF_AGE)
        if found is None or found.value >= floor:
            return found
        return RetentionValue(floor, ValueSource.FLOOR)

    def _property(self, name: str) -> RetentionValue | None:
        text = self.history.properties.get(name)
        if text is None:
            return None
        value = parse_long(text)
        if value is None or not 0 <= value <= LARGEST_LONG:
            raise DamagedError(self.history.path, f"its property {name} is {text!r}, no number")
        return RetentionValue(value, ValueSource.PROPERTY)
