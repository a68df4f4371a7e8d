"""`lakesweep catalog namespace`, `table`, `view`, `generic-table` and `policy`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.catalog_lines import EntityLine, MappingLine, entity_table
from lakesweep.cli.catalog_options import (
    EntityName,
    Properties,
    Within,
    full_name,
    open_catalogs,
    open_entity,
    parse_properties,
    split_entity,
)
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes, command, group
from lakesweep.cli.store_options import RealmChoice
from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from lakesweep.catalog import Catalog, Catalogs, Entity, TableMemo
    from lakesweep.catalog.grants import Target
    from lakesweep.catalog.mappings import Mapping

#: The kinds of entities, and what each is called in words.
_WORDS = {
    "namespace": "a namespace",
    "table": "an Iceberg table",
    "view": "an Iceberg view",
    "generic-table": "a table of another format",
    "policy": "a policy",
}
_PLURALS = {**{kind: f"{kind.replace('-', ' ')}s" for kind in _WORDS}, "policy": "policies"}

Metadata = Annotated[
    str,
    typer.Option(
        "--metadata",
        metavar="ADDRESS",
        help="Its newest metadata file, such as s3://lake/t/metadata/00003-….metadata.json",
        show_default=False,
    ),
]
Description = Annotated[
    str, typer.Option("--description", metavar="TEXT", help="What it is good for.")
]
Unread = Annotated[
    bool, typer.Option("--unread", help="Believe the address, and do not read the file.")
]
OptionalLocation = Annotated[
    str | None,
    typer.Option("--location", metavar="ADDRESS", help="Where its files lie.", show_default=False),
]
Version = Annotated[
    int | None,
    typer.Option(
        "--version",
        metavar="N",
        help="Only if it still has this version, as show tells it.",
        show_default=False,
    ),
]
PageSize = Annotated[
    int | None,
    typer.Option(
        "--page-size",
        metavar="N",
        help="Give so many, and a token for the next ones.",
        show_default=False,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="TOKEN", help="Go on behind an earlier page.", show_default=False
    ),
]
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
    for kind in _WORDS:
        added = group(
            kind,
            f"{_PLURALS[kind].capitalize()} of a catalog.",
            examples=[f"lakesweep catalog {kind} list shop.sales"],
        )
        _CREATE[kind](added)
        _add_list(added, kind)
        _add_show(added, kind)
        _add_rename(added, kind)
        _add_drop(added, kind)
        if kind == "policy":
            _add_mappings(added)
        app.add_typer(added)


def _add_list(app: typer.Typer, kind: str) -> None:
    def list_(
        context: Context,
        within: Within,
        choice: RealmChoice,
        page_size: PageSize = None,
        token: Token = None,
    ) -> None:
        from lakesweep.catalog import Kind
        from lakesweep.catalog.names import split

        top, *path = split(within)
        catalog = open_catalogs(context, choice).open(top)
        place = tuple(path)
        if page_size is None and token is None:
            context.output.lines(_listed(catalog, place, Kind(kind)))
            return
        page = catalog.list(
            place, [Kind(kind)], size=100 if page_size is None else page_size, token=token
        )
        lines = [_line(catalog, (*place, entity.name), entity) for entity in page.items]
        document = {"entities": [line.document() for line in lines], "token": page.token}
        context.output.result(document, entity_table(lines))
        if page.token:
            context.output.say(f"there are more: --page-size {page_size} --token {page.token}")

    list_.__doc__ = f"""The {_PLURALS[kind]} of a catalog or a namespace, by name.

    All pages of one listing show one state, whatever is changed meanwhile.
    """
    examples = [
        f"lakesweep catalog {kind} list shop",
        f"lakesweep catalog {kind} list shop.sales --page-size 100 --json",
    ]
    command(app, "list", examples=examples)(list_)


def _add_show(app: typer.Typer, kind: str) -> None:
    def show(context: Context, name: EntityName, choice: RealmChoice) -> None:
        from lakesweep.catalog import Kind

        catalog, path = open_entity(context, choice, name)
        entity = catalog.snapshot(fresh=True).get(path, Kind(kind))
        line = _line(catalog, path, entity)
        memo = _memo(catalog, entity)
        context.output.result({**line.document(), **memo}, line.table(memo))

    show.__doc__ = f"What is known of {_WORDS[kind]}."
    examples = [f"lakesweep catalog {kind} show shop.sales.NAME"]
    command(app, "show", examples=examples)(show)


def _add_rename(app: typer.Typer, kind: str) -> None:
    def rename(
        context: Context, name: EntityName, to: To, choice: RealmChoice, version: Version = None
    ) -> None:
        from lakesweep.catalog import Kind, Rename

        catalog, path = open_entity(context, choice, name)
        other, new = split_entity(to)
        if other != catalog.name:
            raise UsageError(
                f"{to} is in another catalog", hint=f"name a place in catalog {catalog.name}"
            )
        outcome = catalog.apply([Rename(path, new, version, Kind(kind))])
        _tell(context, catalog, new, outcome.results[0].entity, outcome.results[0].status)

    more = "\n\n    All that lies in it goes along." if kind == "namespace" else ""
    rename.__doc__ = f"Give {_WORDS[kind]} another name, another place, or both.{more}"
    examples = [f"lakesweep catalog {kind} rename shop.sales.NAME shop.archive.NAME"]
    command(app, "rename", examples=examples)(rename)


def _add_drop(app: typer.Typer, kind: str) -> None:
    def drop(
        context: Context,
        name: EntityName,
        choice: RealmChoice,
        version: Version = None,
        dry_run: DryRun = False,
        yes: Yes = False,
    ) -> None:
        from lakesweep.catalog import Drop, Kind

        catalog, path = open_entity(context, choice, name)
        entity = catalog.snapshot(fresh=True).get(path, Kind(kind))
        status = "not-applied"
        if not dry_run:
            context.confirm(f"Drop {kind.replace('-', ' ')} {name}?", yes=yes)
            outcome = catalog.apply([Drop(path, version, Kind(kind))])
            status = outcome.results[0].status
        _tell(context, catalog, path, entity, status)
        if dry_run:
            context.output.say("nothing was dropped; run the same with --yes")

    drop.__doc__ = {
        "namespace": "Drop a namespace in which nothing is left.",
        "policy": "Drop a policy; what it is attached to is left without it.",
    }.get(
        kind,
        f"""Take {_WORDS[kind]} out of its catalog.

    No file is deleted: it goes on keeping its files for as long as the catalog keeps dropped
    tables. A sweep finds them after that.
    """,
    )
    examples = [f"lakesweep catalog {kind} drop shop.sales.NAME --yes"]
    command(app, "drop", examples=examples)(drop)


def _add_create_namespace(app: typer.Typer) -> None:
    def create(
        context: Context,
        name: EntityName,
        choice: RealmChoice,
        location: OptionalLocation = None,
        properties: Properties = None,
    ) -> None:
        """Create a namespace."""
        from lakesweep.catalog import Namespace

        what = Namespace(location=location, properties=parse_properties(properties))
        _create(context, choice, name, what)

    examples = ["lakesweep catalog namespace create shop.sales --property owner=jane"]
    command(app, "create", examples=examples)(create)


def _add_create_generic_table(app: typer.Typer) -> None:
    def create(
        context: Context,
        name: EntityName,
        choice: RealmChoice,
        format_: Annotated[
            str,
            typer.Option("--format", metavar="FORMAT", help="delta, hudi, csv and so on."),
        ],
        location: Annotated[
            str, typer.Option("--location", metavar="ADDRESS", help="Where its files lie.")
        ],
        description: Description = "",
        properties: Properties = None,
    ) -> None:
        """Enter a table of another format; a sweep leaves all below its location alone."""
        from lakesweep.catalog import GenericTable

        what = GenericTable(
            format=format_,
            location=location,
            description=description,
            properties=parse_properties(properties),
        )
        _create(context, choice, name, what)

    examples = [
        "lakesweep catalog generic-table create shop.raw --format csv --location s3://lake/raw"
    ]
    command(app, "create", examples=examples)(create)


def _add_create_policy(app: typer.Typer) -> None:
    def create(
        context: Context,
        name: EntityName,
        choice: RealmChoice,
        type_: Annotated[
            str, typer.Option("--type", metavar="TYPE", help="What kind of rule it is.")
        ],
        content: Annotated[
            str, typer.Option("--content", metavar="TEXT", help="The rule itself.")
        ] = "",
        file: Annotated[
            Path | None,
            typer.Option("--file", metavar="FILE", help="Read the rule from a file."),
        ] = None,
        description: Description = "",
    ) -> None:
        """Create a policy."""
        from lakesweep.catalog import Policy

        text = content if file is None else _read_text(file)
        _create(context, choice, name, Policy(type=type_, content=text, description=description))

    examples = [
        "lakesweep catalog policy create shop.weekly --type retention --content 'keep: 7d'",
        "lakesweep catalog policy create shop.weekly --type retention --file weekly.json",
    ]
    command(app, "create", examples=examples)(create)


def _add_create_iceberg(kind: str) -> Callable[[typer.Typer], None]:
    """The commands that enter a table or view by its metadata file, or follow it to a new one."""
    is_view = kind == "view"

    def create(
        context: Context,
        name: EntityName,
        choice: RealmChoice,
        metadata: Metadata,
        location: OptionalLocation = None,
        unread: Unread = False,
        properties: Properties = None,
    ) -> None:
        from lakesweep.catalog import Table, View

        memo = None if unread else _read(context, metadata, view=is_view)
        what = (View if is_view else Table)(
            metadata_location=metadata,
            location=location or (memo.location if memo else None),
            properties=parse_properties(properties),
        )
        _create(context, choice, name, what, memo)

    def update(
        context: Context,
        name: EntityName,
        choice: RealmChoice,
        metadata: Metadata,
        location: OptionalLocation = None,
        unread: Unread = False,
        version: Version = None,
    ) -> None:
        import msgspec

        from lakesweep.catalog import Kind, Update

        catalog, path = open_entity(context, choice, name)
        before = catalog.snapshot(fresh=True).get(path, Kind(kind))
        memo = None if unread else _read(context, metadata, view=is_view)
        where = location or (memo.location if memo else getattr(before, "location", None))
        what = msgspec.structs.replace(before, metadata_location=metadata, location=where)
        is_same = getattr(before, "metadata_location", None) == metadata
        change = Update(path, what, version, None if is_same else memo)
        outcome = catalog.apply([change])
        _tell(context, catalog, path, outcome.results[0].entity, outcome.results[0].status)

    create.__doc__ = f"""Enter {_WORDS[kind]} by its metadata file.

    The file is read, so that a wrong address is found out here; --unread leaves that out.
    """
    update.__doc__ = f"Let {_WORDS[kind]} have a newer metadata file."

    def add(app: typer.Typer) -> None:
        address = "s3://lake/orders/metadata/00001.metadata.json"
        start = f"lakesweep catalog {kind}"
        made = [f"{start} create shop.sales.orders --metadata {address}"]
        changed = [f"{start} update shop.sales.orders --metadata {address} --version 1"]
        command(app, "create", examples=made)(create)
        command(app, "update", examples=changed)(update)

    return add


def _add_mappings(app: typer.Typer) -> None:
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


def securable(catalogs: Catalogs, text: str) -> Target:
    """A catalog, or something in one, as an end of a grant or mapping."""
    from lakesweep.catalog.grants import target
    from lakesweep.catalog.names import split

    top, *path = split(text)
    catalog = catalogs.open(top)
    if not path:
        return target(catalog.definition)
    return target(catalog.snapshot(fresh=True).get(tuple(path)), catalog.id)


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


def _create(
    context: Context, choice: RealmChoice, name: str, what: Entity, memo: TableMemo | None = None
) -> None:
    from lakesweep.catalog import Create

    catalog, path = open_entity(context, choice, name)
    outcome = catalog.apply([Create(path, what, memo)])
    _tell(context, catalog, path, outcome.results[0].entity, outcome.results[0].status)


def _tell(
    context: Context, catalog: Catalog, path: tuple[str, ...], entity: Entity | None, status: str
) -> None:
    assert entity is not None
    line = _line(catalog, path, entity)
    context.output.result({**line.document(), "status": status})
    context.output.say(f"{line.kind.replace('-', ' ')} {line.name}: {status.replace('-', ' ')}")


def _listed(catalog: Catalog, place: tuple[str, ...], kind: str) -> Iterator[EntityLine]:
    token: str | None = None
    while True:
        from lakesweep.catalog import Kind

        page = catalog.list(place, [Kind(kind)], size=1000, token=token)
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


def _read(context: Context, metadata: str, *, view: bool) -> TableMemo:
    from lakesweep.catalog.memos import read_memo

    return read_memo(context.app.stores, metadata, view=view)


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


_CREATE: dict[str, Callable[[typer.Typer], None]] = {
    "namespace": _add_create_namespace,
    "table": _add_create_iceberg("table"),
    "view": _add_create_iceberg("view"),
    "generic-table": _add_create_generic_table,
    "policy": _add_create_policy,
}
