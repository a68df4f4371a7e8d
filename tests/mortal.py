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


def run_mortal(command: Sequence[str], folder: Path, steps: int, since: str = "") -> int:
    """The exit code of a command that is killed behind so many steps, or KILLED.

    They are counted from the first one that begins with `since`: the name of an event and its file,
    such as `os.remove part-0`, or a statement.
    """
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_run, args=(list(command), folder, steps, since))
    process.start()
    process.join(_SECONDS)
    assert process.exitcode is not None, f"{command} does not end"
    return process.exitcode


def _run(command: list[str], folder: Path, steps: int, since: str) -> None:
    from lakesweep.cli.main import run

    os.chdir(folder)
    with (folder / "talk.log").open("a") as talk:
        sys.stdout = sys.stderr = talk
        _die_behind(steps, since)
        code = run(command)
    sys.exit(code)


def _die_behind(steps: int, since: str) -> None:
    from sqlalchemy import Engine, event

    left, has_begun = count(steps, -1), not since

    def step(what: str) -> None:
        nonlocal has_begun
        has_begun = has_begun or what.startswith(since)
        if has_begun and next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(_auditor(step))
    event.listen(Engine, "before_cursor_execute", lambda *call: step(call[2]))
    event.listen(Engine, "commit", lambda *_: step("COMMIT"))


def _auditor(step: Callable[[str], None]) -> Callable[[str, tuple[Any, ...]], None]:
    def audit(what: str, details: tuple[Any, ...]) -> None:
        if what in _CHANGES or (what == "open" and details[2] & os.O_ACCMODE != os.O_RDONLY):
            step(f"{what} {details[0]}")

    return audit
