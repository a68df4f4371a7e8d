"""`lakesweep serve`: the HTTP API and schedules, until stopped."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.errors import ConfigError, UnreachableError
from lakesweep.units import format_count


def serve(
    context: Context,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="Listen on this address; by default that of [server], or 127.0.0.1.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65_535,
            metavar="PORT",
            help="Listen on this port, 0 for any; by default that of [server], or 8080.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Jobs at once; by default those of [server].",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the HTTP API and run schedules: each due time once, each job as a process of its own.

    Any number of services may run over one store, on one machine or on several. SIGTERM or Ctrl-C
    stops a service; its running jobs continue, and other services start the ones that wait. On any
    address but loopback it starts only if callers must authenticate: lakesweep token create makes
    a token.
    """
    from lakesweep.operations.schedules.schedules import list_schedules

    try:
        from lakesweep.server import service
    except ImportError as error:
        raise ConfigError(
            f"the service needs the package {error.name}", hint="pip install 'lakesweep[server]'"
        ) from error

    app, section = context.app, context.config.server
    with suppress(UnreachableError):  # the service says so, and tries again
        app.prepare_store()
        count = len(list_schedules(app).schedules)
        context.output.say(f"serving {format_count(count, 'schedule')}")
    request = service.ServeRequest(
        host or section.host,
        section.port if port is None else port,
        workers or section.workers,
        context.config_file,
    )
    service.serve(app, request, context.output.say)
    context.output.say("stopped; jobs that run go on")
