"""Commands in processes of their own, which kill themselves in the middle of it.

A step is whatever leaves a trace: a file that is opened to be written, renamed, linked or removed,
or a statement to the database. The process is killed before one of them, as by `kill -9`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

_CHANGES = frozenset({"os.rename", "os.remove", "os.link", "os.rmdir", "os.mkdir"})
_SECONDS = 120
#: The exit code of a process that was killed.
KILLED = -signal.SIGKILL


def run_mortal(command: Sequence[str], folder: Path, steps: int) -> int:
    """The exit code of a command that is killed behind so many steps, or KILLED."""
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_run, args=(list(command), folder, steps))
    process.start()
    process.join(_SECONDS)
    assert process.exitcode is not None, f"{command} does not end"
    return process.exitcode


def _run(command: list[str], folder: Path, steps: int) -> None:
    from lakesweep.cli.main import run

    os.chdir(folder)
    with (folder / "talk.log").open("a") as talk:
        sys.stdout = sys.stderr = talk
        _die_behind(steps)
        code = run(command)
    sys.exit(code)


def _die_behind(steps: int) -> None:
    from sqlalchemy import Engine, event

    left = count(steps, -1)

    def step() -> None:
        if next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(_auditor(step))
    event.listen(Engine, "before_cursor_execute", lambda *_: step())
    event.listen(Engine, "commit", lambda *_: step())


def _auditor(step: Callable[[], None]) -> Callable[[str, tuple[Any, ...]], None]:
    def audit(what: str, details: tuple[Any, ...]) -> None:
        if what in _CHANGES or (what == "open" and details[2] & os.O_ACCMODE != os.O_RDONLY):
            step()

    return audit
