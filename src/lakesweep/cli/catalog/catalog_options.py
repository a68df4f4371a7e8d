"""Options of the catalog commands: catalog, names, properties, pages."""

from __future__ import annotations

from typing import Annotated

import typer

CatalogName = Annotated[
    str, typer.Argument(metavar="CATALOG", help="The name of a catalog.", show_default=False)
]
#: A catalog and the parts of a name behind it.
EntityName = Annotated[
    str,
    typer.Argument(
        metavar="CATALOG.NAME",
        help="A full name, such as shop.sales.orders. Quote parts that contain dots.",
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
        help="Set a property. Repeatable.",
    ),
]
Unset = Annotated[
    list[str] | None,
    typer.Option("--unset", metavar="KEY", help="Remove a property. Repeatable."),
]
Version = Annotated[
    int | None,
    typer.Option(
        "--version",
        metavar="N",
        help="Fail unless this is still the version that show prints.",
        show_default=False,
    ),
]
PageSize = Annotated[
    int | None,
    typer.Option(
        "--page-size",
        metavar="N",
        help="Show N, and a token for the next page.",
        show_default=False,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="TOKEN", help="Continue after an earlier page.", show_default=False
    ),
]
