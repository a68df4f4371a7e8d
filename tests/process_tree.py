"""The processes that a process started, and those that these started in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

_PATIENCE_SECONDS = 250.0


def descendants(pid: int, word: str = "") -> dict[int, str]:
    """The processes below one, by number, with their command lines; those that hold a word."""
    parents = dict(_parents())
    below: dict[int, str] = {}
    family = {pid}
    while born := {child for child, parent in parents.items() if parent in family} - family:
        family |= born
        below |= {child: _command(child) for child in born}
    return {child: command for child, command in below.items() if word in command}


def await_that(condition: Callable[[], bool], what: str) -> None:
    """Wait until something holds; the patience is for the slowest of machines."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never came to pass: {what}"
        time.sleep(0.1)


def await_end(pids: Collection[int]) -> None:
    """Wait until none of some processes runs any more."""
    await_that(lambda: not any(_command(pid) for pid in pids), f"the end of {pids}")


def _parents() -> list[tuple[int, int]]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name of a program stands in brackets, and may hold anything.
            state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            found.append((int(folder.name), int(state[1])))
    return found


def _command(pid: int) -> str:
    """The command line; empty for a process that has ended, even if nobody took note of it."""
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    return ""
