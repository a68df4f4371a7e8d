"""`lakesweep catalog policy attach`, `detach` and `attached`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.catalog_lines import MappingLine
from lakesweep.cli.catalog_options import (
    EntityName,
    full_name,
    open_catalogs,
    parse_properties,
    securable,
    split_entity,
)
from lakesweep.cli.context import Context
from lakesweep.cli.options import command
from lakesweep.cli.store_options import RealmChoice

if TYPE_CHECKING:
    from lakesweep.catalog import Catalogs
    from lakesweep.catalog.grants import Target
    from lakesweep.catalog.mappings import Mapping

PolicyTarget = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A catalog, or something in one.", show_default=False),
]


def add_mappings(app: typer.Typer) -> None:
    """Add the commands that say to what policies are attached."""

    def attach(
        context: Context,
        name: EntityName,
        target: PolicyTarget,
        choice: RealmChoice,
        parameters: Annotated[
            list[str] | None,
            typer.Option("--parameter", metavar="KEY=VALUE", help="What it is told there."),
        ] = None,
    ) -> None:
        """Attach a policy to a catalog, a namespace or a table; one of a type at most."""
        catalogs = open_catalogs(context, choice)
        policy, type_ = _policy(catalogs, name)
        place = securable(catalogs, target)
        changed = catalogs.mappings.attach(policy, type_, place, parse_properties(parameters))
        context.output.result({"policy": name, "target": target, "changed": changed})
        context.output.say(f"policy {name} is attached to {target}")

    def detach(
        context: Context, name: EntityName, target: PolicyTarget, choice: RealmChoice
    ) -> None:
        """Detach a policy from something."""
        catalogs = open_catalogs(context, choice)
        policy, _ = _policy(catalogs, name)
        changed = catalogs.mappings.detach(policy, securable(catalogs, target))
        context.output.result({"policy": name, "target": target, "changed": changed})
        context.output.say(f"policy {name} is {'detached' if changed else 'not attached there'}")

    def attached(context: Context, target: PolicyTarget, choice: RealmChoice) -> None:
        """The policies that are attached to something."""
        catalogs = open_catalogs(context, choice)
        found = catalogs.mappings.on(securable(catalogs, target).id)
        context.output.lines(_mapping(catalogs, target, mapping) for mapping in found)

    start = "lakesweep catalog policy"
    command(app, "attach", examples=[f"{start} attach shop.weekly shop.sales"])(attach)
    command(app, "detach", examples=[f"{start} detach shop.weekly shop.sales"])(detach)
    command(app, "attached", examples=[f"{start} attached shop.sales"])(attached)


def _policy(catalogs: Catalogs, text: str) -> tuple[Target, str]:
    from lakesweep.catalog import Kind, Policy
    from lakesweep.catalog.grants import target

    name, path = split_entity(text)
    catalog = catalogs.open(name)
    entity = catalog.snapshot(fresh=True).get(path, Kind.POLICY)
    assert isinstance(entity, Policy)
    return target(entity, catalog.id), entity.type


def _mapping(catalogs: Catalogs, place: str, mapping: Mapping) -> MappingLine:
    catalog = catalogs.open_id(mapping.policy.catalog)
    view = catalog.snapshot()
    found = view.entries.by_id(mapping.policy.id)
    name = str(mapping.policy.id)
    if found is not None:
        name = full_name(catalog.name, view.entries.path(mapping.policy.id))
    return MappingLine(name, mapping.type, place, dict(mapping.parameters))
