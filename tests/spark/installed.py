"""The installed command, as a process of its own, with the configuration of a folder."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lakesweep.app import App
from lakesweep.config_file import load_config
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan
from tests.command import Done

_COMMAND = str(Path(sys.executable).with_name("lakesweep"))
_PATIENCE_SECONDS = 280
#: Lines that tell how far it is; which of them come depends on the time that it takes.
_PROGRESS = re.compile(r"(starting Spark|listed|marked|marked again|judged|deleted)[ ,]")


@dataclass(frozen=True)
class Installed:
    """Runs commands in the folder of a configuration."""

    config: Path

    def use(self, *, conf: Mapping[str, str] | None = None, **spark: str) -> None:
        """Let Spark run there from now on; all else stays as it is configured."""
        lines = [f"{name} = {json.dumps(value)}" for name, value in spark.items()]
        settings = ", ".join(
            f'"{name}" = {json.dumps(text)}' for name, text in (conf or {}).items()
        )
        section = "\n".join(["[spark]", *lines, f"conf = {{ {settings} }}"])
        rest = self.config.read_text().partition("\n[spark]")[0]
        self.config.write_text(f"{rest}\n{section}\n")

    @contextmanager
    def start(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command that runs while the block does; in a group of its own, as in a shell."""
        process = subprocess.Popen(
            [_COMMAND, *words],
            cwd=self.config.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)

    def __call__(self, *words: str) -> Done:
        with self.start(*words) as process:
            return finish(process)

    @property
    def app(self) -> App:
        return App(load_config(self.config, {}), folder=self.config.parent)

    def plan(self, name: str) -> StoredPlan:
        return open_plan(self.app.stores, self.app.runs, name)


def finish(process: subprocess.Popen[str]) -> Done:
    """Wait until a command has ended."""
    out, err = process.communicate(timeout=_PATIENCE_SECONDS)
    return Done(process.returncode, out, err)


def talk(done: Done) -> list[str]:
    """All that a command said, but for how far it was."""
    return [line for line in done.err.splitlines() if not _PROGRESS.match(line)]
