"""`lakesweep catalog dropped` and `undrop`: list and restore dropped tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

import typer

from lakesweep.cli.catalog.catalog_options import (
    CatalogName,
    EntityName,
    open_catalogs,
    open_entity,
)
from lakesweep.cli.catalog.entities import apply
from lakesweep.cli.commands import command
from lakesweep.cli.context import Context
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.errors import UsageError
from lakesweep.operations.catalog_names import full_name, path_within
from lakesweep.units import format_moment

As = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="CATALOG.NAME", help="Bring it back under this name.", show_default=False
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="ID", help="Which one, if several had that name.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class DroppedLine:
    """Something that was dropped, and until when it keeps its files."""

    name: str
    kind: str
    id: str
    dropped: datetime
    until: datetime

    def text(self) -> str:
        until = format_moment(self.until.replace(microsecond=0))
        return f"{self.kind:<14}  {self.name}  {self.id}  until {until}"


def add_dropped(app: typer.Typer) -> None:
    """Add the commands that list what was dropped, and bring it back."""
    command(app, "dropped", examples=["lakesweep catalog dropped shop"])(dropped)
    examples = [
        "lakesweep catalog undrop shop.sales.orders",
        "lakesweep catalog undrop shop.sales.orders --as shop.archive.orders",
    ]
    command(app, "undrop", examples=examples)(undrop)


def dropped(context: Context, name: CatalogName, choice: RealmChoice) -> None:
    """What was dropped from a catalog and still keeps its files, oldest first."""
    from lakesweep.timestamps import moment

    catalog = open_catalogs(context, choice).open(name)
    view = catalog.snapshot(fresh=True)
    kept = timedelta(seconds=view.head.keep_dropped_seconds)
    context.output.lines(
        DroppedLine(
            full_name(name, each.path), each.kind.value, str(each.id), moment(at), moment(at) + kept
        )
        for at, each in view.dropped(catalog.now())
    )


def undrop(
    context: Context,
    name: EntityName,
    choice: RealmChoice,
    to: As = None,
    number: Id = None,
) -> None:
    """Bring a table or view back that was dropped and still keeps its files, as it was.

    It has the id that it had, so that grants and policies hold again that maintenance has not
    taken away meanwhile.
    """
    from lakesweep.catalog import Undrop

    catalog, path = open_entity(context, choice, name)
    new = path if to is None else path_within(catalog, to)
    apply(context, catalog, new, Undrop(path, new, _parse_id(number)))


def _parse_id(text: str | None) -> int | None:
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    raise UsageError(f"{text!r} is no id", hint="lakesweep catalog dropped CATALOG shows ids")
