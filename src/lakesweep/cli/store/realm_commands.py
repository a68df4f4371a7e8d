"""`lakesweep realm`: create, list, activate, deactivate, purge and delete realms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes, parse_properties
from lakesweep.cli.render.store_lines import RealmLine, realm_table
from lakesweep.cli.store.store_options import StoreChoice
from lakesweep.errors import RefusedError
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.store import Store
    from lakesweep.store.realms.purge import RealmPurger, RealmSize
    from lakesweep.store.realms.registry import RealmDefinition, RealmStatus


Name = Annotated[
    str,
    typer.Argument(metavar="REALM", help="1 to 128 letters, digits, _ and -", show_default=False),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="KEY=VALUE",
        help="Something to remember of the realm; may be given several times.",
    ),
]

app = group(
    "realm",
    "Realms: the tenants of the store. Each has data of its own.",
    examples=[
        "lakesweep realm create acme",
        "lakesweep realm list",
        "lakesweep realm deactivate acme; lakesweep realm purge acme; lakesweep realm delete acme",
    ],
)


@command(
    app,
    "create",
    examples=[
        "lakesweep realm create acme",
        "lakesweep realm create acme --property owner=jane --property tier=gold",
    ],
)
def create(
    context: Context, name: Name, choice: StoreChoice, properties: Properties = None
) -> None:
    """Create a realm and make it active.

    A creation that was interrupted is finished when it is repeated.
    """
    store = choice.open(context)
    store.create_realm(name, parse_properties(properties))
    _show(context, store.realms.get(name))


@command(app, "list", examples=["lakesweep realm list", "lakesweep realm list --json"])
def list_(context: Context, choice: StoreChoice) -> None:
    """All realms and their states.

    created → initializing or loading → active ⇄ inactive → purging → purged → deleted
    """
    realms = [RealmLine.of(realm) for realm in choice.open(context).realms.list()]
    document = {"realms": [realm.document() for realm in realms]}
    context.output.result(document, realm_table(realms))


@command(app, "show", examples=["lakesweep realm show acme", "lakesweep realm show acme --json"])
def show(context: Context, name: Name, choice: StoreChoice) -> None:
    """One realm: its state, its properties, and how many references it has."""
    store = choice.open(context)
    realm = _find(store, name)
    line = RealmLine.of(realm, sum(1 for _ in store.backend.scan_references(name)))
    context.output.result(line.document(), realm_table([line]))


@command(app, "activate", examples=["lakesweep realm activate acme"])
def activate(context: Context, name: Name, choice: StoreChoice) -> None:
    """Let an inactive realm be used again."""
    from lakesweep.store.realms.registry import RealmStatus

    _move(context, choice.open(context), name, RealmStatus.INACTIVE, RealmStatus.ACTIVE)


@command(app, "deactivate", examples=["lakesweep realm deactivate acme"])
def deactivate(context: Context, name: Name, choice: StoreChoice) -> None:
    """Let nobody use a realm any more, and keep all that is in it.

    Processes that are using it notice within seconds.
    """
    from lakesweep.store.realms.registry import RealmStatus

    _move(context, choice.open(context), name, RealmStatus.ACTIVE, RealmStatus.INACTIVE)


@command(
    app,
    "purge",
    examples=["lakesweep realm purge acme --dry-run", "lakesweep realm purge acme --yes"],
)
def purge(
    context: Context,
    name: Name,
    choice: StoreChoice,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete everything that is in a realm.

    Only a realm that is not active is purged. A purge that was interrupted is gone on with when it
    is repeated; there is no way back once it has begun. The name stays taken until realm delete.
    """
    from lakesweep.store.realms.access import VIEW_SECONDS
    from lakesweep.store.realms.purge import check_purgeable
    from lakesweep.store.realms.registry import RealmStatus

    store = choice.open(context)
    realm, purging = _find(store, name), _purging(context, store)
    check_purgeable(realm)
    found = purging.count(name)
    context.output.say(f"realm {name} is {realm.status}: {_in_words(found)}")
    if not dry_run and realm.status is not RealmStatus.PURGED:
        context.confirm(f"Delete everything in realm {name}?", yes=yes)
        context.output.say(f"waiting {VIEW_SECONDS:.0f} seconds, until every process has noticed")
        realm = purging.purge(realm)
    _end(context, realm, found, dry_run=dry_run)
    if not dry_run:
        context.output.say(f"realm {name} is purged; lakesweep realm delete {name} ends it")


@command(
    app,
    "delete",
    examples=["lakesweep realm delete acme --dry-run", "lakesweep realm delete acme --yes"],
)
def delete(
    context: Context,
    name: Name,
    choice: StoreChoice,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Forget a purged realm, and set its name free.

    Rows that somebody wrote after the purge go with it.
    """
    from lakesweep.store.realms.registry import check_deletable

    store = choice.open(context)
    realm, purging = _find(store, name), _purging(context, store)
    check_deletable(realm)
    found = purging.count(name)
    context.output.say(f"realm {name} is {realm.status}: {_in_words(found)}")
    if not dry_run:
        context.confirm(f"Delete realm {name}?", yes=yes)
        found = purging.delete(realm)
    _end(context, realm, found, dry_run=dry_run)
    if not dry_run:
        context.output.say(f"realm {name} is deleted")


def _find(store: Store, name: str) -> RealmDefinition:
    from lakesweep.store.realms.registry import check_name

    check_name(name)
    return store.realms.get(name)


def _move(
    context: Context, store: Store, name: str, before: RealmStatus, after: RealmStatus
) -> None:
    realm = _find(store, name)
    if realm.status not in {before, after}:
        raise RefusedError(
            "realm-state",
            f"realm {name} is {realm.status}; only one that is {before} can become {after}",
            hint=f"lakesweep realm show {name}",
        )
    _show(context, realm if realm.status is after else store.realms.move(realm, after))


def _show(context: Context, realm: RealmDefinition) -> None:
    context.output.result(RealmLine.of(realm).document())
    context.output.say(f"realm {realm.name} is {realm.status}")


def _purging(context: Context, store: Store) -> RealmPurger:
    from lakesweep.store.realms.purge import RealmPurger

    return RealmPurger(store.realms, store.backend, context.clock, context.progress)


def _end(context: Context, realm: RealmDefinition, found: RealmSize, *, dry_run: bool) -> None:
    document = {
        "realm": realm.name,
        "status": realm.status,
        "references": found.references,
        "rows": found.rows,
        "dry_run": dry_run,
    }
    context.output.result(document)
    if dry_run:
        context.output.say("nothing was deleted; run the same with --yes in place of --dry-run")


def _in_words(found: RealmSize) -> str:
    return f"{format_count(found.references, 'reference')}, {format_count(found.rows, 'row')}"
