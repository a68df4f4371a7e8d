"""What the commands of catalogs share: which realm, which catalog, which name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.store_options import RealmChoice
from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from lakesweep.catalog import Catalog, Catalogs
    from lakesweep.catalog.grants import Target

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


def parse_properties(texts: list[str] | None) -> dict[str, str]:
    """Properties as they were given."""
    return dict(map(_parse_property, texts or ()))


def change_properties(
    before: Mapping[str, str], texts: list[str] | None, unset: list[str] | None
) -> dict[str, str]:
    """Properties after some were given, and others are to be forgotten."""
    gone = set(unset or ())
    return {key: value for key, value in before.items() if key not in gone} | parse_properties(
        texts
    )


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


def securable(catalogs: Catalogs, text: str) -> Target:
    """A catalog, or something in one, as an end of a grant or mapping."""
    from lakesweep.catalog.grants import target
    from lakesweep.catalog.names import split

    top, *path = split(text)
    catalog = catalogs.open(top)
    if not path:
        return target(catalog.definition)
    return target(catalog.snapshot(fresh=True).get(tuple(path)), catalog.id)


def _parse_property(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not (key and separator):
        raise UsageError(f"{text!r} is no property", hint="write --property KEY=VALUE")
    return key, value
