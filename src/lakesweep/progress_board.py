"""How far the work of this process is: its stages with their counts, and what it said.

Progress is shown on a terminal by `progress`. The board keeps the same figures, so that whoever
records a run can tell others how far it is. Counting is cheap: nothing is written here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakesweep.clock import Clock
from lakesweep.progress import Progress, ProgressTask
from lakesweep.redaction import masked
from lakesweep.tracing import span
from lakesweep.untrusted.text import printable

#: Older stages are forgotten, then older lines.
MOST_STAGES = 100
MOST_LINES = 400
LONGEST_LINE = 300


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the work. Moments are those of the monotonic clock; `ended` is None till then."""

    label: str
    unit: str
    count: int
    total: int | None
    size_bytes: int
    started: float
    ended: float | None = None


class _BoardTask:
    """A task that is counted here and shown by another one."""

    def __init__(self, shown: ProgressTask, stage: Stage) -> None:
        self._shown = shown
        self._lock = threading.Lock()
        self._first = stage
        self._count = 0
        self._size_bytes = 0
        self._total = stage.total

    def advance(self, count: int, size_bytes: int = 0) -> None:
        with self._lock:
            self._count += count
            self._size_bytes += size_bytes
        self._shown.advance(count, size_bytes)

    def expect(self, total: int) -> None:
        with self._lock:
            self._total = total
        self._shown.expect(total)

    def stage(self, ended: float | None = None) -> Stage:
        """The figures so far."""
        first = self._first
        with self._lock:
            return Stage(
                first.label,
                first.unit,
                self._count,
                self._total,
                self._size_bytes,
                first.started,
                ended,
            )


class ProgressBoard:
    """The stages of this process, oldest first, and the last lines that it said. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: list[_BoardTask] = []
        self._ended: deque[Stage] = deque(maxlen=MOST_STAGES)
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._said = 0

    def watched(self, progress: Progress) -> Progress:
        """The same progress, with its tasks on this board."""
        return _WatchedProgress(self, progress)

    def heard(self, notify: Callable[[str], object]) -> Callable[[str], None]:
        """The same listener, with its sentences on this board."""

        def hear(sentence: str) -> None:
            self.say(sentence)
            notify(sentence)

        return hear

    def say(self, text: str) -> None:
        """Keep what people were told; secrets are masked."""
        with self._lock:
            for line in text.splitlines():
                self._lines.append(safe_line(line))
                self._said += 1

    def stages(self, since: float) -> list[Stage]:
        """Stages that began at a moment or later: those that ended, then those that run."""
        with self._lock:
            every = [*self._ended, *(task.stage() for task in self._open)]
        return [stage for stage in every if stage.started >= since]

    def lines(self, since: int) -> tuple[int, list[str]]:
        """The lines after the first `since` ones, and how many there were before these."""
        with self._lock:
            first = max(since, self._said - len(self._lines))
            return first, list(self._lines)[first - (self._said - len(self._lines)) :]

    @property
    def said(self) -> int:
        """How many lines were said so far."""
        with self._lock:
            return self._said

    @contextmanager
    def task(
        self, progress: Progress, label: str, total: int | None, unit: str
    ) -> Iterator[ProgressTask]:
        """A task on the board that `progress` shows."""
        with progress.task(label, total=total, unit=unit) as shown:
            stage = Stage(printable(label), unit, 0, total, 0, self._clock.monotonic())
            task = _BoardTask(shown, stage)
            with self._lock:
                self._open.append(task)
            try:
                yield task
            finally:
                with self._lock:
                    self._open.remove(task)
                    self._ended.append(task.stage(self._clock.monotonic()))


class _WatchedProgress:
    """Progress whose tasks are on a board."""

    def __init__(self, board: ProgressBoard, shown: Progress) -> None:
        self._board = board
        self._shown = shown

    @contextmanager
    def task(
        self, label: str, *, total: int | None = None, unit: str = "files"
    ) -> Iterator[ProgressTask]:
        with span(f"stage {label}"), self._board.task(self._shown, label, total, unit) as task:
            yield task


def safe_line(line: str) -> str:
    """A line for a record: without secrets, control characters and endless tails."""
    return printable(masked(line.rstrip()))[:LONGEST_LINE]
