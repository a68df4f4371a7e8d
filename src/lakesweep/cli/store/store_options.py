"""Options of the store commands: database, realm, reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from lakesweep.store import Realm, Store

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


def check_reference(name: str) -> None:
    """UsageError if no reference can have this name."""
    from lakesweep.store.backends.rows import MAX_NAME_BYTES

    try:
        fits = 1 <= len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise UsageError(
            f"{name[:50]!r} cannot be the name of a reference",
            hint=f"use text in UTF-8, of 1 to {MAX_NAME_BYTES:,} bytes",
        )


@dataclass(frozen=True)
class StoreChoice:
    """Which database."""

    url: StoreUrl = None

    def choose(self, context: Context) -> None:
        """Let the command use this database."""
        if self.url is not None:
            context.use_store(self.url)

    def open(self, context: Context) -> Store:
        """The store in it."""
        self.choose(context)
        return context.app.store


@dataclass(frozen=True)
class RealmChoice(StoreChoice):
    """Which database, and which realm in it."""

    realm: RealmName = None

    def open_realm(self, context: Context) -> Realm:
        """The realm, to look at and to mend; it may be inactive, or the system's own."""
        from lakesweep.store.realms.registry import RealmStatus
        from lakesweep.store.reserved_names import SYSTEM_REALM

        store = self.open(context)
        name = self.name(context)
        if name == SYSTEM_REALM:
            return store.system
        return store.realm_in(name, {RealmStatus.ACTIVE, RealmStatus.INACTIVE})

    def name(self, context: Context) -> str:
        """The name of the realm."""
        return context.config.store.realm if self.realm is None else self.realm
