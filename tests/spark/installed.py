"""The installed command, as a process of its own, with the configuration of a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from lakesweep.app import App
from lakesweep.config.file import load_config
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan
from tests.command import Done
from tests.forks import Command, run_command, started

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

    def start(self, *words: str) -> AbstractContextManager[Command]:
        """A command that runs while the block does."""
        return started(self.config.parent, *words)

    def __call__(self, *words: str) -> Done:
        return run_command(self.config.parent, *words)

    @property
    def app(self) -> App:
        return App(load_config(self.config, {}), folder=self.config.parent)

    def plan(self, name: str) -> StoredPlan:
        return open_plan(self.app.stores, self.app.runs, name)


def talk(done: Done) -> list[str]:
    """All that a command said, but for how far it was."""
    return [line for line in done.err.splitlines() if not _PROGRESS.match(line)]
