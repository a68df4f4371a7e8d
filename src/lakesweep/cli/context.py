"""What every command receives: output, progress, clock, configuration and the app."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from lakesweep.cli.render.output import ConsoleOutput, JsonOutput, Output
from lakesweep.cli.render.terminal import write
from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import RefusedError, UsageError
from lakesweep.operations.interaction import Interaction
from lakesweep.progress import SILENT, BarProgress, LineProgress, Progress
from lakesweep.untrusted.text import printable

if TYPE_CHECKING:
    from lakesweep.app import App
    from lakesweep.client.service import RemoteService
    from lakesweep.config import Config
    from lakesweep.config.search import ConfigSearch

#: The service that does the work, its token, and the issuers that are trusted beside the usual.
SERVER_VARIABLE = "LAKESWEEP_SERVER"
TOKEN_VARIABLE = "LAKESWEEP_TOKEN"  # noqa: S105 - a name
CA_VARIABLE = "LAKESWEEP_CA_FILE"

P = ParamSpec("P")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that every command has."""

    json: bool = False
    config: Path | None = None
    server: str | None = None
    verbose: bool = False
    quiet: bool = False

    @property
    def service_url(self) -> str | None:
        """The service that does the work; None if this machine does."""
        return self.server or os.environ.get(SERVER_VARIABLE) or None

    def under(self, outer: Settings) -> Settings:
        """These settings, completed with those given before the command."""
        return Settings(
            json=self.json or outer.json,
            config=self.config or outer.config,
            server=self.server or outer.server,
            verbose=self.verbose or outer.verbose,
            quiet=self.quiet or outer.quiet,
        )


class Context:
    """One call of a command. The configuration is read, and the app wired, on first use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock: Clock = SystemClock()
        self.progress = make_progress(settings)
        self.output = make_output(settings, self.progress)

    @cached_property
    def config_search(self) -> ConfigSearch:
        """The configuration file, or where it was looked for."""
        from lakesweep.config.search import find_config

        search = find_config(self.settings.config, os.environ, Path.cwd())
        for each in search.passed_over:
            self.output.say(str(each))
        self.output.detail(f"configuration: {search.path or f'none, looked for {search.places}'}")
        return search

    @property
    def config_file(self) -> Path | None:
        """The configuration file, or None."""
        return self.config_search.path

    @cached_property
    def config(self) -> Config:
        """The configuration; the defaults if there is no file."""
        from lakesweep.config.file import load_config

        return load_config(self.config_file, os.environ)

    @cached_property
    def app(self) -> App:
        """All components, wired by the configuration. UsageError if a service does the work."""
        from lakesweep.app import App

        if self.is_remote:
            raise only_local("this", self.settings)
        folder = self.config_file.parent if self.config_file else None
        return App(
            self.config,
            folder=folder,
            config_file=self.config_file,
            clock=self.clock,
            progress=self.progress,
            notify=self.output.say,
            inform=self.output.say,
            searched=None if self.config_file else self.config_search.places,
        )

    @property
    def is_remote(self) -> bool:
        """Whether a service does the work."""
        return self.settings.service_url is not None

    @cached_property
    def service(self) -> RemoteService:
        """The service that does the work."""
        from lakesweep.client.connection import ServiceAddress
        from lakesweep.client.service import RemoteService

        address = ServiceAddress(
            self.settings.service_url or "",
            os.environ.get(TOKEN_VARIABLE),
            os.environ.get(CA_VARIABLE) or None,
        )
        return RemoteService(address)

    def call(
        self,
        operation: Callable[Concatenate[App, P], Result],
        *given: P.args,
        **named: P.kwargs,
    ) -> Result:
        """Carry out an operation, here or through the service that was named."""
        if self.is_remote:
            result: Result = self.service.call(operation, *given, **named)
            return result
        return operation(self.app, *given, **named)

    @property
    def io(self) -> Interaction:
        """Where operations report: progress and notices on stderr."""
        if self.is_remote:
            return self.unrecorded_io
        heard = self.app.board.heard(self.output.say)
        return Interaction(self.app.progress, heard, self.settings.verbose)

    @property
    def unrecorded_io(self) -> Interaction:
        """The same without the store, for commands that also work with a wrong configuration."""
        return Interaction(self.progress, self.output.say, self.settings.verbose)

    def use_store(self, url: str) -> None:
        """Use another store than the configured one. Files are relative to the current folder.

        Call it before the first use of the app, which would be that of another store.
        """
        from lakesweep.store.backends.urls import anchored

        chosen = anchored(url, Path.cwd())
        if chosen == self.config.store.url:
            return
        assert "app" not in self.__dict__, "another store is in use already"
        store = self.config.store.model_copy(update={"url": chosen})
        self.config = self.config.model_copy(update={"store": store})

    def close(self) -> None:
        """Close what the command opened."""
        if "app" in self.__dict__:
            self.app.close()

    def write_page(self, place: str, page: str, about: Mapping[str, str]) -> None:
        """Write a page to a file, an address, or `-`; `about` says in JSON what it shows."""
        if place == "-":
            write(page.encode())
            return
        if "://" in place:
            from lakesweep.storage.address import parse

            address = parse(place)
            self.app.stores.open(address).write(address.key, page.encode())
        else:
            try:
                Path(place).write_text(page, encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{place} cannot be written: {error.strerror}") from error
        self.output.result({**about, "written": place})
        self.output.say(f"wrote {place}")

    def confirm(self, question: str, *, yes: bool, refused: str = "nothing was deleted") -> None:
        """Return if the user agrees now, or did with `--yes`; otherwise RefusedError.

        `refused` says what did not happen.
        """
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise RefusedError(
                "confirmation",
                f"there is no terminal to ask on; {refused}",
                hint="see what it would do with --dry-run, then add --yes",
            )
        sys.stderr.write(f"{printable(question)} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise RefusedError("confirmation", f"not confirmed; {refused}")


def only_local(command: str, settings: Settings) -> UsageError:
    """The error of a command that no service can do."""
    given = "--server" if settings.server else SERVER_VARIABLE
    again = f"leave {given} out" if settings.server else f"unset {given}"
    return UsageError(
        f"{command} works on this machine only, and {given} names a service",
        hint=f"{again}, and run it where the service runs",
    )


def make_progress(settings: Settings) -> Progress:
    """Bars on a terminal, lines elsewhere, nothing with `--quiet`."""
    if settings.quiet:
        return SILENT
    return BarProgress(sys.stderr) if sys.stderr.isatty() else LineProgress(sys.stderr)


def make_output(settings: Settings, progress: Progress) -> Output:
    """The output for people or for programs."""
    kind = JsonOutput if settings.json else ConsoleOutput
    return kind(progress, quiet=settings.quiet, verbose=settings.verbose)
