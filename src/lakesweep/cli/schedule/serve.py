"""`lakesweep serve`: run schedules until stopped."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from typing import Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.errors import UnreachableError
from lakesweep.units import format_count


def serve(
    context: Context,
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
    """Run schedules: claim each due time once, and start its job as a process of its own.

    Any number of services may run over one store, on one machine or on several. Jobs that run when
    a service ends go on, and another service starts what is left. SIGTERM or Ctrl-C ends it.
    """
    from lakesweep.operations.schedules.schedules import list_schedules
    from lakesweep.scheduler.service import SchedulerService

    app = context.app
    service = SchedulerService(
        app,
        None,
        workers or app.config.server.workers,
        context.config_file,
        context.output.say,
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with suppress(UnreachableError):  # the service says so, and tries again
        app.prepare_store()
        count = len(list_schedules(app).schedules)
        context.output.say(f"serving {format_count(count, 'schedule')} as {service.name}")
    service.run(stop)
    context.output.say("stopped; jobs that run go on")
