"""`lakesweep catalog`: the group, and create, list, show, update, drop, purge and find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.catalog import access, dropped, entities
from lakesweep.cli.catalog.catalog_options import (
    CatalogName,
    Properties,
    Unset,
    Version,
    change_properties,
    open_catalogs,
)
from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes, parse_properties
from lakesweep.cli.render.catalog_lines import EntityLine, catalog_table
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.operations.catalog_names import full_name
from lakesweep.units import format_count, format_duration, format_moment, parse_duration

if TYPE_CHECKING:
    from lakesweep.catalog import Catalog, Catalogs

Location = Annotated[
    str | None,
    typer.Option("--location", metavar="ADDRESS", help="Where its tables lie.", show_default=False),
]
KeepDropped = Annotated[
    str,
    typer.Option(
        "--keep-dropped",
        metavar="DURATION",
        help="For so long dropped tables still keep their files: 12h, 7d.",
    ),
]
AllowOverlaps = Annotated[
    bool,
    typer.Option(
        "--allow-overlaps", help="Let tables lie inside of each other's locations; rarely wise."
    ),
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

    Tables that are dropped from it keep their files for a while, as roots of a sweep.
    """
    catalog = open_catalogs(context, choice).create(
        name,
        location=location,
        properties=parse_properties(properties),
        keep_dropped=parse_duration(keep_dropped),
        allow_overlaps=allow_overlaps,
    )
    context.output.result(_line(catalog).document())
    context.output.say(f"catalog {name} is active")


@command(app, "list", examples=["lakesweep catalog list", "lakesweep catalog list --json"])
def list_(context: Context, choice: RealmChoice) -> None:
    """All catalogs, also those that are being purged."""
    lines = [_line(catalog) for catalog in open_catalogs(context, choice).every(fresh=True)]
    document = {"catalogs": [line.document() for line in lines]}
    context.output.result(document, catalog_table(lines))


@command(
    app, "show", examples=["lakesweep catalog show shop", "lakesweep catalog show shop --json"]
)
def show(context: Context, name: CatalogName, choice: RealmChoice) -> None:
    """One catalog: its settings, and how much is in it."""
    catalog = open_catalogs(context, choice).open(name)
    facts = {**_settings(catalog), **_count(catalog)}
    line = _line(catalog)
    words = {key.replace("_", " "): value for key, value in facts.items()}
    context.output.result({**line.document(), **facts}, line.table(words))


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
            help="For so long dropped tables still keep their files; also those dropped before.",
            show_default=False,
        ),
    ] = None,
    allow_overlaps: Annotated[
        bool | None,
        typer.Option(
            "--allow-overlaps/--refuse-overlaps",
            help="Whether tables may lie inside of each other's locations from now on.",
            show_default=False,
        ),
    ] = None,
    version: Version = None,
) -> None:
    """Change what is said of a catalog, and how it treats its tables; all else stays as it is."""
    catalogs = open_catalogs(context, choice)
    catalog = catalogs.open(name)
    kept = None if keep_dropped is None else parse_duration(keep_dropped)
    changed = change_properties(catalog.definition.properties, properties, unset)
    said = catalogs.update(catalog, location=location, properties=changed, version=version)
    configured = catalog.configure(keep_dropped=kept, allow_overlaps=allow_overlaps)
    status = "updated" if configured else said.value
    catalog = catalogs.open_id(catalog.id, fresh=True)
    context.output.result({**_line(catalog).document(), **_settings(catalog), "status": status})
    context.output.say(f"catalog {name}: {status}")


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
    """Drop a catalog in which nothing is left."""
    catalogs = open_catalogs(context, choice)
    catalog = catalogs.open(name)
    catalog.check_empty()
    if not dry_run:
        context.confirm(f"Drop catalog {name}?", yes=yes)
        catalog = catalogs.drop(name)
    _leave(context, catalogs, catalog, dry_run=dry_run)


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
    """Drop a catalog with everything that is in it. There is no way back.

    Its name is free at once. Its tables keep their files until the time for dropped tables has
    passed; then maintenance ends it, and a sweep finds the files. No file is deleted by this.
    """
    catalogs = open_catalogs(context, choice)
    catalog = catalogs.open(name)
    found = _count(catalog)
    dropped = found.pop("dropped")
    entities = format_count(sum(found.values()), "entry").replace("entrys", "entries")
    context.output.say(f"catalog {name}: {entities}, {dropped:,} dropped before")
    if not dry_run:
        context.confirm(f"Drop catalog {name} with all that is in it?", yes=yes)
        catalog = catalogs.purge(name)
    _leave(context, catalogs, catalog, dry_run=dry_run)


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
    """What lies at, above or below an address, by location."""
    catalog = open_catalogs(context, choice).open(name)
    found = catalog.at(address)
    context.output.lines(EntityLine.of(full_name(name, path), entity) for entity, path in found)


def _line(catalog: Catalog) -> EntityLine:
    return EntityLine.of(catalog.name, catalog.definition)


def _settings(catalog: Catalog) -> dict[str, object]:
    from datetime import timedelta

    head = catalog.snapshot(fresh=True).head
    return {
        "keep_dropped": format_duration(timedelta(seconds=head.keep_dropped_seconds)),
        "allow_overlaps": head.allow_overlaps,
    }


def _count(catalog: Catalog) -> dict[str, int]:
    """How many of each kind there are, and how many were dropped and keep their files."""
    from lakesweep.catalog.entities import CONTENT_KINDS

    view = catalog.snapshot(fresh=True)
    counts = dict.fromkeys((kind.value.replace("-", "_") for kind in sorted(CONTENT_KINDS)), 0)
    for _, found in view.all():
        counts[found.named.kind.value.replace("-", "_")] += 1
    return {**counts, "dropped": sum(1 for _ in view.dropped(catalog.now()))}


def _leave(context: Context, catalogs: Catalogs, catalog: Catalog, *, dry_run: bool) -> None:
    from lakesweep.timestamps import moment

    is_gone = not dry_run and catalogs.end(catalog)
    status = "gone" if is_gone else catalog.definition.status.value
    ends = None if dry_run or is_gone else moment(catalogs.ends_at(catalog))
    name = catalog.name
    document = {"catalog": name, "status": status, "ends": ends, "dry_run": dry_run}
    context.output.result(document)
    if dry_run:
        context.output.say("nothing was dropped; run the same with --yes in place of --dry-run")
    elif ends is None:
        context.output.say(f"catalog {name} is gone")
    else:
        when = format_moment(ends.replace(microsecond=0))
        context.output.say(f"catalog {name} is dropped; its tables keep their files until {when}")


dropped.add_dropped(app)
entities.add_entities(app)
access.add_access(app)
