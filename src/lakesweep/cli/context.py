"""What every command is handed: its output, its progress, the configuration and the app."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lakesweep.cli.output import ConsoleOutput, JsonOutput, Output
from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import RefusedError
from lakesweep.progress import SILENT, BarProgress, LineProgress, Progress

if TYPE_CHECKING:
    from lakesweep.app import App
    from lakesweep.config import Config


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that every command has."""

    json: bool = False
    config: Path | None = None
    verbose: bool = False
    quiet: bool = False

    def under(self, outer: Settings) -> Settings:
        """These settings, filled up with those that stood before the command."""
        return Settings(
            json=self.json or outer.json,
            config=self.config or outer.config,
            verbose=self.verbose or outer.verbose,
            quiet=self.quiet or outer.quiet,
        )


class Context:
    """One call of one command. The configuration is read, and the app wired, on first use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock: Clock = SystemClock()
        self.progress = make_progress(settings)
        self.output = make_output(settings, self.progress)

    @cached_property
    def config(self) -> Config:
        """The configuration; the defaults where there is no file."""
        from lakesweep.config import find_config, load_config

        path = find_config(self.settings.config, os.environ, Path.cwd())
        self.output.detail(f"configuration: {path or 'none, all defaults'}")
        return load_config(path, os.environ)

    @cached_property
    def app(self) -> App:
        """All components, wired by the configuration."""
        from lakesweep.app import App

        return App(self.config, clock=self.clock, progress=self.progress)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Return if the user agrees to a delete, here or beforehand with `--yes`; else refuse."""
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise RefusedError(
                "confirmation",
                "there is no terminal to ask on; nothing was deleted",
                hint="look at the totals with --dry-run, then add --yes",
            )
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise RefusedError("confirmation", "not confirmed; nothing was deleted")


def make_progress(settings: Settings) -> Progress:
    """Bars on a terminal, lines elsewhere, nothing when asked to be quiet."""
    if settings.quiet:
        return SILENT
    return BarProgress(sys.stderr) if sys.stderr.isatty() else LineProgress(sys.stderr)


def make_output(settings: Settings, progress: Progress) -> Output:
    """The output for people or for programs."""
    kind = JsonOutput if settings.json else ConsoleOutput
    return kind(progress, quiet=settings.quiet, verbose=settings.verbose)
