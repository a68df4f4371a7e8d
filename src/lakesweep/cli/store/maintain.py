"""`lakesweep store maintain`: delete what nothing in the store references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes
from lakesweep.cli.render.outcome_tables import dry_run_hint
from lakesweep.cli.render.record_lines import MaintenanceLine
from lakesweep.cli.store.store_options import StoreChoice
from lakesweep.errors import IncompleteError
from lakesweep.operations.interaction import EngineName
from lakesweep.units import format_count, format_duration

if TYPE_CHECKING:
    from lakesweep.operations.store.store import MaintenancePreview, MaintenanceView


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
        typer.Option(help="Work in this process, or on Spark as configured."),
    ] = EngineName.LOCAL,
    realm: Annotated[
        list[str] | None,
        typer.Option(
            "--realm",
            metavar="REALM",
            help="Clean this realm, and none that is not named. Repeatable.",
            show_default=False,
        ),
    ] = None,
    purge_realm: Annotated[
        list[str] | None,
        typer.Option(
            "--purge-realm",
            metavar="REALM",
            help="Purge this realm, which must be purging, and none that is not named. Repeatable.",
            show_default=False,
        ),
    ] = None,
    no_system_realm: Annotated[
        bool, typer.Option("--no-system-realm", help="Leave the system's own realm alone.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete what the store no longer references.

    That is: commits beyond the retention in [maintenance], objects that only they reference,
    leftovers of interrupted writes, references of dropped catalogs, and realms that are being
    purged. Rows younger than the grace time are kept. A run that died is continued.
    """
    from lakesweep.operations.store.store import MaintainStoreRequest, maintain_store

    def confirm(preview: MaintenancePreview) -> None:
        context.output.say(_describe(preview))
        if not dry_run:
            context.confirm("Delete what nothing references?", yes=yes)

    request = MaintainStoreRequest(
        supersede,
        engine,
        dry_run,
        tuple(realm or ()),
        tuple(purge_realm or ()),
        system_realm=not no_system_realm,
    )
    run = choice.call(context, maintain_store, request, confirm, choice.io(context))
    _show(context, run)
    if not run.success:
        raise typer.Exit(IncompleteError.exit_code)


def _describe(preview: MaintenancePreview) -> str:
    words = [f"{format_count(len(preview.realms_to_process), 'realm')} to clean"]
    if preview.realms_to_purge:
        words.append(f"to purge: {', '.join(preview.realms_to_purge)}")
    return "; ".join([*words, f"rows of the last {format_duration(preview.grace)} are kept"])


def _show(context: Context, run: MaintenanceView) -> None:
    line = MaintenanceLine(run)
    context.output.result(run, line.table())
    for realm in run.realms_purged:
        context.output.say(f"realm {realm} is purged; next: lakesweep realm delete {realm}")
    for problem in run.detailed_information.splitlines():
        context.output.say(problem)
    if run.dry_run:
        context.output.say(dry_run_hint())
    else:
        context.output.say(line.words())
