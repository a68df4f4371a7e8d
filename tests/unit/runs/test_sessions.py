from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import IncompleteError, LeaseHeldError, RefusedError, UnreachableError
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM
from lakesweep.runs.records import TYPES, RunKind, RunStatus
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import run_session
from lakesweep.store import Store
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.termination import TerminatedError
from tests.moments import NOON


class Records:
    """The runs of a realm, over a database that may go away."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOON)
        self.is_away = False
        backend = FaultyBackend(MemoryBackend(), self._choose, self.clock)
        self.store = Store(backend, types=TYPES, clock=self.clock)
        self.runs = RunLog(self.store.create_realm("acme"), self.clock)

    def statuses(self) -> list[RunStatus]:
        return [run.status for run in self.runs.list("prod")]

    def _choose(self, _: str) -> BackendFault:
        return BackendFault.REFUSE if self.is_away else BackendFault.NONE


@pytest.fixture
def records() -> Iterator[Records]:
    records = Records()
    with records.store:
        yield records


def test_a_run_ends_as_it_says(records: Records) -> None:
    with run_session(records.runs, "prod", RunKind.PLAN, spec={"mode": "exact"}) as session:
        assert records.statuses() == [RunStatus.RUNNING]
        session.status, session.figures = RunStatus.INCOMPLETE, {"listed": 3}
        records.clock.sleep(7)
    (run,) = records.runs.list("prod")
    assert (run.status, run.figures, run.spec) == (
        RunStatus.INCOMPLETE,
        {"listed": 3},
        {"mode": "exact"},
    )
    assert run.finished_at == run.started_at + 7_000_000


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RefusedError("share", "too much"), RunStatus.REFUSED),
        (KeyboardInterrupt(), RunStatus.STOPPED),
        (IncompleteError("a disk is full"), RunStatus.FAILED),
        (ZeroDivisionError("a defect"), RunStatus.FAILED),
    ],
)
def test_an_error_ends_a_run_and_gives_the_lease_back(
    records: Records, error: BaseException, status: RunStatus
) -> None:
    with (
        pytest.raises(type(error)),
        run_session(records.runs, "prod", RunKind.PLAN, spec={}),
    ):
        raise error
    assert records.statuses() == [status]
    with run_session(records.runs, "prod", RunKind.PLAN, spec={}):
        pass


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (TerminatedError("ended by SIGTERM"), "ended by SIGTERM"),
    ],
)
def test_an_interrupted_run_says_so_in_words(
    records: Records, error: KeyboardInterrupt, words: str
) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        run_session(records.runs, "prod", RunKind.PLAN, spec={}),
    ):
        raise error
    assert next(records.runs.list("prod")).message == words


def test_no_record_is_made_of_a_run_that_may_not_begin(records: Records) -> None:
    with run_session(records.runs, "prod", RunKind.PLAN, spec={}):
        with (
            pytest.raises(LeaseHeldError),
            run_session(records.runs, "prod", RunKind.APPLY, spec={}),
        ):
            pytest.fail("two runs at once")
        with run_session(records.runs, "other", RunKind.APPLY, spec={}):
            pass
    assert records.statuses() == [RunStatus.DONE]


def test_a_run_whose_end_could_not_be_written_down_is_dead_to_the_next(records: Records) -> None:
    with (
        pytest.raises(UnreachableError),
        run_session(records.runs, "prod", RunKind.PLAN, spec={}),
    ):
        records.is_away = True
    records.is_away = False
    assert records.statuses() == [RunStatus.RUNNING]
    records.clock.sleep((LEASE_TERM + CLOCK_MARGIN).total_seconds())
    with run_session(records.runs, "prod", RunKind.PLAN, spec={}):
        pass
    assert records.statuses() == [RunStatus.DONE, RunStatus.DEAD]


def test_the_clock_is_read_before_the_lease_is_taken(records: Records) -> None:
    """So that nothing is too old by the time that somebody had to wait."""
    begin = records.clock.now()
    with run_session(records.runs, "prod", RunKind.PLAN, spec={}) as session:
        records.clock.sleep(5)
        assert session.started == begin
