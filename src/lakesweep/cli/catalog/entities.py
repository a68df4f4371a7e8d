"""`lakesweep catalog namespace`, `table`, `view`, `generic-table` and `policy`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    change_properties,
    open_catalogs,
    open_entity,
)
from lakesweep.cli.catalog.entity_kinds import KINDS, EntityCommands
from lakesweep.cli.catalog.policy_mappings import add_mappings
from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes, parse_properties
from lakesweep.cli.render.catalog_lines import EntityLine, entity_table
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.errors import UsageError
from lakesweep.operations.catalog_names import full_name, path_within

if TYPE_CHECKING:
    from lakesweep.catalog import Catalog, Entity, TableMemo
    from lakesweep.catalog.mutations import Mutation

To = Annotated[
    str,
    typer.Argument(
        metavar="TO", help="Its new full name, in the same catalog.", show_default=False
    ),
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


#: A command, what it does in words, and what examples say behind its name.
Made = tuple[Callable[..., None], str, Sequence[str]]


def _create(kind: EntityCommands) -> Made:
    def create(
        context: Context,
        name: EntityName,
        choice: RealmChoice,
        given: Any,
        properties: Properties = None,
    ) -> None:
        from lakesweep.catalog import Create

        fields = kind.given(given)
        memo = _read_metadata(context, kind, given, fields)
        what = kind.make(fields, parse_properties(properties))
        catalog, path = open_entity(context, choice, name)
        apply(context, catalog, path, Create(path, what, memo))

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
        import msgspec

        from lakesweep.catalog import Update

        fields = kind.given(given)
        if not (fields or properties or unset):
            raise UsageError("nothing is to be changed", hint="say what; --help lists the options")
        catalog, path = open_entity(context, choice, name)
        before = _get(catalog, path, kind)
        is_same = fields.get("metadata_location") == getattr(before, "metadata_location", None)
        memo = _read_metadata(context, kind, given, fields)
        changed = change_properties(before.properties, properties, unset)
        what = msgspec.structs.replace(before, **fields, properties=changed)
        # What somebody else changed since it was read must not be lost.
        expected = before.version if version is None else version
        change = Update(path, what, expected, None if is_same else memo)
        apply(context, catalog, path, change)

    update.__annotations__["given"] = kind.options(creates=False)
    words = f"Change what is said of {kind.words}; what is not named stays as it is."
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
        from lakesweep.catalog.entity_names import split

        top, *path = split(within)
        catalog = open_catalogs(context, choice).open(top)
        place = tuple(path)
        if page_size is None and token is None:
            context.output.lines(_listed(catalog, place, kind))
            return
        size = 100 if page_size is None else page_size
        page = catalog.list(place, [EntityType(kind.name)], size=size, token=token)
        lines = [_line(catalog, (*place, entity.name), entity) for entity in page.items]
        document = {"entities": [line.document() for line in lines], "token": page.token}
        context.output.result(document, entity_table(lines))
        if page.token:
            context.output.say(f"there are more: --page-size {size} --token {page.token}")

    words = f"""The {kind.title} of a catalog or a namespace, by name.

    All pages of one listing show one state, whatever is changed meanwhile.
    """
    return list_, words, ["shop", "shop.sales --page-size 100 --json"]


def _show(kind: EntityCommands) -> Made:
    def show(context: Context, name: EntityName, choice: RealmChoice) -> None:
        catalog, path = open_entity(context, choice, name)
        entity = _get(catalog, path, kind)
        line = _line(catalog, path, entity)
        memo = _memo(catalog, entity)
        context.output.result({**line.document(), **memo}, line.table(memo))

    return show, f"What is known of {kind.words}.", ["shop.sales.NAME"]


def _rename(kind: EntityCommands) -> Made:
    def rename(
        context: Context, name: EntityName, to: To, choice: RealmChoice, version: Version = None
    ) -> None:
        from lakesweep.catalog import EntityType, Rename

        catalog, path = open_entity(context, choice, name)
        new = path_within(catalog, to)
        apply(context, catalog, new, Rename(path, new, version, EntityType(kind.name)))

    words = f"Give {kind.words} another name, another place, or both.{kind.rename}"
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
        from lakesweep.catalog import Drop, EntityType

        catalog, path = open_entity(context, choice, name)
        entity = _get(catalog, path, kind)
        if dry_run:
            _tell(context, catalog, path, entity, "not-applied")
            context.output.say("nothing was dropped; run the same with --yes")
            return
        context.confirm(f"Drop {kind.name.replace('-', ' ')} {name}?", yes=yes)
        apply(context, catalog, path, Drop(path, version, EntityType(kind.name)))

    return drop, kind.drop, ["shop.sales.NAME --yes"]


def apply(context: Context, catalog: Catalog, path: tuple[str, ...], mutation: Mutation) -> None:
    """Make one change, and tell what became of the entity, which then has this path."""
    (result,) = catalog.apply([mutation]).results
    assert result.entity is not None
    _tell(context, catalog, path, result.entity, result.status)


def _tell(
    context: Context, catalog: Catalog, path: tuple[str, ...], entity: Entity, status: str
) -> None:
    line = _line(catalog, path, entity)
    context.output.result({**line.document(), "status": status})
    context.output.say(f"{line.kind.replace('-', ' ')} {line.name}: {status.replace('-', ' ')}")


def _get(catalog: Catalog, path: tuple[str, ...], kind: EntityCommands) -> Entity:
    from lakesweep.catalog import EntityType

    return catalog.snapshot(fresh=True).get(path, EntityType(kind.name))


def _listed(catalog: Catalog, place: tuple[str, ...], kind: EntityCommands) -> Iterator[EntityLine]:
    from lakesweep.catalog import EntityType

    token: str | None = None
    while True:
        page = catalog.list(place, [EntityType(kind.name)], size=1000, token=token)
        yield from (_line(catalog, (*place, entity.name), entity) for entity in page.items)
        token = page.token
        if token is None:
            return


def _line(catalog: Catalog, path: tuple[str, ...], entity: Entity) -> EntityLine:
    return EntityLine.of(full_name(catalog.name, path), entity)


def _memo(catalog: Catalog, entity: Entity) -> dict[str, object]:
    """What the metadata file said when somebody read it."""
    from lakesweep.catalog import Table, View

    memo = catalog.memo(entity) if isinstance(entity, Table | View) else None
    if memo is None:
        return {}
    return {
        "uuid": memo.uuid,
        "format_version": memo.format_version,
        "snapshots": memo.snapshots,
        "gc_enabled": memo.gc_enabled,
    }


def _read_metadata(
    context: Context, kind: EntityCommands, given: Any, fields: dict[str, str]
) -> TableMemo | None:
    """What the metadata file says, if one is named; the table lies where it says, or is told."""
    from lakesweep.catalog.metadata_memo import read_memo

    metadata = fields.get("metadata_location")
    if metadata is None or given.unread:
        return None
    memo = read_memo(context.app.stores, metadata, view=kind.name == "view")
    fields.setdefault("location", memo.location)
    return memo
