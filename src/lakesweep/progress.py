"""Progress of long-running work.

A kernel takes a `Progress`, opens a task and advances it once a batch. The caller decides what
is shown: nothing, a bar on a terminal, or a plain line every few seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from lakesweep.clock import Clock, SystemClock
from lakesweep.units import format_size
from lakesweep.untrusted.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class ProgressTask(Protocol):
    """Work in progress. Safe to share between threads, cheap to call once per batch."""

    def advance(self, count: int, size_bytes: int = 0) -> None:
        """Add what was done since the last call."""
        ...

    def expect(self, total: int) -> None:
        """Set the total, once it is known."""
        ...


class Progress(Protocol):
    """Shows tasks."""

    def task(
        self, label: str, *, total: int | None = None, unit: str = "files"
    ) -> AbstractContextManager[ProgressTask]:
        """Open a task; `label` says what happened to the counted items, such as `listed`."""
        ...


class _Nothing:
    def advance(self, count: int, size_bytes: int = 0) -> None:
        """Does nothing."""

    def expect(self, total: int) -> None:
        """Does nothing."""


class SilentProgress:
    """Shows nothing."""

    @contextmanager
    def task(
        self, label: str, *, total: int | None = None, unit: str = "files"
    ) -> Iterator[ProgressTask]:
        del label, total, unit
        yield _Nothing()


SILENT: Progress = SilentProgress()


class LineProgress:
    """Writes a plain line every few seconds, for logs and pipes. Quick work leaves no line.

    Work without any count for `patience_seconds` is named, so that a log shows what takes long.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Clock | None = None,
        every_seconds: float = 5.0,
        patience_seconds: float = 30.0,
    ) -> None:
        self._stream = stream
        self._clock = clock or SystemClock()
        self._every = every_seconds
        self._patience = patience_seconds

    @contextmanager
    def task(
        self, label: str, *, total: int | None = None, unit: str = "files"
    ) -> Iterator[ProgressTask]:
        task = _LineTask(self._stream, self._clock, self._every, printable(label), unit, total)
        done = threading.Event()
        watch = threading.Thread(target=task.watch, args=(done, self._patience), daemon=True)
        watch.start()
        try:
            yield task
        finally:
            done.set()
            # Before the final line, so that the two threads do not interleave.
            watch.join()
            task.close()


class _LineTask:
    def __init__(
        self,
        stream: TextIO,
        clock: Clock,
        every: float,
        label: str,
        unit: str,
        total: int | None,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._every = every
        self._label = label
        self._unit = unit
        self._total = total
        self._lock = threading.Lock()
        self._count = 0
        self._size_bytes = 0
        self._start = self._reported = clock.monotonic()
        self._reported_count = 0

    def advance(self, count: int, size_bytes: int = 0) -> None:
        with self._lock:
            self._count += count
            self._size_bytes += size_bytes
            if self._clock.monotonic() - self._reported >= self._every:
                self._report()

    def expect(self, total: int) -> None:
        with self._lock:
            self._total = total

    def watch(self, done: threading.Event, patience: float) -> None:
        """Report from time to time that work is in progress, while nothing is counted."""
        while not done.wait(patience):
            with self._lock:
                if not self._count:
                    self._wait()

    def close(self) -> None:
        """Report the final count if an earlier line showed less."""
        with self._lock:
            if self._reported > self._start and self._count > self._reported_count:
                self._report()

    def _wait(self) -> None:
        what = f"{self._label} nothing yet" if self._unit else self._label
        seconds = self._clock.monotonic() - self._start
        self._stream.write(f"{what}, {seconds:,.0f} s\n")
        self._stream.flush()

    def _report(self) -> None:
        self._reported, self._reported_count = self._clock.monotonic(), self._count
        seconds = max(self._reported - self._start, 1e-9)
        counted = self._counted()
        unit = self._unit.removesuffix("s") if counted == "1" else self._unit
        parts = [f"{self._label} {counted} {unit}"]
        if self._size_bytes:
            parts.append(format_size(self._size_bytes))
        parts.append(f"{self._count / seconds:,.0f}/s")
        self._stream.write(", ".join(parts) + "\n")
        self._stream.flush()

    def _counted(self) -> str:
        # A total that was estimated and is exceeded tells nothing any more.
        if not self._total or self._count > self._total:
            return f"{self._count:,}"
        return f"{self._count:,} of {self._total:,} ({100 * self._count // self._total} %)"


class BarProgress:
    """Draws bars on a terminal during work, and removes them when it ends.

    Nothing is drawn for work that ends within `delay_seconds`.
    """

    def __init__(self, stream: TextIO, *, delay_seconds: float = 1.0) -> None:
        self._stream = stream
        self._delay = delay_seconds
        self._lock = threading.Lock()
        self._open = 0
        self._display: RichProgress | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def task(
        self, label: str, *, total: int | None = None, unit: str = "files"
    ) -> Iterator[ProgressTask]:
        display = self._enter()
        task_id = display.add_task(
            printable(label), total=total, count="", share="", size="", rate="", left=""
        )
        try:
            yield _BarTask(display, task_id, unit, total)
        finally:
            display.remove_task(task_id)
            self._leave()

    def _enter(self) -> RichProgress:
        with self._lock:
            if self._display is None:
                self._display = _make_display(self._stream)
                self._timer = threading.Timer(self._delay, self._display.start)
                self._timer.daemon = True
                self._timer.start()
            self._open += 1
            return self._display

    def _leave(self) -> None:
        with self._lock:
            self._open -= 1
            if self._open:
                return
            display, timer = self._display, self._timer
            self._display = self._timer = None
        if display is not None and timer is not None:
            timer.cancel()
            timer.join()  # the timer may be starting the display right now
            display.stop()


class _BarTask:
    def __init__(
        self, display: RichProgress, task_id: TaskID, unit: str, total: int | None
    ) -> None:
        self._display = display
        self._id = task_id
        self._unit = unit
        self._total = total
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._count = 0
        self._size_bytes = 0
        if unit:
            self._show()

    def advance(self, count: int, size_bytes: int = 0) -> None:
        with self._lock:
            self._count += count
            self._size_bytes += size_bytes
            self._show()

    def expect(self, total: int) -> None:
        with self._lock:
            self._total = total
            self._show()

    def _show(self) -> None:
        seconds = max(time.monotonic() - self._start, 1e-9)
        rate = self._count / seconds
        # A total that was estimated and is exceeded tells nothing any more.
        total = None if self._total is not None and self._count > self._total else self._total
        self._display.update(
            self._id,
            total=total,
            completed=self._count,
            count=f"{self._count:,} {self._unit}",
            share=f"{self._count / total:.0%}" if total else "",
            size=format_size(self._size_bytes) if self._size_bytes else "",
            rate=f"{rate:,.0f}/s" if self._count else "",
            left=_time_left(total, self._count, rate),
        )


def _time_left(total: int | None, count: int, rate: float) -> str:
    if not total or not count:
        return ""
    minutes, seconds = divmod(round((total - count) / rate), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02} left"


def _make_display(stream: TextIO) -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[share]}"),
        TextColumn("{task.fields[size]}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=Console(file=stream),
        transient=True,
        redirect_stdout=False,  # stdout is data and may be a file; only messages go above the bar
    )
