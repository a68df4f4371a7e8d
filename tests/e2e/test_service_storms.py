"""Many due times, two services, and kills at random moments: each due time is settled once."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import make_url

from lakesweep.clock import micros, moment
from lakesweep.errors import LakesweepError
from lakesweep.runs.job_records import JobRecord, JobStatus
from lakesweep.runs.schedule_book import ScheduleBook
from lakesweep.store import Store
from tests.database_servers import connect
from tests.forks import started
from tests.random_tests import Cases
from tests.storm import Storm

SCHEDULES = 12
EVERY = timedelta(seconds=30)  # a second on the wall
KILLS = 12
_PATIENCE_SECONDS = 240


@pytest.fixture
def storm(request: pytest.FixtureRequest, tmp_path: Path) -> Storm:
    """A store with schedules that no service has seen yet."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/store.db"
    else:
        url = request.getfixturevalue("postgresql_databases").new_database()
    Store.create_tables(url)
    with Store.open(url) as store:
        store.create_realm("default")
        store.create_realm("other")
    return Storm(url, tmp_path, time.time())


@pytest.mark.parametrize("storm", ["sqlite", "postgresql"], indirect=True)
def test_every_due_time_is_settled_once_whatever_is_killed(storm: Storm, cases: Cases) -> None:
    app = storm.app()
    book = app.schedules
    for schedule in storm.schedules(SCHEDULES, int(EVERY.total_seconds())):
        book.put(schedule)
    began = {name: _claimed(book, name) for name in book.schedules()}
    for chance in cases(1):
        with ExitStack() as services:
            # Their clocks differ by four minutes.
            offsets = (0.0, 240.0)
            running = [services.enter_context(storm.service(off)) for off in offsets]
            # On a busy machine services take a while to begin.
            _patiently(lambda: any(True for _ in book.ended_jobs()))
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.2, 0.8))
                match chance.choice(["service", "supervisors", "workers", "connection"]):
                    case "service":
                        number = chance.randrange(len(running))
                        running[number].kill()
                        running[number] = services.enter_context(storm.service(offsets[number]))
                    case "connection":
                        _cut_connection(storm.url, chance)
                    case kind:
                        storm.kill(kind, chance)
            _patiently(lambda: len(list(book.ended_jobs())) > SCHEDULES)
            for name in began:
                _pause(book, name)
            _patiently(lambda: not book.open_jobs())
        jobs = list(book.ended_jobs())
        for name, claimed in began.items():
            _assert_settled_once([job for job in jobs if job.schedule == name], claimed)
        _assert_began_once(jobs, storm.began())
        assert not storm.twice()  # or files would be deleted twice
        assert len(jobs) > SCHEDULES
        for name in book.schedules():
            book.resume(name, "the test")
            began[name] = _claimed(book, name)
        began = {name: _claimed(book, name) for name in began}
    app.close()


@pytest.mark.parametrize("storm", ["postgresql"], indirect=True)
def test_a_store_that_goes_away_and_comes_back_loses_no_due_time(storm: Storm) -> None:
    app = storm.app()
    book = app.schedules
    [schedule] = storm.schedules(1, int(EVERY.total_seconds()))
    book.put(schedule)
    claimed = _claimed(book, schedule.name)
    config = storm.folder / "lakesweep.toml"
    config.write_text(f'[store]\nurl = {json.dumps(storm.url)}\nrealm = "other"\n')
    with _away(storm.url), started(storm.folder, "serve", "--port", "0") as command:
        said = command.streams / "err"
        _patiently(lambda: said.exists() and "does not answer, trying again" in said.read_text())
        with storm.service():
            _allow(storm.url, is_allowed=True)
            _patiently(lambda: "the store answers again" in said.read_text())
            _patiently(lambda: len(list(book.ended_jobs())) >= 2)
            with _away(storm.url):
                time.sleep(1)
            until = micros(app.clock.now())
            _patiently(lambda: any(job.due > until for job in book.ended_jobs()))
            _pause(book, schedule.name)
            _patiently(lambda: not book.open_jobs())
    _assert_settled_once(list(book.ended_jobs()), claimed)
    app.close()


@contextmanager
def _away(url: str) -> Iterator[None]:
    """A database that ends all connections and takes no new ones."""
    _allow(url, is_allowed=False)
    try:
        yield
    finally:
        _allow(url, is_allowed=True)


def _allow(url: str, *, is_allowed: bool) -> None:
    name = make_url(url).database
    other = make_url(url).set(database="postgres").render_as_string(hide_password=False)
    with connect(other.replace(" ", "%20")) as connection:
        cursor = connection.cursor()
        word = "true" if is_allowed else "false"
        cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {word}")
        if not is_allowed:
            cursor.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
            )


def _assert_settled_once(jobs: list[JobRecord], claimed: int) -> None:
    """Each due time since a moment has one record, or is counted by the one after it."""
    settled = moment(claimed)
    for job in sorted(jobs, key=lambda each: each.due):
        if job.due <= claimed:
            continue
        passed = (moment(job.due) - settled) // EVERY
        assert passed == job.earlier + 1, (job.name, settled)
        settled = moment(job.due)


def _assert_began_once(jobs: list[JobRecord], began: list[str]) -> None:
    """No command began more often than the record says, and what is done did begin."""
    starts = Counter(began)
    for job in jobs:
        assert not job.status.is_open
        assert starts[job.name] <= job.attempt <= 2, job
        if job.status is JobStatus.DONE:
            assert starts[job.name] >= 1, job
    assert set(starts) <= {job.name for job in jobs}


def _claimed(book: ScheduleBook, name: str) -> int:
    state = book.state(name)
    assert state is not None
    every = int(EVERY / timedelta(microseconds=1))
    return state.claimed // every * every


def _pause(book: ScheduleBook, name: str) -> None:
    def is_paused() -> bool:
        book.pause(name, "the test")
        return True

    _patiently(is_paused)


def _cut_connection(url: str, chance: Random) -> None:
    """Have the database end a connection, as a failing network or server does."""
    if not url.startswith("postgresql"):
        return
    with connect(url) as connection:
        cursor = connection.cursor()
        cursor.execute(
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        found = [row[0] for row in cursor.fetchall()]
        if found:
            cursor.execute(f"SELECT pg_terminate_backend({chance.choice(found)})")


def _patiently(is_so: Callable[[], bool]) -> None:
    """Wait for something; a connection of this process may have been cut, too."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            if is_so():
                return
        except LakesweepError:
            pass
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")
