"""Jobs that somebody asks for, their output, and how to cancel them.

A job is carried out by the next free worker of any service over the same store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from lakesweep.app import App
from lakesweep.errors import NotFoundError, UsageError
from lakesweep.operations.schedules.schedules import JobView
from lakesweep.runs.job_records import JobFailure, JobRecord, JobResultRecord
from lakesweep.runs.live_records import OutputRecord, output_record
from lakesweep.runs.schedules import JobKind
from lakesweep.runs.sessions import user_name

_PAGE_LINES = 200
#: A job that has just ended is looked for among this many of the newest.
_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Carry out a job once. `words` are added to its command; `by` is who asks for it.

    `files` are texts that the command reads, by their names.
    """

    kind: JobKind
    target: str = ""
    words: tuple[str, ...] = ()
    by: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)


class OutputPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines that a run or a job wrote.

    `first` is the number of the first of them, counted from 0; `next` is where the next page
    begins. Lines before `dropped` are gone: only the last ones are kept.
    """

    first: int
    next: int
    dropped: int
    lines: tuple[str, ...]

    @classmethod
    def of(cls, record: OutputRecord, after: int = 0, limit: int = _PAGE_LINES) -> OutputPage:
        """The lines from number `after` on."""
        first = min(max(after, record.dropped), record.dropped + len(record.lines))
        lines = record.lines[first - record.dropped :][:limit]
        return cls(first=first, next=first + len(lines), dropped=record.dropped, lines=lines)


class JobOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended: what its command printed with `--json`, and its error, if it had one.

    `status` and `exit_code` are those of the job; without an exit code it has not ended. A result
    that is too long is not kept: then it `is_cut`.
    """

    job: str
    status: str
    exit_code: int | None
    documents: tuple[msgspec.Raw, ...]
    is_cut: bool = False
    error: JobFailure | None = None


def submit_job(app: App, request: JobRequest) -> JobView:
    """Queue a job for the next free worker of a service."""
    by = request.by or user_name()
    job = app.schedules.submit(request.kind, request.target, request.words, by, request.files)
    return JobView.of(job)


def list_jobs(app: App) -> Iterator[JobView]:
    """All jobs: those that wait or run, then those that have ended, newest first."""
    book = app.known_schedules
    yield from map(JobView.of, book.open_jobs())
    yield from map(JobView.of, book.ended_jobs())


def target_jobs(app: App, target: str | None = None, most: int = 5) -> tuple[JobView, ...]:
    """Jobs for one target that wait, run or have just ended; without a target, open ones of all."""
    book = app.known_schedules
    found = list(book.open_jobs())
    if target is not None:
        found = [job for job in found if job.target == target]
        ended = islice(book.ended_jobs(), _LOOKED_AT)
        found += islice((job for job in ended if job.target == target), 1)
    return tuple(JobView.of(job) for job in found[:most])


def show_job(app: App, name: str) -> JobView:
    """One job. NotFoundError if there is none of that name."""
    return JobView.of(app.known_schedules.job(name))


def cancel_job(app: App, name: str, by: str | None = None) -> JobView:
    """End a job: at once if it waits, between two batches if it runs."""
    job = app.schedules.job(name)
    if not job.status.is_open:
        raise UsageError(
            f"job {name} has ended: it is {job.status}", hint="lakesweep schedule list"
        )
    return JobView.of(app.schedules.cancel(name, by or user_name()))


def find_job(app: App, name: str) -> JobRecord | None:
    """The record of a job; None if it is not kept any more."""
    try:
        return app.known_schedules.job(name)
    except NotFoundError:
        return None


def job_outcome(app: App, name: str) -> JobOutcome:
    """What the command of a job printed for programs."""
    job, realm = app.known_schedules.job(name), app.known_schedules.realm
    found = None if job.result is None else realm.objects.fetch(job.result, JobResultRecord)
    result = JobResultRecord() if found is None else found.value
    lines = result.text.split("\n")  # text in JSON may have other line breaks
    return JobOutcome(
        job=job.name,
        status=job.status.value,
        exit_code=job.exit_code,
        documents=tuple(msgspec.Raw(line.encode()) for line in lines if line),
        is_cut=result.is_cut,
        error=result.failure,
    )


def job_output(app: App, name: str, after: int = 0, limit: int = _PAGE_LINES) -> OutputPage:
    """A page of what a job wrote, from line number `after` on."""
    job = app.known_schedules.job(name)
    record = output_record(app.known_schedules.realm, job.log)
    if not record.lines and job.output:  # written by an earlier version
        record = OutputRecord(lines=job.output)
    return OutputPage.of(record, after, limit)
