"""What the commands of catalogs share: which realm, which catalog, which name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.store_options import RealmChoice
from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from lakesweep.catalog import Catalog, Catalogs

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


def parse_properties(texts: list[str] | None) -> dict[str, str]:
    """Properties as they were given."""
    return dict(map(_parse_property, texts or ()))


def split_entity(text: str) -> tuple[str, tuple[str, ...]]:
    """The catalog and the path of a name."""
    from lakesweep.catalog.names import split

    catalog, *path = split(text)
    if not path:
        raise UsageError(
            f"{text!r} names a catalog only", hint=f"write {text}.NAME for something in it"
        )
    return catalog, tuple(path)


def full_name(catalog: str, path: tuple[str, ...]) -> str:
    """A name behind its catalog, as people write it."""
    from lakesweep.catalog.names import join

    return join((catalog, *path))


def open_catalogs(context: Context, choice: RealmChoice) -> Catalogs:
    """What a realm holds; it must be active."""
    from lakesweep.catalog import Catalogs

    return Catalogs(choice.open(context).realm(choice.name(context)))


def open_entity(
    context: Context, choice: RealmChoice, text: str
) -> tuple[Catalog, tuple[str, ...]]:
    """The catalog of a name, and the path in it."""
    catalog, path = split_entity(text)
    return open_catalogs(context, choice).open(catalog), path


def _parse_property(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not (key and separator):
        raise UsageError(f"{text!r} is no property", hint="write --property KEY=VALUE")
    return key, value
