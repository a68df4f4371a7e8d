"""Options of the store commands: database and realm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Concatenate, ParamSpec, TypeVar

import typer

from lakesweep.cli.context import Context
from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from lakesweep.app import App
    from lakesweep.operations.interaction import Interaction

P = ParamSpec("P")
Result = TypeVar("Result")

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

    def io(self, context: Context) -> Interaction:
        """Where operations on this database report: `context.io`, once it is chosen."""
        if not context.is_remote:
            self.app(context)
        return context.io

    def call(
        self,
        context: Context,
        operation: Callable[Concatenate[App, P], Result],
        *given: P.args,
        **named: P.kwargs,
    ) -> Result:
        """Carry out an operation, on this database or through a service."""
        if not context.is_remote:
            return operation(self.app(context), *given, **named)
        if self.url is not None:
            raise UsageError("a service has its own database", hint="leave --url or --server out")
        return context.call(operation, *given, **named)


@dataclass(frozen=True)
class RealmChoice(StoreChoice):
    """Which database, and which realm in it."""

    realm: RealmName = None

    def name(self, context: Context) -> str:
        """The name of the realm."""
        if context.is_remote:
            return self.realm or "REALM"
        return context.config.store.realm if self.realm is None else self.realm
