"""Reports of an apply: sums, JSON and run figures."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from lakesweep.operations.lakes.apply import ApplyPlanResult
from lakesweep.storage.deleting.outcome_totals import FailedFile, OutcomeReport
from lakesweep.sweep.apply.report import (
    ApplyResult,
    BranchReport,
    ReleaseReport,
    apply_report,
    sum_outcomes,
)

FAILED = FailedFile("s3://lake/a", "denied")
ONE = OutcomeReport(found=3, deleted=2, failed=1, bytes_deleted=20, failures=[FAILED])
OTHER = OutcomeReport(found=2, deleted=1, changed=1, bytes_deleted=5, bytes_changed=7)
ALWAYS = {"found", "deleted", "absent", "failed", "bytes_deleted", "failures", "failures_omitted"}


def test_reports_of_tasks_are_added_up() -> None:
    total = sum_outcomes([ONE, OTHER])
    assert (total.found, total.deleted, total.failed, total.bytes_deleted) == (5, 3, 1, 25)
    assert (total.changed, total.bytes_changed, total.quarantined) == (1, 7, UNSET)
    assert (total.failures, total.failures_omitted) == ([FAILED], 0)


def test_of_many_failures_only_the_first_are_named() -> None:
    failures = [FailedFile(f"s3://lake/{number}", "denied") for number in range(100)]
    each = OutcomeReport(found=150, failed=150, failures=failures, failures_omitted=50)
    total = sum_outcomes([each] * 20)
    assert (len(total.failures), total.failures_omitted) == (1_000, 2_000)


def test_no_outcome_is_a_report_of_zeros() -> None:
    document = msgspec.to_builtins(apply_report(sum_outcomes([]), None))
    assert document.keys() == ALWAYS
    assert not any(document.values())


def test_runs_record_counts_and_no_lists() -> None:
    branch = BranchReport("main", "changed", 2, None)
    release = ReleaseReport(waiting=2, taken_off=2, branches_changed=1, branches=(branch,))
    report = apply_report(ONE, release)
    assert (report.branches_changed, report.branches_busy) == (1, 0)
    figures = ApplyResult(4, report).run_figures()
    released = {"waiting", "taken_off", "branches_changed", "branches_busy", "branches_refused"}
    assert figures.keys() == (ALWAYS - {"failures"}) | released | {"kept_by_remark"}
    assert figures["kept_by_remark"] == 4


def test_only_a_dry_run_of_a_repository_names_branches() -> None:
    result = ApplyPlanResult(
        run="apply-1",
        plan="plan-1",
        kept_by_remark=0,
        quarantined=0,
        stopped=None,
        dry_run=False,
    )
    assert result.to_take_off is UNSET
    added = {"run", "plan", "kept_by_remark", "quarantined", "stopped", "dry_run"}
    assert msgspec.to_builtins(result).keys() == ALWAYS | added
