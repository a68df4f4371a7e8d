"""The commands that jobs run."""

from __future__ import annotations

import pytest

from lakesweep.operations.schedules.jobs import NEEDS_APPROVAL, command_of, status_of
from lakesweep.runs.job_records import JobRecord, JobStatus
from lakesweep.runs.schedules import JobKind


@pytest.mark.parametrize("kind", list(JobKind))
def test_every_job_runs_a_command_that_exists(kind: JobKind) -> None:
    from tests.command_pages import commands

    job = JobRecord(
        name="j",
        schedule="s",
        job=kind,
        target="t",
        due=0,
        start_at=0,
        claimed_by="me",
        claimed_at=0,
        options={"a": "b"},
        words=("--c",),
    )
    words = command_of(job)
    target = ["--lake=t"] if kind is JobKind.POLICY else ["--", "t"]
    assert words[-2 - len(target) :] == ["--a=b", "--c", *target]
    known = [tuple(each) for each, _ in commands()]
    assert any(tuple(words[: len(each)]) == each for each in known)


def test_a_sweep_that_waits_for_a_person_was_not_refused() -> None:
    assert status_of(3, [f"{NEEDS_APPROVAL} guard share"]) is JobStatus.WAITING
    assert status_of(3, ["error: a guard"]) is JobStatus.REFUSED
    assert status_of(99) is JobStatus.FAILED
