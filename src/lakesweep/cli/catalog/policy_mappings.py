"""`lakesweep catalog policy attach`, `detach` and `attached`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.catalog.catalog_options import EntityName, open_catalogs
from lakesweep.cli.commands import command
from lakesweep.cli.context import Context
from lakesweep.cli.options import parse_properties
from lakesweep.cli.render.catalog_lines import MappingLine
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.operations.catalog_names import full_name, securable, split_entity

if TYPE_CHECKING:
    from lakesweep.catalog import Catalogs
    from lakesweep.catalog.grants import EntityRef
    from lakesweep.catalog.policy_mappings import PolicyMapping

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


def _policy(catalogs: Catalogs, text: str) -> tuple[EntityRef, str]:
    from lakesweep.catalog import CatalogPolicy, EntityType
    from lakesweep.catalog.grants import entity_ref

    name, path = split_entity(text)
    catalog = catalogs.open(name)
    entity = catalog.snapshot(fresh=True).get(path, EntityType.POLICY)
    assert isinstance(entity, CatalogPolicy)
    return entity_ref(entity, catalog.id), entity.type


def _mapping(catalogs: Catalogs, place: str, mapping: PolicyMapping) -> MappingLine:
    catalog = catalogs.open_id(mapping.policy.catalog)
    view = catalog.snapshot()
    found = view.entries.by_id(mapping.policy.id)
    name = str(mapping.policy.id)
    if found is not None:
        name = full_name(catalog.name, view.entries.path(mapping.policy.id))
    return MappingLine(name, mapping.type, place, dict(mapping.parameters))
