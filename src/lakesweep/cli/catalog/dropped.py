"""`lakesweep catalog dropped` and `undrop`: list and restore dropped tables."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.catalog.catalog_options import CatalogName, EntityName
from lakesweep.cli.catalog.entities import show_change
from lakesweep.cli.commands import command
from lakesweep.cli.context import Context
from lakesweep.cli.render.catalog_lines import dropped_text
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.errors import UsageError

As = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="CATALOG.NAME", help="Restore it under this name.", show_default=False
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="ID", help="Which one, if several had that name.", show_default=False
    ),
]


def add_dropped(app: typer.Typer) -> None:
    """Add the commands that list and restore what was dropped."""
    command(app, "dropped", examples=["lakesweep catalog dropped shop"])(dropped)
    examples = [
        "lakesweep catalog undrop shop.sales.orders",
        "lakesweep catalog undrop shop.sales.orders --as shop.archive.orders",
    ]
    command(app, "undrop", examples=examples)(undrop)


def dropped(context: Context, name: CatalogName, choice: RealmChoice) -> None:
    """List what was dropped from a catalog and still keeps its files, oldest first."""
    from lakesweep.operations.catalogs.catalogs import list_dropped

    context.output.structs(list_dropped(choice.app(context), name, choice.realm), dropped_text)


def undrop(
    context: Context,
    name: EntityName,
    choice: RealmChoice,
    to: As = None,
    number: Id = None,
) -> None:
    """Restore a dropped table or view that still keeps its files.

    It keeps its id, so its grants and policies hold again, unless maintenance has removed them.
    """
    from lakesweep.operations.catalogs.entities import UndropEntityRequest, undrop_entity

    request = UndropEntityRequest(name, to, _parse_id(number), choice.realm)
    show_change(context, undrop_entity(choice.app(context), request))


def _parse_id(text: str | None) -> int | None:
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    raise UsageError(f"{text!r} is not an id", hint="lakesweep catalog dropped CATALOG shows ids")
