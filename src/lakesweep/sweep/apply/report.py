"""What an apply reports: outcomes of files, paths removed from branches, and run figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from lakesweep.errors import StoppedError
from lakesweep.runs.run_figures import Recorded, recorded_figures
from lakesweep.storage.deleting.outcome_totals import OutcomeReport
from lakesweep.units import format_count

#: This many failures are reported by name; the stored outcomes have them all.
_MOST_FAILURES = 1_000
#: Fields of an OutcomeReport that are not added up.
_NOT_ADDED = frozenset({"failures", "failures_omitted"})


class BranchReport(msgspec.Struct, frozen=True):
    """What became of a branch: `changed`, `waits` or `refused`, and the reason if not changed."""

    branch: str
    outcome: str
    paths: int
    reason: str | None


class ReleaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """Paths that were removed from branches, and files that wait for the next run because of it."""

    waiting: int = 0
    taken_off: int = 0
    branches_changed: int = 0
    branches_busy: int = 0
    branches_refused: int = 0
    branches: tuple[BranchReport, ...] = ()


class ApplyReport(OutcomeReport, frozen=True, kw_only=True):
    """Outcomes of an apply. The fields of a ReleaseReport are UNSET if there was none.

    `withheld` counts the files that guards about a table or a root kept, by guard; UNSET if none.
    """

    waiting: int | UnsetType = UNSET
    taken_off: int | UnsetType = UNSET
    branches_changed: int | UnsetType = UNSET
    branches_busy: int | UnsetType = UNSET
    branches_refused: int | UnsetType = UNSET
    branches: tuple[BranchReport, ...] | UnsetType = UNSET
    withheld: dict[str, int] | UnsetType = UNSET

    @property
    def is_complete(self) -> bool:
        return not self.failed and not self.branches_refused and not self.withheld


@dataclass(frozen=True)
class ApplyResult:
    """What an apply did. `kept_by_remark` counts files of the plan that are kept after all."""

    kept_by_remark: int
    report: ApplyReport
    stopped: str | None = None

    @property
    def has_effect(self) -> bool:
        """Whether any file is gone, or turned out to be gone or changed."""
        report = self.report
        done = (report.deleted, report.absent, report.changed, report.quarantined)
        return any(done) or bool(report.taken_off)

    def run_figures(self) -> Recorded:
        """What the run records."""
        return recorded_figures(self.report, kept_by_remark=self.kept_by_remark)

    def stop_error(self) -> StoppedError:
        """The error that a stopped run ends with."""
        return StoppedError(
            f"{self.stopped}; it deleted {format_count(self.report.deleted, 'file')}"
        )


def sum_outcomes(reports: Iterable[OutcomeReport]) -> OutcomeReport:
    """The reports of all tasks as one."""
    failures: list[Any] = []
    counts = {"failed": 0}
    for report in reports:
        failures += report.failures
        for name in OutcomeReport.__struct_fields__:
            count = getattr(report, name)
            if name not in _NOT_ADDED and count is not UNSET:
                counts[name] = counts.get(name, 0) + count
    shown = failures[:_MOST_FAILURES]
    return OutcomeReport(**counts, failures=shown, failures_omitted=counts["failed"] - len(shown))


def apply_report(outcomes: OutcomeReport, release: ReleaseReport | None) -> ApplyReport:
    """Outcomes together with what became of branches."""
    released = {} if release is None else msgspec.structs.asdict(release)
    return ApplyReport(**msgspec.structs.asdict(outcomes), **released)
