from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesweep.clock import ManualClock
from lakesweep.progress import SILENT
from lakesweep.progress_board import MOST_LINES, ProgressBoard
from lakesweep.runs.live_records import (
    LiveTeller,
    OutputRecord,
    RunLiveRecord,
    keep_telling,
    live_record,
    new_links,
    output_record,
    request_cancel,
)
from lakesweep.runs.records import TYPES
from lakesweep.store import Realm, Store
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from tests.moments import NOON


class Telling:
    """A run that tells a store how far it is, which may go away."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOON)
        self.fault = BackendFault.NONE
        self.writes = 0
        backend = FaultyBackend(MemoryBackend(), self._choose, self.clock)
        self.store = Store(backend, types=TYPES, clock=self.clock)
        self.realm: Realm = self.store.create_realm("acme")
        self.board = ProgressBoard(self.clock)
        self.stopped: list[str] = []
        links = new_links(self.realm, "apply-1", self.clock)
        assert links is not None
        self.links = links
        self.teller = LiveTeller(self.realm, self.clock, self.board, links, self.stopped.append)

    @property
    def live(self) -> RunLiveRecord:
        found = live_record(self.realm, self.links)
        assert found is not None
        return found

    def _choose(self, call: str) -> BackendFault:
        self.writes += call == "update_row"
        return self.fault


@pytest.fixture
def run() -> Iterator[Telling]:
    run = Telling()
    with run.store:
        yield run


def test_a_run_tells_its_stage_and_what_it_said(run: Telling) -> None:
    with run.board.watched(SILENT).task("deleted", total=10) as task:
        task.advance(4, 400)
        run.board.say("one table is withheld; token=abcdefgh")
        run.clock.sleep(2)
        run.teller.tell()
        [stage] = run.live.stages
        assert (stage.stage, stage.count, stage.total, stage.size_bytes) == ("deleted", 4, 10, 400)
        assert (stage.seconds, stage.is_open) == (2.0, True)
    assert output_record(run.realm, run.links.output).lines == ("one table is withheld; token=***",)


def test_nothing_new_is_not_written_again_but_a_sign_of_life_is(run: Telling) -> None:
    run.teller.tell()
    before = run.writes
    for _ in range(10):
        run.teller.tell()
    assert run.writes == before
    run.clock.sleep(20)
    run.teller.tell()
    assert run.writes == before + 1


def test_a_store_that_does_not_answer_is_counted_and_fails_nothing(run: Telling) -> None:
    run.fault = BackendFault.REFUSE
    with run.board.watched(SILENT).task("listed") as task:
        task.advance(5)
        run.board.say("a line")
        run.teller.tell()
        run.fault = BackendFault.NONE
        run.teller.tell()
        assert (run.live.stages[0].count, run.live.lost) == (5, 1)
    run.teller.tell()
    assert output_record(run.realm, run.links.output).lines == ("a line",)


def test_a_run_without_rows_for_its_progress_goes_on_without(run: Telling) -> None:
    run.fault = BackendFault.REFUSE
    assert new_links(run.realm, "apply-2", run.clock) is None
    assert live_record(run.realm, None) is None


def test_a_run_hears_once_that_it_is_cancelled_and_by_whom(run: Telling) -> None:
    run.teller.tell()
    request_cancel(run.realm, run.links, "bob@office")
    request_cancel(run.realm, run.links, "eve@office")
    for count in range(3):
        with run.board.watched(SILENT).task(f"{count}"):
            run.teller.tell()
    assert run.stopped == ["cancelled by bob@office"]
    assert (run.live.cancelled_by, len(run.live.stages)) == ("bob@office", 3)
    assert run.teller.look() == "bob@office"


def test_the_last_word_is_told_at_the_end(run: Telling) -> None:
    with keep_telling(run.teller), run.board.watched(SILENT).task("listed") as task:
        task.advance(7)
    [stage] = run.live.stages
    assert (stage.count, stage.is_open) == (7, False)


def test_only_the_last_lines_are_kept() -> None:
    record = OutputRecord().extended([str(number) for number in range(MOST_LINES)])
    record = record.extended(["a", "b"])
    assert (record.dropped, record.lines[0], record.lines[-1]) == (2, "2", "b")
