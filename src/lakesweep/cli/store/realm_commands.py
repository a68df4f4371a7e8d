"""`lakesweep realm`: create, list, activate, deactivate, purge and delete realms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes, parse_properties
from lakesweep.cli.render.outcome_tables import dry_run_hint
from lakesweep.cli.render.record_lines import realm_table
from lakesweep.cli.render.text_table import TextTable
from lakesweep.cli.store.store_options import StoreChoice
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.operations.store.realms import RealmView, RemovedRealm

Name = Annotated[
    str,
    typer.Argument(metavar="REALM", help="1 to 128 letters, digits, _ and -", show_default=False),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="KEY=VALUE",
        help="A property of the realm. Repeatable.",
    ),
]

app = group(
    "realm",
    "Realms: the tenants of the store, each with its own data.",
    examples=[
        "lakesweep realm create acme",
        "lakesweep realm list",
        "lakesweep realm deactivate acme; lakesweep realm purge acme --now",
        "lakesweep realm delete acme",
    ],
)


@command(
    app,
    "create",
    remote=True,
    examples=[
        "lakesweep realm create acme",
        "lakesweep realm create acme --property owner=jane --property tier=gold",
    ],
)
def create(
    context: Context, name: Name, choice: StoreChoice, properties: Properties = None
) -> None:
    """Create a realm with its root, admin roles and first principal, and activate it.

    The secret of the principal is shown once and not stored. Repeating an interrupted creation
    finishes it.
    """
    from lakesweep.operations.store.realms import CreateRealmRequest, create_realm

    request = CreateRealmRequest(name, parse_properties(properties))
    realm = choice.call(context, create_realm, request)
    columns = ("principal", "client id", "secret")
    table = TextTable(columns, [(realm.principal, realm.client_id, realm.secret)])
    context.output.result(realm, table)
    context.output.say(f"realm {realm.name} is {realm.status}; keep the secret, it is not stored")


@command(app, "list", remote=True, examples=["lakesweep realm list", "lakesweep realm list --json"])
def list_(context: Context, choice: StoreChoice) -> None:
    """List all realms and their states.

    created → initializing or loading → active ⇄ inactive → purging → purged → deleted
    """
    from lakesweep.operations.store.realms import list_realms

    found = choice.call(context, list_realms)
    context.output.result(found, realm_table(found.realms))


@command(
    app,
    "show",
    remote=True,
    examples=["lakesweep realm show acme", "lakesweep realm show acme --json"],
)
def show(context: Context, name: Name, choice: StoreChoice) -> None:
    """Show the state, the properties and the number of references of a realm."""
    from lakesweep.operations.store.realms import show_realm

    realm = choice.call(context, show_realm, name)
    context.output.result(realm, realm_table([realm]))


@command(app, "activate", remote=True, examples=["lakesweep realm activate acme"])
def activate(context: Context, name: Name, choice: StoreChoice) -> None:
    """Make an inactive realm usable again."""
    from lakesweep.operations.store.realms import activate_realm

    _show(context, choice.call(context, activate_realm, name))


@command(app, "deactivate", remote=True, examples=["lakesweep realm deactivate acme"])
def deactivate(context: Context, name: Name, choice: StoreChoice) -> None:
    """Refuse all use of a realm, and keep its data.

    Processes that are using it notice within seconds.
    """
    from lakesweep.operations.store.realms import deactivate_realm

    _show(context, choice.call(context, deactivate_realm, name))


@command(
    app,
    "purge",
    remote=True,
    examples=["lakesweep realm purge acme --dry-run", "lakesweep realm purge acme --now --yes"],
)
def purge(
    context: Context,
    name: Name,
    choice: StoreChoice,
    now: Annotated[
        bool, typer.Option("--now", help="Delete now, as a maintenance run of its own.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Have everything in a realm deleted that is not active.

    The next maintenance run deletes it, or this command with --now. A purge cannot be undone once
    it has begun; repeating an interrupted one finishes it. The name stays taken until
    `lakesweep realm delete`.
    """
    from lakesweep.operations.store.realms import RemoveRealmRequest, purge_realm

    def confirm(preview: RemovedRealm) -> None:
        _preview(context, preview)
        if not dry_run:
            context.confirm(f"Delete everything in realm {name}?", yes=yes)

    request = RemoveRealmRequest(name, dry_run, now)
    result = choice.call(context, purge_realm, request, confirm, choice.io(context))
    _end(context, result, _after_purge(result))


@command(
    app,
    "delete",
    remote=True,
    examples=["lakesweep realm delete acme --dry-run", "lakesweep realm delete acme --yes"],
)
def delete(
    context: Context,
    name: Name,
    choice: StoreChoice,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete a purged realm, and free its name.

    Rows written after the purge are deleted too.
    """
    from lakesweep.operations.store.realms import RemoveRealmRequest, delete_realm

    def confirm(preview: RemovedRealm) -> None:
        _preview(context, preview)
        if not dry_run:
            context.confirm(f"Delete realm {name}?", yes=yes)

    request = RemoveRealmRequest(name, dry_run)
    result = choice.call(context, delete_realm, request, confirm, choice.io(context))
    _end(context, result, f"realm {name} is deleted")


def _after_purge(result: RemovedRealm) -> str:
    step = "realm delete" if result.status == "purged" else "store maintain"
    name = f" {result.realm}" if result.status == "purged" else ""
    return f"realm {result.realm} is {result.status}; next: lakesweep {step}{name}"


def _show(context: Context, realm: RealmView) -> None:
    context.output.result(realm)
    context.output.say(f"realm {realm.name} is {realm.status}")


def _preview(context: Context, found: RemovedRealm) -> None:
    size = f"{format_count(found.references, 'reference')}, {format_count(found.rows, 'row')}"
    context.output.say(f"realm {found.realm} is {found.status}: {size}")


def _end(context: Context, result: RemovedRealm, done: str) -> None:
    context.output.result(result)
    if result.dry_run:
        context.output.say(dry_run_hint())
    else:
        context.output.say(done)
