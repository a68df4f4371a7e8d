from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest

from lakesweep.clock import ManualClock, moment
from lakesweep.errors import NotFoundError, RefusedError
from lakesweep.runs.job_records import TYPES, JobRecord, JobStatus, ScheduleState
from lakesweep.runs.schedule_book import NewInterval, ScheduleBook
from lakesweep.runs.schedules import CatchUp, JobKind, Schedule
from lakesweep.store import Realm, Store
from lakesweep.store.backends.memory import MemoryBackend
from tests.moments import NOON

HOURLY = Schedule(name="hourly", job=JobKind.SWEEP, lake="prod", every=3600)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def realm(clock: ManualClock) -> Iterator[Realm]:
    from lakesweep.runs.records import TYPES as RUN_TYPES

    with Store(MemoryBackend(), types={**TYPES, **RUN_TYPES}, clock=clock) as store:
        yield store.create_realm("acme")


@pytest.fixture
def book(realm: Realm, clock: ManualClock) -> ScheduleBook:
    return ScheduleBook(realm, clock, {})


def _targets(schedule: Schedule) -> list[str]:
    return [schedule.lake or ""]


def _claim(book: ScheduleBook, service: str = "a") -> list[str]:
    return [job.name for job in book.claim(service, _targets)]


def test_a_due_time_is_claimed_once_by_whichever_service_comes_first(
    realm: Realm, book: ScheduleBook, clock: ManualClock
) -> None:
    other = ScheduleBook(realm, clock, {})
    book.put(HOURLY)
    assert _claim(book) == []
    clock.sleep(3600)
    assert _claim(other, "b") == ["hourly@2026-06-01T13:00:00Z/prod"]
    assert _claim(book) == []
    clock.sleep(3600)
    assert _claim(book) == ["hourly@2026-06-01T14:00:00Z/prod"]
    assert _claim(other, "b") == []


def test_a_service_whose_clock_is_ahead_claims_early_and_nobody_claims_again(
    realm: Realm, book: ScheduleBook, clock: ManualClock
) -> None:
    book.put(HOURLY)
    ahead = ManualClock(clock.now() + timedelta(minutes=59))
    ahead.sleep(120)
    assert len(_claim(ScheduleBook(realm, ahead, {}))) == 1
    clock.sleep(3601)
    assert _claim(book) == []


def test_after_downtime_one_job_stands_for_all_due_times_that_passed(
    book: ScheduleBook, clock: ManualClock
) -> None:
    book.put(HOURLY)
    clock.sleep(5 * 3600)
    [job] = book.claim("a", _targets)
    assert (moment(job.due), job.earlier) == (clock.now(), 4)


def test_a_schedule_that_does_not_catch_up_lets_old_due_times_go(
    book: ScheduleBook, clock: ManualClock
) -> None:
    book.put(msgspec.structs.replace(HOURLY, catch_up=CatchUp.NONE))
    clock.sleep(3600 + 600)
    [missed] = book.claim("a", _targets)
    assert (missed.status, missed.message) == (JobStatus.SKIPPED, "missed while no service ran")
    clock.sleep(3000)
    [due] = book.claim("a", _targets)
    assert due.status is JobStatus.QUEUED


def test_due_times_do_not_pile_up_behind_a_job_and_each_has_a_record(
    book: ScheduleBook, clock: ManualClock
) -> None:
    book.put(HOURLY)
    claimed = []
    for _ in range(4):
        clock.sleep(3600)
        claimed += book.claim("a", _targets)
    assert [job.status for job in claimed] == [JobStatus.QUEUED, *[JobStatus.SKIPPED] * 3]
    assert claimed[1].message == f"{claimed[0].name} is still queued"
    assert [job.name for job in book.open_jobs()] == [claimed[0].name]
    assert [job.due for job in book.ended_jobs()] == [job.due for job in claimed[:0:-1]]
    book.cancel(claimed[0].name, "ann")
    clock.sleep(3600)
    [after] = book.claim("a", _targets)
    assert after.status is JobStatus.QUEUED


