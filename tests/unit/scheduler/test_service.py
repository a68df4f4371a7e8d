"""What a service decides; `tests/e2e/test_service_storms.py` has the real processes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Event

import msgspec
import pytest

from lakesweep.app import App
from lakesweep.clock import ManualClock
from lakesweep.config.file import config_from_values
from lakesweep.runs.job_records import JobRecord, JobStatus
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM, take_lease
from lakesweep.runs.schedules import JobKind, Schedule
from lakesweep.scheduler.service import LeaseWatch, SchedulerService
from tests.moments import NOON

STILL = (LEASE_TERM + CLOCK_MARGIN).total_seconds()


class Started:
    """A process that runs until the test says otherwise."""

    code: int | None = None

    def poll(self) -> int | None:
        return self.code


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    config = config_from_values({"store": {"url": "memory:"}})
    app = App(config, folder=tmp_path, clock=ManualClock(NOON))
    yield app
    app.close()


@pytest.fixture
def started() -> dict[str, Started]:
    return {}


@pytest.fixture
def service(app: App, started: dict[str, Started]) -> SchedulerService:
    def start(job: str) -> Started:
        started[job] = Started()
        return started[job]

    return SchedulerService(app, None, 2, None, print, name="me", start=start)


def _due_job(app: App, service: SchedulerService) -> JobRecord:
    app.schedules.put(Schedule(name="s", job=JobKind.MAINTAIN, every=3600))
    app.clock.sleep(3600)
    service.tick()
    [job] = app.schedules.open_jobs()
    return job


def _run(app: App, job: JobRecord) -> JobRecord:
    running = app.schedules.change_job(
        job,
        lambda now: msgspec.structs.replace(now, status=JobStatus.RUNNING, attempt=now.attempt + 1),
    )
    assert running is not None
    return running


def test_a_sign_of_life_counts_by_the_clock_of_who_watches() -> None:
    watch = LeaseWatch()
    assert not watch.is_still("job", "renewed in another century", 0.0)
    assert not watch.is_still("job", "renewed in another century", STILL - 1)
    assert not watch.is_still("job", "renewed again", STILL)
    assert watch.is_still("job", "renewed again", 2 * STILL)
    watch.forget()
    assert not watch.is_still("job", "renewed again", 3 * STILL)


def test_a_job_whose_process_died_is_started_once_more_then_it_is_dead(
    app: App, service: SchedulerService, started: dict[str, Started]
) -> None:
    job = _due_job(app, service)
    for attempt in (1, 2):
        running = _run(app, job)
        assert running.attempt == attempt
        started[job.name].code = 1
        service.tick()
        assert app.schedules.job(job.name).status is JobStatus.RUNNING
        app.clock.sleep(STILL)
        service.tick()
        service.tick()
    ended = app.schedules.job(job.name)
    assert (ended.status, ended.message) == (JobStatus.DEAD, "its process died")


def test_a_job_that_renews_its_lease_lives_whatever_its_clock_says(
    app: App, service: SchedulerService
) -> None:
    job = _due_job(app, service)
    running = _run(app, job)
    assert running.lease is not None
    slow = ManualClock(NOON.replace(year=2020))
    lease = take_lease(app.schedules.realm, slow, "job", running.lease, job.name, "there")
    for _ in range(10):
        app.clock.sleep(STILL / 2)
        slow.sleep(STILL / 2)
        lease.renew()
        service.tick()
    assert app.schedules.job(job.name).status is JobStatus.RUNNING


def test_no_more_jobs_are_started_than_there_are_workers_and_none_twice(
    app: App, service: SchedulerService, started: dict[str, Started]
) -> None:
    for number in range(3):
        app.schedules.submit(JobKind.PLAN, f"lake-{number}", (), "me")
        app.clock.sleep(1)
    for _ in range(3):
        service.tick()
    assert len(started) == 2
    next(iter(started.values())).code = 0
    app.schedules.cancel(next(iter(started)), "me")
    service.tick()
    assert len(started) == 3


def test_a_job_whose_supervisor_ends_before_it_begins_rests_longer_each_time(app: App) -> None:
    """A second between two looks; another job is not held up by it."""
    starts: list[tuple[str, float]] = []
    said: list[str] = []

    def start(job: str) -> Started:
        starts.append((job, app.clock.monotonic()))
        process = Started()
        process.code = 1 if job == broken.name else None
        return process

    service = SchedulerService(app, None, 2, None, said.append, name="me", start=start)
    broken = app.schedules.submit(JobKind.PLAN, "broken", (), "me")
    app.clock.sleep(1)
    other = app.schedules.submit(JobKind.PLAN, "other", (), "me")
    for _ in range(900):
        service.tick()
        app.clock.sleep(1)
    moments = [at for name, at in starts if name == broken.name]
    pauses = [round(after - before) for before, after in pairwise(moments)]
    assert pauses[:3] == [3, 5, 9]
    assert max(pauses) == 301
    assert len(pauses) <= 10
    assert [name for name, _ in starts].count(other.name) == 1
    assert "exit code 1" in said[0]
    assert app.schedules.job(broken.name).status is JobStatus.QUEUED


def test_a_process_that_cannot_be_started_does_not_end_the_scheduler(app: App) -> None:
    said: list[str] = []
    stop = Event()

    def start(job: str) -> Started:
        raise OSError(24, f"Too many open files for {job}")

    service = SchedulerService(app, None, 2, None, said.append, name="me", start=start)
    app.schedules.submit(JobKind.PLAN, "lake", (), "me")
    service.tick()
    assert "Too many open files" in said[0]

    def unexpected() -> None:
        said.append("tick")
        if said.count("tick") == 3:
            stop.set()
        raise ZeroDivisionError("a defect")

    service.tick = unexpected  # type: ignore[method-assign]
    service.run(stop, every_seconds=0.0)
    assert said[1:] == [
        "tick",
        "the scheduler goes on after ZeroDivisionError: a defect",
        *["tick"] * 2,
    ]
