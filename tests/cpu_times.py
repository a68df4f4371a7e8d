"""Where the CPU time of the tests is spent: `pytest --cpu-times`.

Each test is charged with what its process and all processes below it, servers included, used
meanwhile. Elapsed time would say how busy the machine is; CPU time is the same on a busy one.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nlargest
from operator import itemgetter
from pathlib import Path

import pytest

from tests.process_tree import descendants

_TICKS = os.sysconf("SC_CLK_TCK")
_MOST_LINES = 40
_PROPERTY = "cpu_seconds"


def add_cpu_option(parser: pytest.Parser) -> None:
    help_text = "show the CPU seconds of folders, files and tests"
    parser.addoption("--cpu-times", action="store_true", help=help_text)


@dataclass(eq=False)  # pytest keeps plugins in sets
class CpuTimes:
    """Adds up the CPU time of tests, on however many workers."""

    used: float = 0.0
    by_test: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        yield
        now = _seconds()
        # Fixtures that are set up first and collection are charged to the first test.
        item.user_properties.append((_PROPERTY, max(0.0, now - self.used)))
        self.used = now

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            used = dict(report.user_properties).get(_PROPERTY, 0.0)
            assert isinstance(used, float)
            self.by_test[report.nodeid] += used

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for title, depth in (("folders", 2), ("files", None), ("tests", 0)):
            terminalreporter.section(f"CPU seconds of {title}")
            sums = _grouped(self.by_test, depth)
            for name, seconds in nlargest(_MOST_LINES, sums.items(), itemgetter(1)):
                terminalreporter.write_line(f"{seconds:8.1f}  {name}")
        terminalreporter.write_line(f"{sum(self.by_test.values()):8.1f}  in all")


def _grouped(by_test: dict[str, float], depth: int | None) -> dict[str, float]:
    """The sums of all tests whose names begin alike; 0 leaves them as they are."""
    sums: dict[str, float] = defaultdict(float)
    for name, seconds in by_test.items():
        parts = name.partition("::")[0].split("/")
        sums[name if depth == 0 else "/".join(parts[:depth])] += seconds
    return sums


def _seconds() -> float:
    own = os.times()
    return (
        own.user
        + own.system
        + own.children_user
        + own.children_system
        + sum(_of(pid) for pid in descendants(os.getpid()))
    )


def _of(pid: int) -> float:
    """What a process used, with those of its children that have ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0
