"""`lakesweep webhooks`: addresses that the service tells what happens."""

from __future__ import annotations

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.render.text_table import TextTable
from lakesweep.errors import IncompleteError
from lakesweep.units import format_count

app = group(
    "webhooks",
    "Addresses that lakesweep serve notifies of events.",
    examples=["lakesweep webhooks list", "lakesweep webhooks test"],
)


@command(app, "list", examples=["lakesweep webhooks list", "lakesweep webhooks list --json"])
def list_all(context: Context) -> None:
    """List the webhooks of the configuration, and how many events wait for each."""
    from lakesweep.operations.webhooks.delivery import list_webhooks

    found = list_webhooks(context.app)
    rows = [(each.url, ", ".join(each.events), f"{each.waiting:,}", each.error) for each in found]
    columns = ("webhook", "events", "waiting", "last error")
    context.output.result(
        {"webhooks": found}, TextTable(columns, rows, numbers=frozenset({"waiting"}))
    )
    context.output.say(format_count(len(found), "webhook"))


@command(app, "test", examples=["lakesweep webhooks test"])
def test(context: Context) -> None:
    """Send a test event to each webhook; ends with code 4 if one does not take it."""
    from lakesweep.operations.webhooks.delivery import try_webhooks

    found = try_webhooks(context.app)
    rows = [(each.url, "delivered" if each.delivered else "failed", each.error) for each in found]
    context.output.result({"webhooks": found}, TextTable(("webhook", "", "why"), rows))
    if not all(each.delivered for each in found):
        raise typer.Exit(IncompleteError.exit_code)
