"""Options of the store commands: database and realm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context

if TYPE_CHECKING:
    from lakesweep.app import App

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Use this database instead of [store] url: sqlite:///FILE, postgresql://…, "
        "mysql://…, mongodb://…, dynamodb://…, memory:",
        show_default=False,
    ),
]
RealmName = Annotated[
    str | None,
    typer.Option(
        "--realm",
        metavar="REALM",
        help="Use this realm instead of [store] realm; ::system:: is the system's own.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class StoreChoice:
    """Which database."""

    url: StoreUrl = None

    def app(self, context: Context) -> App:
        """The app, using this database."""
        if self.url is not None:
            context.use_store(self.url)
        return context.app


@dataclass(frozen=True)
class RealmChoice(StoreChoice):
    """Which database, and which realm in it."""

    realm: RealmName = None

    def name(self, context: Context) -> str:
        """The name of the realm."""
        return context.config.store.realm if self.realm is None else self.realm
