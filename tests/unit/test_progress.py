from __future__ import annotations

import io
import threading
from datetime import UTC, datetime

import pytest

from lakesweep.clock import ManualClock
from lakesweep.progress import SILENT, BarProgress, LineProgress, Progress


class Screen(io.StringIO):
    """A stream that takes itself for a terminal, and can wait for a text to appear on it."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._drawn:
            self._drawn.notify_all()
            return super().write(text)

    def shows(self, text: str) -> bool:
        with self._drawn:
            return self._drawn.wait_for(lambda: text in self.getvalue(), timeout=30)


def _clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


def _lines(total: int | None = None, size_bytes: int = 0) -> list[str]:
    """What a task of 12 seconds writes that advances by 1,000 each second."""
    clock, stream = _clock(), io.StringIO()
    with LineProgress(stream, clock=clock, every_seconds=5).task("listed", total=total) as task:
        for _ in range(12):
            clock.sleep(1)
            task.advance(1000, size_bytes)
    return stream.getvalue().splitlines()


def test_a_line_comes_every_few_seconds_and_at_the_end() -> None:
    assert _lines() == [
        "listed 5,000 files, 1,000/s",
        "listed 10,000 files, 1,000/s",
        "listed 12,000 files, 1,000/s",
    ]


def test_a_line_counts_one_thing_as_one() -> None:
    clock, stream = _clock(), io.StringIO()
    with LineProgress(stream, clock=clock, every_seconds=1).task("marked") as task:
        clock.sleep(1)
        task.advance(1)
    assert stream.getvalue() == "marked 1 file, 1/s\n"


def test_a_line_tells_the_share_of_a_known_total() -> None:
    assert _lines(total=20_000)[0] == "listed 5,000 of 20,000 (25 %) files, 1,000/s"


def test_a_line_tells_bytes_where_they_are_counted() -> None:
    assert _lines(size_bytes=1_000_000)[0] == "listed 5,000 files, 5.0 MB, 1,000/s"


def test_the_total_may_be_learnt_on_the_way() -> None:
    clock, stream = _clock(), io.StringIO()
    with LineProgress(stream, clock=clock).task("deleted", unit="keys") as task:
        task.expect(20)
        clock.sleep(10)
        task.advance(10)
    assert stream.getvalue().startswith("deleted 10 of 20 (50 %) keys, 1/s\n")


def test_quick_work_writes_no_line() -> None:
    clock, stream = _clock(), io.StringIO()
    with LineProgress(stream, clock=clock, every_seconds=5).task("listed") as task:
        clock.sleep(4.9)
        task.advance(1000)
    assert stream.getvalue() == ""


def test_work_that_counts_once_at_its_end_has_one_line() -> None:
    clock, stream = _clock(), io.StringIO()
    with LineProgress(stream, clock=clock).task("marked", unit="roots") as task:
        clock.sleep(10)
        task.advance(20)
    assert stream.getvalue() == "marked 20 roots, 2/s\n"


@pytest.mark.parametrize(
    ("label", "unit", "line"),
    [
        ("listed", "files", "listed nothing yet, 60 s"),
        ("starting Spark", "", "starting Spark, 60 s"),
    ],
)
def test_work_that_counts_nothing_for_long_is_named(label: str, unit: str, line: str) -> None:
    told = threading.Event()

    class Log(io.StringIO):
        def flush(self) -> None:
            told.set()

    clock, stream = _clock(), Log()
    progress = LineProgress(stream, clock=clock, patience_seconds=0.001)
    with progress.task(label, unit=unit):
        clock.sleep(60)
        for _ in range(2):  # the first line may have been under way before
            told.clear()
            assert told.wait(60)
    assert line in stream.getvalue().splitlines()


def test_a_bar_counts_nothing_where_there_is_nothing_to_count() -> None:
    screen = Screen()
    with BarProgress(screen, delay_seconds=0).task("starting Spark", unit=""):
        assert screen.shows("starting Spark")
    assert " 0" not in screen.getvalue().replace(" 0:00:0", "")


def test_a_bar_counts_from_the_start() -> None:
    screen = Screen()
    with BarProgress(screen, delay_seconds=0).task("listed", total=10):
        assert screen.shows("0 files")
        assert screen.shows("0%")


def test_a_bar_shows_share_and_time_left_of_a_known_total() -> None:
    screen = Screen()
    with BarProgress(screen, delay_seconds=0).task("judged", total=400) as task:
        task.advance(100)
        assert screen.shows("25%")
        assert screen.shows(" left")


def test_a_total_that_is_exceeded_tells_no_share() -> None:
    screen = Screen()
    with BarProgress(screen, delay_seconds=0).task("listed", total=4) as task:
        task.advance(5)
        assert screen.shows("5 files")
    assert "125%" not in screen.getvalue()


def test_lines_count_what_all_threads_did() -> None:
    clock, stream = _clock(), io.StringIO()
    with LineProgress(stream, clock=clock, every_seconds=5).task("listed") as task:

        def work() -> None:
            for _ in range(1000):
                task.advance(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        clock.sleep(5)
        task.advance(0)
    assert stream.getvalue().splitlines()[-1] == "listed 4,000 files, 800/s"


def test_a_bar_shows_label_count_unit_and_bytes() -> None:
    screen = Screen()
    with BarProgress(screen, delay_seconds=0).task("listed", total=10, unit="keys") as task:
        task.advance(4, 2_000_000)
        assert screen.shows("4 keys")
        assert screen.shows("listed")
        assert screen.shows("2.0 MB")


def test_tasks_share_one_display() -> None:
    screen = Screen()
    progress = BarProgress(screen, delay_seconds=0)
    with progress.task("listed") as outer, progress.task("deleted") as inner:
        outer.advance(3)
        inner.expect(9)
        inner.advance(7)
        assert screen.shows("3 files")
        assert screen.shows("7 files")


def test_no_bar_is_drawn_for_quick_work() -> None:
    screen = Screen()
    with BarProgress(screen, delay_seconds=600).task("listed") as task:
        task.advance(1)
    assert "listed" not in screen.getvalue()


def test_a_display_can_be_used_again() -> None:
    screen = Screen()
    progress = BarProgress(screen, delay_seconds=0)
    for label in ("first", "second"):
        with progress.task(label) as task:
            task.advance(1)
            assert screen.shows(label)


def test_silence_accepts_everything() -> None:
    progress: Progress = SILENT
    with progress.task("listed") as task:
        task.expect(5)
        task.advance(5, 100)
