"""`lakesweep catalog policy attach`, `detach` and `attached`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.catalog.catalog_options import EntityName
from lakesweep.cli.commands import command
from lakesweep.cli.context import Context
from lakesweep.cli.options import parse_properties
from lakesweep.cli.render.catalog_lines import mapping_text
from lakesweep.cli.store.store_options import RealmChoice

PolicyTarget = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A catalog, or something in one.", show_default=False),
]


def add_mappings(app: typer.Typer) -> None:
    """Add the commands that attach policies."""
    start = "lakesweep catalog policy"
    command(app, "attach", examples=[f"{start} attach shop.weekly shop.sales"])(attach)
    command(app, "detach", examples=[f"{start} detach shop.weekly shop.sales"])(detach)
    command(app, "attached", examples=[f"{start} attached shop.sales"])(attached)


def attach(
    context: Context,
    name: EntityName,
    target: PolicyTarget,
    choice: RealmChoice,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", metavar="KEY=VALUE", help="A parameter for this target. Repeatable."
        ),
    ] = None,
) -> None:
    """Attach a policy to a catalog, a namespace or a table; at most one of each type."""
    from lakesweep.operations.catalogs.entities import PolicyMappingRequest, attach_policy

    request = PolicyMappingRequest(name, target, parse_properties(parameters), choice.realm)
    context.output.result(attach_policy(choice.app(context), request))
    context.output.say(f"policy {name} is attached to {target}")


def detach(context: Context, name: EntityName, target: PolicyTarget, choice: RealmChoice) -> None:
    """Detach a policy."""
    from lakesweep.operations.catalogs.entities import PolicyMappingRequest, detach_policy

    request = PolicyMappingRequest(name, target, realm=choice.realm)
    result = detach_policy(choice.app(context), request)
    context.output.result(result)
    context.output.say(f"policy {name} is {'detached' if result.changed else 'not attached there'}")


def attached(context: Context, target: PolicyTarget, choice: RealmChoice) -> None:
    """List the policies attached to something."""
    from lakesweep.operations.catalogs.entities import attached_policies

    found = attached_policies(choice.app(context), target, choice.realm)
    context.output.structs(found, mapping_text)
