"""`lakesweep catalog`: the group, and create, list, show, update, drop, purge and find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.catalog import access, changes, dropped, entities
from lakesweep.cli.catalog.catalog_options import CatalogName, Properties, Unset, Version
from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes, parse_properties
from lakesweep.cli.render.catalog_lines import catalog_table, entity_facts, entity_text
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.units import format_moment, parse_duration

if TYPE_CHECKING:
    from lakesweep.operations.catalogs.catalogs import CatalogPreview, RemovedCatalog

Location = Annotated[
    str | None,
    typer.Option(
        "--location", metavar="ADDRESS", help="The location of its tables.", show_default=False
    ),
]
KeepDropped = Annotated[
    str,
    typer.Option(
        "--keep-dropped",
        metavar="DURATION",
        help="How long dropped tables keep their files: 12h, 7d.",
    ),
]
AllowOverlaps = Annotated[
    bool,
    typer.Option("--allow-overlaps", help="Let tables share locations; rarely a good idea."),
]

app = group(
    "catalog",
    "Catalogs: the namespaces, tables, views and policies of a realm, and who may use them.",
    examples=[
        "lakesweep catalog create shop --location s3://lake/shop",
        "lakesweep catalog namespace create shop.sales",
        "lakesweep catalog table create shop.sales.orders --metadata s3://lake/…/3.metadata.json",
        "lakesweep catalog table list shop.sales",
    ],
)


@command(
    app,
    "create",
    examples=[
        "lakesweep catalog create shop --location s3://lake/shop",
        "lakesweep catalog create shop --keep-dropped 30d --property owner=jane",
    ],
)
def create(
    context: Context,
    name: CatalogName,
    choice: RealmChoice,
    location: Location = None,
    properties: Properties = None,
    keep_dropped: KeepDropped = "7d",
    allow_overlaps: AllowOverlaps = False,
) -> None:
    """Create a catalog.

    Tables dropped from it keep their files for a while, as roots of a sweep.
    """
    from lakesweep.operations.catalogs.catalogs import CreateCatalogRequest, create_catalog

    request = CreateCatalogRequest(
        name,
        location,
        parse_properties(properties),
        parse_duration(keep_dropped),
        allow_overlaps,
        choice.realm,
    )
    context.output.result(create_catalog(choice.app(context), request))
    context.output.say(f"catalog {name} is active")


@command(app, "list", examples=["lakesweep catalog list", "lakesweep catalog list --json"])
def list_(context: Context, choice: RealmChoice) -> None:
    """List all catalogs, also those that are being purged."""
    from lakesweep.operations.catalogs.catalogs import list_catalogs

    found = list_catalogs(choice.app(context), choice.realm)
    context.output.result(found, catalog_table(found.catalogs))


@command(
    app, "show", examples=["lakesweep catalog show shop", "lakesweep catalog show shop --json"]
)
def show(context: Context, name: CatalogName, choice: RealmChoice) -> None:
    """Show the settings of a catalog, and how much it holds."""
    from lakesweep.operations.catalogs.catalogs import show_catalog

    catalog = show_catalog(choice.app(context), name, choice.realm)
    context.output.result(catalog, entity_facts(catalog))


@command(
    app,
    "update",
    examples=[
        "lakesweep catalog update shop --keep-dropped 30d",
        "lakesweep catalog update shop --property owner=jane --unset team --version 2",
    ],
)
def update(
    context: Context,
    name: CatalogName,
    choice: RealmChoice,
    location: Location = None,
    properties: Properties = None,
    unset: Unset = None,
    keep_dropped: Annotated[
        str | None,
        typer.Option(
            "--keep-dropped",
            metavar="DURATION",
            help="How long dropped tables keep their files, also those dropped before.",
            show_default=False,
        ),
    ] = None,
    allow_overlaps: Annotated[
        bool | None,
        typer.Option(
            "--allow-overlaps/--refuse-overlaps",
            help="Whether tables may share locations from now on.",
            show_default=False,
        ),
    ] = None,
    version: Version = None,
) -> None:
    """Change the properties and settings of a catalog; everything not given stays."""
    from lakesweep.operations.catalogs.catalogs import UpdateCatalogRequest, update_catalog

    request = UpdateCatalogRequest(
        name,
        location,
        parse_properties(properties),
        unset or (),
        None if keep_dropped is None else parse_duration(keep_dropped),
        allow_overlaps,
        version,
        choice.realm,
    )
    catalog = update_catalog(choice.app(context), request)
    context.output.result(catalog)
    context.output.say(f"catalog {name}: {catalog.status}")


@command(
    app,
    "drop",
    examples=["lakesweep catalog drop shop --dry-run", "lakesweep catalog drop shop --yes"],
)
def drop(
    context: Context,
    name: CatalogName,
    choice: RealmChoice,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Drop an empty catalog."""
    from lakesweep.operations.catalogs.catalogs import RemoveCatalogRequest, drop_catalog

    def confirm(_: CatalogPreview) -> None:
        if not dry_run:
            context.confirm(f"Drop catalog {name}?", yes=yes)

    request = RemoveCatalogRequest(name, dry_run, choice.realm)
    _show_removed(context, drop_catalog(choice.app(context), request, confirm))


@command(
    app,
    "purge",
    examples=["lakesweep catalog purge shop --dry-run", "lakesweep catalog purge shop --yes"],
)
def purge(
    context: Context,
    name: CatalogName,
    choice: RealmChoice,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Drop a catalog with everything in it. This cannot be undone.

    Its name is free at once. Its tables keep their files until the retention of dropped tables has
    passed; then maintenance removes it, and a sweep finds the files. No file is deleted here.
    """
    from lakesweep.operations.catalogs.catalogs import RemoveCatalogRequest, purge_catalog

    def confirm(preview: CatalogPreview) -> None:
        noun = "entry" if preview.entities == 1 else "entries"
        found = f"{preview.entities:,} {noun}, {preview.dropped:,} dropped before"
        context.output.say(f"catalog {name}: {found}")
        if not dry_run:
            context.confirm(f"Drop catalog {name} with everything in it?", yes=yes)

    request = RemoveCatalogRequest(name, dry_run, choice.realm)
    _show_removed(context, purge_catalog(choice.app(context), request, confirm))


@command(
    app,
    "find",
    examples=[
        "lakesweep catalog find shop s3://lake/shop/orders",
        "lakesweep catalog find shop s3://lake/shop/orders/data/0001.parquet --json",
    ],
)
def find(
    context: Context,
    name: CatalogName,
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="A file or a folder.", show_default=False)
    ],
    choice: RealmChoice,
) -> None:
    """List the entities with files at, above or below an address."""
    from lakesweep.operations.catalogs.catalogs import find_at_address

    found = find_at_address(choice.app(context), name, address, choice.realm)
    context.output.structs(found, entity_text)


def _show_removed(context: Context, removed: RemovedCatalog) -> None:
    context.output.result(removed)
    name = removed.catalog
    if removed.dry_run:
        context.output.say("nothing was dropped; run the same with --yes in place of --dry-run")
    elif removed.ends is None:
        context.output.say(f"catalog {name} is gone")
    else:
        when = format_moment(removed.ends.replace(microsecond=0))
        context.output.say(f"catalog {name} is dropped; its tables keep their files until {when}")


changes.add_changes(app)
dropped.add_dropped(app)
entities.add_entities(app)
access.add_access(app)
