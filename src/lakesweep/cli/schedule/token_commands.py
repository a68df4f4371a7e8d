"""`lakesweep token`: who may use the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.render.text_table import TextTable
from lakesweep.errors import UsageError
from lakesweep.units import format_count, format_moment, parse_duration

if TYPE_CHECKING:
    from lakesweep.operations.catalogs.tokens import TokenView

_ROLES = "viewer, operator, approver or admin"

app = group(
    "token",
    "Tokens for the service: who may use it, and for how long.",
    examples=[
        "lakesweep token create ci --role operator --expires 30d",
        "lakesweep token list",
        "lakesweep token revoke ci",
    ],
)


@command(
    app,
    "create",
    remote=True,
    examples=[
        "lakesweep token create jane --role approver",
        "lakesweep token create ci --role operator --expires 30d --json",
    ],
)
def create(
    context: Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who uses it.")],
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help=f"What it allows: {_ROLES}.")
    ] = "viewer",
    expires: Annotated[
        str, typer.Option("--expires", metavar="DURATION", help="How long it is valid.")
    ] = "90d",
) -> None:
    """Create a token and print it, this once. Only its hash is stored.

    viewer reads; operator also plans, checks and runs schedules; approver also approves, applies,
    restores and empties; admin may do everything. The first token closes a service that was open
    to everyone on its machine.
    """
    from lakesweep.catalog.access.service_tokens import ServiceRole
    from lakesweep.operations.catalogs.tokens import CreateTokenRequest, create_token

    if role not in list(ServiceRole):
        raise UsageError(f"there is no role {role!r}", hint=f"the roles are {_ROLES}")
    request = CreateTokenRequest(name, ServiceRole(role), parse_duration(expires))
    made = context.call(create_token, request)
    context.output.result(made, TextTable(("token", made.text), _rows(made)))
    context.output.say("keep it now: it is not shown again")


@command(app, "list", remote=True, examples=["lakesweep token list", "lakesweep token list --json"])
def list_all(context: Context) -> None:
    """List all tokens, without their secrets; the newest first."""
    from lakesweep.operations.catalogs.tokens import list_tokens

    found = context.call(list_tokens)
    rows = [
        (each.token, each.name, each.role.value, each.state, format_moment(each.expires))
        for each in found.tokens
    ]
    columns = ("token", "name", "role", "state", "expires")
    context.output.result(found, TextTable(columns, rows))
    context.output.say(format_count(len(rows), "token"))


@command(app, "revoke", remote=True, examples=["lakesweep token revoke ci"])
def revoke(
    context: Context,
    name: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id or its name.")],
) -> None:
    """End a token at once, for all services over the store."""
    from lakesweep.operations.catalogs.tokens import revoke_token

    ended = context.call(revoke_token, name)
    context.output.result(ended, TextTable(("token", ended.token), _rows(ended)))


def _rows(token: TokenView) -> list[tuple[str, str]]:
    return [
        ("name", token.name),
        ("role", token.role.value),
        ("state", token.state),
        ("expires", format_moment(token.expires.replace(microsecond=0))),
    ]