def test_a_due_time_without_any_target_has_a_record(book: ScheduleBook, clock: ManualClock) -> None:
    book.put(HOURLY)
    clock.sleep(3600)
    [job] = book.claim("a", lambda _: [])
    assert (job.status, job.message) == (JobStatus.SKIPPED, "no lake matches prod")


def test_a_paused_schedule_claims_nothing_and_does_not_make_up_for_it(
    book: ScheduleBook, clock: ManualClock
) -> None:
    book.put(HOURLY)
    book.pause("hourly", "ann")
    clock.sleep(3 * 3600)
    assert _claim(book) == []
    book.resume("hourly", "bob")
    assert _claim(book) == []
    clock.sleep(3600)
    assert len(_claim(book)) == 1


def test_a_schedule_of_the_file_counts_from_when_it_was_first_seen(
    realm: Realm, clock: ManualClock
) -> None:
    book = ScheduleBook(realm, clock, {"hourly": HOURLY})
    assert _claim(book) == []
    clock.sleep(3600)
    assert len(_claim(book)) == 1
    with pytest.raises(RefusedError):
        book.put(HOURLY)
    with pytest.raises(RefusedError):
        book.remove("hourly", "ann")


def test_a_removed_schedule_is_gone_and_its_jobs_stay(
    book: ScheduleBook, clock: ManualClock
) -> None:
    book.put(HOURLY)
    clock.sleep(3600)
    _claim(book)
    book.remove("hourly", "ann")
    clock.sleep(3600)
    assert _claim(book) == []
    assert len(book.open_jobs()) == 1
    with pytest.raises(NotFoundError):
        book.schedule("hourly")


def test_a_job_that_has_ended_is_not_changed_any_more(
    book: ScheduleBook, clock: ManualClock
) -> None:
    book.put(HOURLY)
    clock.sleep(3600)
    [job] = book.claim("a", _targets)

    def end(now: JobRecord) -> JobRecord:
        return msgspec.structs.replace(now, status=JobStatus.DONE)

    assert book.change_job(job, end) is not None
    assert book.change_job(job, end) is None
    assert (book.open_jobs(), [each.name for each in book.ended_jobs()]) == ([], [job.name])
    assert book.cancel(job.name, "ann").status is JobStatus.DONE


def test_a_job_that_waits_is_cancelled_at_once_and_one_that_runs_is_asked(
    book: ScheduleBook, clock: ManualClock
) -> None:
    book.put(HOURLY)
    clock.sleep(3600)
    [waiting] = book.claim("a", _targets)
    assert book.cancel(waiting.name, "ann").status is JobStatus.CANCELLED
    [running] = book.run_now("hourly", "ann", _targets)
    book.change_job(running, lambda job: msgspec.structs.replace(job, status=JobStatus.RUNNING))
    asked = book.cancel(running.name, "bob")
    assert (asked.status, asked.cancelled_by) == (JobStatus.RUNNING, "bob")


def test_a_schedule_that_decides_itself_is_due_by_the_interval_it_was_given(
    book: ScheduleBook, clock: ManualClock
) -> None:
    book.put(Schedule(name="auto", job=JobKind.SWEEP, lake="prod", adaptive=(3600, 8 * 3600)))

    def slower(_: Schedule, state: ScheduleState) -> NewInterval:
        return NewInterval(2 * (state.interval or 3600), "little was found")

    dues = []
    for _ in range(24):
        clock.sleep(3600)
        for job in book.claim("a", _targets, slower):
            dues.append((moment(job.due) - NOON) / timedelta(hours=1))
            book.cancel(job.name, "ann")
    assert dues == [1, 3, 7, 15]
    state = book.state("auto")
    assert state is not None
    assert (state.interval, state.why) == (16 * 3600, "little was found")
