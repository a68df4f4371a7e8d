"""A command, run to its end: its seconds, and the memory and CPU time of all that it started."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

_TICK = os.sysconf("SC_CLK_TCK")
_EVERY_SECONDS = 0.1


@dataclass
class Usage:
    """Peaks of resident bytes, of each and of all together, and CPU seconds.

    `driver` is the command itself, `java` what it starts, `workers` are the Pythons below that.
    Pages that several processes share, as forked ones do, count for each with its part.
    """

    peaks: dict[str, int] = field(default_factory=dict)
    peak_bytes: int = 0
    _seconds: dict[int, float] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        return sum(self._seconds.values())

    def look(self, pid: int) -> None:
        """Count what runs now."""
        sizes = dict.fromkeys(("driver", "java", "workers"), 0)
        for process, kind in _tree(pid):
            with suppress(OSError, IndexError):  # it has ended
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                self._seconds[process] = (int(fields[11]) + int(fields[12])) / _TICK
                sizes[kind] += _resident(process)
        self.peak_bytes = max(self.peak_bytes, sum(sizes.values()))
        for kind, size in sizes.items():
            self.peaks[kind] = max(self.peaks.get(kind, 0), size)


@dataclass(frozen=True)
class Run:
    """What a command took, when it began and ended, and what it printed."""

    began: float
    ended: float
    usage: Usage
    output: str

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def run(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None
) -> Run:
    """Run a command that must succeed."""
    usage, done = Usage(), Event()
    began = time.time()
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        watch = Thread(target=_watch, args=(usage, process.pid, done))
        watch.start()
        output, errors = process.communicate()
        ended = time.time()
        done.set()
        watch.join()
    if process.returncode:
        raise RuntimeError(f"{command[:2]} ended with {process.returncode}: {errors.decode()}")
    return Run(began, ended, usage, output.decode())


def _watch(usage: Usage, pid: int, done: Event) -> None:
    while not done.wait(_EVERY_SECONDS):
        usage.look(pid)


def _resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = (int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 1024 * next(sizes, 0)


def _tree(pid: int) -> Iterator[tuple[int, str]]:
    waiting = [(pid, "driver")]
    while waiting:
        process, kind = waiting.pop()
        yield process, kind
        with suppress(OSError):  # it has ended
            lists = [task.read_text() for task in Path(f"/proc/{process}/task").glob("*/children")]
            below = " ".join(lists).split()
            waiting += [(int(child), _BELOW[kind]) for child in below]


_BELOW = {"driver": "java", "java": "workers", "workers": "workers"}
