"""Options of the catalog commands: realm, catalog, names, properties, pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import parse_properties
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.operations.catalog_names import split_entity

if TYPE_CHECKING:
    from lakesweep.catalog import Catalog, Catalogs

CatalogName = Annotated[
    str, typer.Argument(metavar="CATALOG", help="The name of a catalog.", show_default=False)
]
#: A catalog and the parts of a name behind it.
EntityName = Annotated[
    str,
    typer.Argument(
        metavar="CATALOG.NAME",
        help="The name behind its catalog: shop.sales.orders. Parts with dots stand in quotes.",
        show_default=False,
    ),
]
Within = Annotated[
    str,
    typer.Argument(
        metavar="CATALOG[.NAMESPACE]", help="A catalog, or a namespace in it.", show_default=False
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="KEY=VALUE",
        help="Something to remember of it; may be given several times.",
    ),
]
Unset = Annotated[
    list[str] | None,
    typer.Option("--unset", metavar="KEY", help="Forget a property; may be given several times."),
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


def change_properties(
    before: Mapping[str, str], texts: list[str] | None, unset: list[str] | None
) -> dict[str, str]:
    """Properties after some were given, and others are to be forgotten."""
    gone = set(unset or ())
    return {key: value for key, value in before.items() if key not in gone} | parse_properties(
        texts
    )


def open_catalogs(context: Context, choice: RealmChoice) -> Catalogs:
    """What a realm holds; it must be active."""
    from lakesweep.catalog import Catalogs

    return Catalogs(choice.app(context).store.realm(choice.name(context)))


def open_entity(
    context: Context, choice: RealmChoice, text: str
) -> tuple[Catalog, tuple[str, ...]]:
    """The catalog of a name, and the path in it."""
    catalog, path = split_entity(text)
    return open_catalogs(context, choice).open(catalog), path
