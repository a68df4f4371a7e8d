"""`lakesweep catalog namespace`, `table`, `view`, `generic-table` and `policy`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.catalog.catalog_options import (
    EntityName,
    PageSize,
    Properties,
    Token,
    Unset,
    Version,
    Within,
)
from lakesweep.cli.catalog.entity_kinds import KINDS, EntityCommands
from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes, parse_properties
from lakesweep.cli.render.catalog_lines import (
    entity_facts,
    entity_table,
    entity_text,
    mapping_text,
    policy_text,
)
from lakesweep.cli.store.store_options import RealmChoice

if TYPE_CHECKING:
    from lakesweep.operations.catalogs.views import EntityView


To = Annotated[
    str,
    typer.Argument(
        metavar="TO", help="Its new full name, in the same catalog.", show_default=False
    ),
]
PolicyTarget = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A catalog, or something in one.", show_default=False),
]


def add_entities(app: typer.Typer) -> None:
    """Add a group of commands for each kind of entity."""
    for kind in KINDS.values():
        start = f"lakesweep catalog {kind.name}"
        added = group(
            kind.name,
            f"{kind.title.capitalize()} of a catalog.",
            examples=[f"{start} list shop.sales"],
        )
        for make in (_create, _update, _list, _show, _rename, _drop):
            function, words, examples = make(kind)
            function.__doc__ = words
            name = make.__name__.strip("_")
            command(added, name, examples=[f"{start} {name} {each}" for each in examples])(function)
        if kind.name == "policy":
            add_mappings(added)
        app.add_typer(added)


#: A command, its help, and the arguments of its examples.
Made = tuple[Callable[..., None], str, Sequence[str]]


def _create(kind: EntityCommands) -> Made:
    def create(
        context: Context,
        name: EntityName,
        choice: RealmChoice,
        given: Any,
        properties: Properties = None,
    ) -> None:
        from lakesweep.catalog import EntityType
        from lakesweep.operations.catalogs.entities import CreateEntityRequest, create_entity

        request = CreateEntityRequest(
            name,
            EntityType(kind.name),
            kind.given(given),
            parse_properties(properties),
            kind.reads(given),
            choice.realm,
        )
        show_change(context, create_entity(choice.app(context), request))

    create.__annotations__["given"] = kind.options(creates=True)
    return create, kind.create, [kind.example]


def _update(kind: EntityCommands) -> Made:
    def update(
        context: Context,
        name: EntityName,
        choice: RealmChoice,
        given: Any,
        properties: Properties = None,
        unset: Unset = None,
        version: Version = None,
    ) -> None:
        from lakesweep.catalog import EntityType
        from lakesweep.operations.catalogs.entities import UpdateEntityRequest, update_entity

        request = UpdateEntityRequest(
            name,
            EntityType(kind.name),
            kind.given(given),
            parse_properties(properties),
            unset or (),
            version,
            kind.reads(given),
            choice.realm,
        )
        show_change(context, update_entity(choice.app(context), request))

    update.__annotations__["given"] = kind.options(creates=False)
    words = f"Change {kind.words}; everything not given stays."
    _, _, change = kind.example.partition(" ")
    return update, words, [f"shop.sales.NAME {change}", "shop.sales.NAME --unset owner --version 3"]


def _list(kind: EntityCommands) -> Made:
    def list_(
        context: Context,
        within: Within,
        choice: RealmChoice,
        page_size: PageSize = None,
        token: Token = None,
    ) -> None:
        from lakesweep.catalog import EntityType
        from lakesweep.operations.catalogs.entities import PageRequest, list_entities, page_entities

        app, type_ = choice.app(context), EntityType(kind.name)
        if page_size is None and token is None:
            context.output.structs(list_entities(app, within, type_, choice.realm), entity_text)
            return
        size = 100 if page_size is None else page_size
        page = page_entities(app, PageRequest(within, type_, size, token, choice.realm))
        context.output.result(page, entity_table(page.entities))
        if page.token:
            context.output.say(f"there are more: --page-size {size} --token {page.token}")

    words = f"""List the {kind.title} of a catalog or a namespace, by name.

    All pages of one listing show the same state, whatever changes meanwhile.
    """
    return list_, words, ["shop", "shop.sales --page-size 100 --json"]


def _show(kind: EntityCommands) -> Made:
    def show(context: Context, name: EntityName, choice: RealmChoice) -> None:
        from lakesweep.catalog import EntityType
        from lakesweep.operations.catalogs.entities import show_entity

        entity = show_entity(choice.app(context), name, EntityType(kind.name), choice.realm)
        context.output.result(entity, entity_facts(entity))

    return show, f"Show {kind.words}.", ["shop.sales.NAME"]


def _rename(kind: EntityCommands) -> Made:
    def rename(
        context: Context, name: EntityName, to: To, choice: RealmChoice, version: Version = None
    ) -> None:
        from lakesweep.catalog import EntityType
        from lakesweep.operations.catalogs.entities import RenameEntityRequest, rename_entity

        request = RenameEntityRequest(name, to, EntityType(kind.name), version, choice.realm)
        show_change(context, rename_entity(choice.app(context), request))

    words = f"Give {kind.words} another name, another namespace, or both.{kind.rename}"
    return rename, words, ["shop.sales.NAME shop.archive.NAME"]


def _drop(kind: EntityCommands) -> Made:
    def drop(
        context: Context,
        name: EntityName,
        choice: RealmChoice,
        version: Version = None,
        dry_run: DryRun = False,
        yes: Yes = False,
    ) -> None:
        from lakesweep.catalog import EntityType
        from lakesweep.operations.catalogs.entities import DropEntityRequest, drop_entity

        def confirm(preview: EntityView) -> None:
            if not dry_run:
                context.confirm(f"Drop {preview.kind.words} {name}?", yes=yes)

        request = DropEntityRequest(name, EntityType(kind.name), version, dry_run, choice.realm)
        show_change(context, drop_entity(choice.app(context), request, confirm))
        if dry_run:
            context.output.say("nothing was dropped; run the same with --yes")

    return drop, kind.drop, ["shop.sales.NAME --yes"]


def show_change(context: Context, entity: EntityView) -> None:
    """Print an entity and what became of it."""
    context.output.result(entity)
    status = str(entity.status).replace("-", " ")
    context.output.say(f"{entity.kind.words} {entity.name}: {status}")


def add_mappings(app: typer.Typer) -> None:
    """Add the commands that attach policies."""
    start = "lakesweep catalog policy"
    command(app, "attach", examples=[f"{start} attach shop.weekly shop.sales"])(attach)
    command(app, "detach", examples=[f"{start} detach shop.weekly shop.sales"])(detach)
    command(app, "attached", examples=[f"{start} attached shop.sales"])(attached)
    command(app, "applicable", examples=[f"{start} applicable shop.sales.orders"])(applicable)


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


def applicable(context: Context, target: PolicyTarget, choice: RealmChoice) -> None:
    """List the upkeep policies in force for a table, a namespace or a catalog.

    The nearest policy of each type counts: that of the table before those of its namespaces, and
    these before that of the catalog.
    """
    from lakesweep.operations.catalogs.entities import policies_in_force

    found = policies_in_force(choice.app(context), target, choice.realm)
    context.output.structs(found, policy_text)
