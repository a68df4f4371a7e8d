"""The running totals of a maintenance run, saved at intervals."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec

from lakesweep.clock import Clock, micros
from lakesweep.maintenance.reachability import RealmCollector
from lakesweep.maintenance.row_scan import ScanPage
from lakesweep.maintenance.run_records import (
    NOTHING,
    LiveFilterFigures,
    MaintenanceRunInformation,
    MaintenanceStats,
    Span,
)
from lakesweep.runs.records import RunStatus
from lakesweep.store.backends.rows import IdSpan
from lakesweep.store.realms.purge import RealmSize

#: How often the progress of a run is saved.
CHECKPOINT_SECONDS = 30.0
#: Stands for all types, where rows are deleted without a look at what they are.
ANY_TYPE = "*"


class RunTally:
    """Adds up what threads find, and has it saved at intervals.

    A run that resumes this one loses at most what was found since then.
    """

    def __init__(
        self,
        begun: MaintenanceRunInformation,
        clock: Clock,
        save: Callable[[MaintenanceRunInformation], None],
    ) -> None:
        self.result = begun
        self._info = begun
        self._clock = clock
        self._save = save
        self._lock = threading.Lock()
        self._saved = clock.monotonic()
        self._references: dict[str, MaintenanceStats] = {}
        stats = begun.per_realm_per_obj_type_stats
        self._rows = {realm: defaultdict(lambda: NOTHING, types) for realm, types in stats.items()}
        self._remaining = {
            realm: {IdSpan(*span): IdSpan(*span) for span in spans}
            for realm, spans in begun.remaining.items()
        }
        self._tidied: dict[str, dict[str, int]] = {}
        self._purged: list[str] = []
        self._purged_at_once = 0
        self.problems: list[str] = []

    def spans(self, realm: str) -> Sequence[IdSpan] | None:
        """What an earlier run left to scan of a realm; None if it did not start with it."""
        rest = self._remaining.get(realm)
        return None if rest is None else list(rest)

    def begin(self, realm: str, spans: Sequence[IdSpan]) -> None:
        """These spans are about to be scanned."""
        with self._lock:
            self._remaining[realm] = {span: span for span in spans}
            self._rows.setdefault(realm, defaultdict(lambda: NOTHING))

    def add_page(self, realm: str, span: IdSpan, page: ScanPage) -> None:
        """A page of a span was scanned."""
        with self._lock:
            for name, stats in page.stats.items():
                self._rows[realm][name] += stats
            if page.rest is not None:
                self._remaining[realm][span] = page.rest
        self._checkpoint()

    def end(self, realm: str, span: IdSpan) -> None:
        """A span was scanned to its end."""
        with self._lock:
            del self._remaining[realm][span]
        self._checkpoint()

    def add_references(self, realm: str, stats: MaintenanceStats) -> None:
        """Some references of a realm were scanned."""
        with self._lock:
            self._references[realm] = self._references.get(realm, NOTHING) + stats

    def add_purgeable_realm(self, realm: str, found: RealmSize) -> None:
        """A realm to be purged, and its size."""
        self._references[realm] = _unreferenced(found.references)
        self._rows[realm] = defaultdict(lambda: NOTHING, {ANY_TYPE: _unreferenced(found.rows)})

    def add_purged_realm(self, realm: str, found: RealmSize, *, at_once: bool) -> None:
        """A realm was purged: by the database at once, without counting, or row by row."""
        self._purged.append(realm)
        self._purged_at_once += at_once
        if not at_once:
            self._references[realm] = _purged(found.references)
            self._rows[realm] = defaultdict(lambda: NOTHING, {ANY_TYPE: _purged(found.rows)})

    def add_tidied(self, realm: str, counts: Mapping[str, int]) -> None:
        """Stale entries that were removed by commits, by kind."""
        for kind, count in counts.items():
            if count:
                before = self._tidied.setdefault(realm, {})
                before[kind] = before.get(kind, 0) + count

    def note_identified(self, found: RealmCollector) -> None:
        """What is known so far to be retained of a realm."""
        if self._is_due():
            self._save(self._with_identified(self.now(), found))

    def add_identified(self, found: RealmCollector) -> None:
        """What is retained of a realm."""
        self._info = self._with_identified(self._info, found)

    @staticmethod
    def _with_identified(
        before: MaintenanceRunInformation, found: RealmCollector
    ) -> MaintenanceRunInformation:
        return msgspec.structs.replace(
            before,
            identified_references=before.identified_references + found.reference_calls,
            identified_objs=before.identified_objs + found.object_calls,
            distinct_references=before.distinct_references + found.reference_count,
            distinct_objs=before.distinct_objs + found.object_count,
        )

    def learn(self, filters: LiveFilterFigures) -> None:
        """The figures of the complete filters."""
        self._info = msgspec.structs.replace(self._info, filters=filters)

    def complain(self, problem: str) -> None:
        """Record a problem; the same problem of several spans is recorded once."""
        with self._lock:
            if problem not in self.problems:
                self.problems.append(problem)

    @property
    def failed(self) -> int:
        """How many deletes failed."""
        now = self.now()
        return now.reference_stats.failed + now.obj_stats.failed

    def finish(self, status: RunStatus, message: str, details: str) -> MaintenanceRunInformation:
        """The final figures of a run."""
        self.result = msgspec.structs.replace(
            self.now(),
            status=status,
            status_message=message,
            detailed_information=details,
            finished_at=micros(self._clock.now()),
        )
        return self.result

    def now(self) -> MaintenanceRunInformation:
        """All figures so far."""
        with self._lock:
            return msgspec.structs.replace(
                self._info,
                per_realm_reference_stats=dict(self._references),
                per_realm_per_obj_type_stats={
                    realm: dict(types) for realm, types in self._rows.items()
                },
                remaining={realm: _pairs(spans) for realm, spans in self._remaining.items()},
                tidied={realm: dict(counts) for realm, counts in self._tidied.items()},
                purged_realms=self._purged_at_once,
                realms_purged=tuple(self._purged),
                detailed_information="\n".join(self.problems),
            )

    def _checkpoint(self) -> None:
        if self._is_due():
            self._save(self.now())

    def _is_due(self) -> bool:
        with self._lock:
            now = self._clock.monotonic()
            if now - self._saved < CHECKPOINT_SECONDS:
                return False
            self._saved = now
            return True


def _pairs(spans: Mapping[IdSpan, IdSpan]) -> tuple[Span, ...]:
    return tuple((span.first, span.last) for span in spans.values())


def _unreferenced(count: int) -> MaintenanceStats:
    return MaintenanceStats(scanned=count, unreferenced=count)


def _purged(count: int) -> MaintenanceStats:
    return MaintenanceStats(scanned=count, unreferenced=count, purged=count)
