from __future__ import annotations

import pytest

from lakesweep.clock import ManualClock
from lakesweep.progress import SILENT
from lakesweep.progress_board import LONGEST_LINE, MOST_LINES, MOST_STAGES, ProgressBoard
from tests.moments import NOON


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def board(clock: ManualClock) -> ProgressBoard:
    return ProgressBoard(clock)


def test_stages_are_counted_while_they_run_and_after(
    board: ProgressBoard, clock: ManualClock
) -> None:
    progress = board.watched(SILENT)
    with progress.task("listed") as listed:
        listed.advance(3, 30)
        with progress.task("deleted", total=5) as deleted:
            deleted.advance(2)
            deleted.expect(7)
            clock.sleep(4)
            inner = board.stages(0)[-1]
            assert (inner.label, inner.count, inner.total, inner.ended) == ("deleted", 2, 7, None)
    [first, second] = board.stages(0)
    assert [first.label, second.label] == ["deleted", "listed"]
    assert (first.ended, second.count, second.size_bytes) == (4.0, 3, 30)


def test_stages_of_earlier_runs_are_not_those_of_this_one(
    board: ProgressBoard, clock: ManualClock
) -> None:
    with board.watched(SILENT).task("earlier"):
        clock.sleep(1)
    with board.watched(SILENT).task("now"):
        assert [stage.label for stage in board.stages(1.0)] == ["now"]


def test_lines_are_kept_without_secrets_and_only_the_last_ones(board: ProgressBoard) -> None:
    heard: list[str] = []
    say = board.heard(heard.append)
    say("connects to postgresql://lake:hunter2@db/store")
    assert board.lines(0) == (0, ["connects to postgresql://lake:***@db/store"])
    assert heard == ["connects to postgresql://lake:hunter2@db/store"]
    for number in range(MOST_LINES):
        say(f"{number} " + "x" * 1_000)
    first, lines = board.lines(0)
    assert (first, len(lines), max(map(len, lines))) == (1, MOST_LINES, LONGEST_LINE)
    assert board.lines(board.said) == (board.said, [])


def test_a_process_that_works_for_days_remembers_its_last_stages(board: ProgressBoard) -> None:
    for number in range(MOST_STAGES + 10):
        with board.watched(SILENT).task(f"{number}"):
            pass
    assert [len(board.stages(0)), board.stages(0)[0].label] == [MOST_STAGES, "10"]
