"""`lakesweep store maintain`: delete what nothing in the store references."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes
from lakesweep.cli.render.run_lines import MaintenanceLine
from lakesweep.cli.store.store_options import StoreChoice
from lakesweep.errors import IncompleteError
from lakesweep.operations.interaction import EngineName
from lakesweep.units import format_count, format_duration

if TYPE_CHECKING:
    from lakesweep.maintenance.maintained_realms import MaintenanceRunSpec
    from lakesweep.maintenance.run_records import MaintenanceRunInformation


def maintain(
    context: Context,
    choice: StoreChoice,
    supersede: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Take over from this run at once; it stops as soon as it notices.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        EngineName,
        typer.Option(help="Scan rows in this process, or on Spark, as it is configured."),
    ] = EngineName.LOCAL,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete what the store holds and nothing leads to.

    Old commits beyond what [maintenance] keeps, objects that only they led to, what interrupted
    writes left behind, references of dropped catalogs, and all of the realms that are purging. What
    is younger than the grace time stays. A run that died is gone on with.
    """
    choice.choose(context)
    service = context.app.maintenance
    spec = service.build_spec()
    grace = format_duration(service.config.grace)
    context.output.say(f"{_intention(spec)}; what was written in the last {grace} stays")
    if not dry_run:
        context.confirm("Delete what nothing leads to?", yes=yes)
    with context.app.scan_engine(engine.value, verbose=context.settings.verbose) as scan:
        run = replace(service, engine=scan).perform(spec, supersede=supersede, dry_run=dry_run)
    _tell(context, run)
    if not run.success:
        raise typer.Exit(IncompleteError.exit_code)


def last_run(context: Context) -> MaintenanceLine | None:
    """The newest run, if there was one."""
    newest = next(context.app.maintenance_runs.list(), None)
    return None if newest is None else MaintenanceLine(newest)


def _intention(spec: MaintenanceRunSpec) -> str:
    words = [f"{format_count(len(spec.realms_to_process), 'realm')} to clean"]
    if spec.realms_to_purge:
        words.append(f"to purge: {', '.join(sorted(spec.realms_to_purge))}")
    return "; ".join(words)


def _tell(context: Context, run: MaintenanceRunInformation) -> None:
    line = MaintenanceLine(run)
    context.output.result(line.document(), line.table())
    for realm in run.realms_purged:
        context.output.say(f"realm {realm} is purged; lakesweep realm delete {realm} ends it")
    for problem in run.detailed_information.splitlines():
        context.output.say(problem)
    if run.is_dry_run:
        context.output.say("nothing was deleted; run the same with --yes in place of --dry-run")
    else:
        context.output.say(line.words())
