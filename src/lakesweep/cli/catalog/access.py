"""`lakesweep catalog principal`, `role` and `grant`: who may use what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.catalog.catalog_options import Properties, open_catalogs
from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes, parse_properties
from lakesweep.cli.render.catalog_lines import EntityLine, GrantLine, allowed_table
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.errors import UsageError
from lakesweep.operations.catalog_names import (
    find_principal,
    grants_of,
    resolve_target,
    role_container,
    target_name,
)

if TYPE_CHECKING:
    from lakesweep.catalog import Catalogs
    from lakesweep.catalog.container import EntityContainer
    from lakesweep.catalog.grants import Grant

PrincipalName = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="Who it is.", show_default=False)
]
RoleName = Annotated[
    str, typer.Argument(metavar="ROLE", help="The name of the role.", show_default=False)
]
OfCatalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="CATALOG",
        help="A role in this catalog, instead of one in the realm.",
        show_default=False,
    ),
]
PrivilegeNames = Annotated[
    list[str],
    typer.Argument(
        metavar="PRIVILEGE…", help="Such as read-data, manage-content.", show_default=False
    ),
]
On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="WHAT",
        help="realm, CATALOG, CATALOG.NAME, role:ROLE or role:CATALOG.ROLE",
        show_default=False,
    ),
]
To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="WHO",
        help="principal:NAME, role:ROLE or role:CATALOG.ROLE",
        show_default=False,
    ),
]

_principals = group(
    "principal",
    "Principals: who can log in.",
    examples=["lakesweep catalog principal create jane", "lakesweep catalog principal list"],
)
_roles = group(
    "role",
    "Roles: what principals are to a realm, and what those are to a catalog.",
    examples=[
        "lakesweep catalog role create analyst",
        "lakesweep catalog role create reader --catalog shop",
    ],
)
_grants = group(
    "grant",
    "Grants: who may do what.",
    examples=[
        "lakesweep catalog grant create use-role --on role:analyst --to principal:jane",
        "lakesweep catalog grant create use-role --on role:shop.reader --to role:analyst",
        "lakesweep catalog grant create read-data --on shop.sales --to role:shop.reader",
        "lakesweep catalog grant effective jane shop.sales.orders",
    ],
)


def add_access(app: typer.Typer) -> None:
    """Add the commands that say who may do what."""
    for added in (_principals, _roles, _grants):
        app.add_typer(added)


@command(_principals, "create", examples=["lakesweep catalog principal create jane"])
def create_principal(
    context: Context, name: PrincipalName, choice: RealmChoice, properties: Properties = None
) -> None:
    """Create a principal, and show its secret: this once, since only a hash of it is kept."""
    principals = open_catalogs(context, choice).principals
    principal, credentials = principals.create(name, parse_properties(properties))
    line = EntityLine.of(name, principal)
    secret = {"secret": credentials.secret}
    context.output.result({**line.document(), **secret}, line.table({**secret}))
    context.output.say("keep the secret: it is not shown again")


@command(
    _principals,
    "rotate",
    examples=[
        "lakesweep catalog principal rotate jane",
        "lakesweep catalog principal rotate jane --revoke",
    ],
)
def rotate(
    context: Context,
    name: PrincipalName,
    choice: RealmChoice,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Let no earlier secret be good any more.")
    ] = False,
) -> None:
    """Give a principal a new secret; the last one stays good until the next time."""
    principals = open_catalogs(context, choice).principals
    credentials = principals.rotate(name, revoke=revoke)
    line = EntityLine.of(name, principals.get((name,)))
    secret = {"secret": credentials.secret}
    context.output.result({**line.document(), **secret}, line.table({**secret}))
    context.output.say("keep the secret: it is not shown again")


@command(_principals, "list", examples=["lakesweep catalog principal list"])
def list_principals(context: Context, choice: RealmChoice) -> None:
    """All principals."""
    context.output.lines(_all(open_catalogs(context, choice).principals))


@command(_principals, "show", examples=["lakesweep catalog principal show jane"])
def show_principal(context: Context, name: PrincipalName, choice: RealmChoice) -> None:
    """One principal."""
    _show(context, open_catalogs(context, choice).principals, name)


@command(_principals, "drop", examples=["lakesweep catalog principal drop jane --yes"])
def drop_principal(
    context: Context,
    name: PrincipalName,
    choice: RealmChoice,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Drop a principal; what was granted to it goes with the next maintenance."""
    principals = open_catalogs(context, choice).principals
    _drop(context, principals, name, f"principal {name}", dry_run=dry_run, yes=yes)


@command(
    _roles,
    "create",
    examples=[
        "lakesweep catalog role create analyst",
        "lakesweep catalog role create reader --catalog shop",
    ],
)
def create_role(
    context: Context,
    name: RoleName,
    choice: RealmChoice,
    catalog: OfCatalog = None,
    properties: Properties = None,
) -> None:
    """Create a role in the realm, or in a catalog."""
    from lakesweep.catalog import CatalogRole, Create, PrincipalRole

    kind = PrincipalRole if catalog is None else CatalogRole
    roles = role_container(open_catalogs(context, choice), catalog)
    roles.apply([Create((name,), kind(properties=parse_properties(properties)))])
    _show(context, roles, name)


@command(_roles, "list", examples=["lakesweep catalog role list --catalog shop"])
def list_roles(context: Context, choice: RealmChoice, catalog: OfCatalog = None) -> None:
    """All roles in the realm, or in a catalog."""
    context.output.lines(_all(role_container(open_catalogs(context, choice), catalog)))


@command(_roles, "show", examples=["lakesweep catalog role show analyst"])
def show_role(
    context: Context, name: RoleName, choice: RealmChoice, catalog: OfCatalog = None
) -> None:
    """One role."""
    _show(context, role_container(open_catalogs(context, choice), catalog), name)


@command(_roles, "drop", examples=["lakesweep catalog role drop analyst --yes"])
def drop_role(
    context: Context,
    name: RoleName,
    choice: RealmChoice,
    catalog: OfCatalog = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Drop a role; nobody has anything through it from then on."""
    roles = role_container(open_catalogs(context, choice), catalog)
    _drop(context, roles, name, f"role {name}", dry_run=dry_run, yes=yes)


@command(
    _grants,
    "create",
    examples=[
        "lakesweep catalog grant create use-role --on role:analyst --to principal:jane",
        "lakesweep catalog grant create read-data list --on shop.sales --to role:shop.reader",
    ],
)
def create_grant(
    context: Context, privileges: PrivilegeNames, choice: RealmChoice, on: On, to: To
) -> None:
    """Allow something."""
    _alter(context, choice, privileges, on, to, revoke=False)


@command(
    _grants,
    "revoke",
    examples=["lakesweep catalog grant revoke read-data --on shop.sales --to role:shop.reader"],
)
def revoke_grant(
    context: Context, privileges: PrivilegeNames, choice: RealmChoice, on: On, to: To
) -> None:
    """Allow something no longer."""
    _alter(context, choice, privileges, on, to, revoke=True)


@command(
    _grants,
    "list",
    examples=["lakesweep catalog grant list", "lakesweep catalog grant list --catalog shop --json"],
)
def list_grants(context: Context, choice: RealmChoice, catalog: OfCatalog = None) -> None:
    """All grants of the realm itself, or of one catalog and what is in it."""
    catalogs = open_catalogs(context, choice)
    grants = catalogs.grants if catalog is None else catalogs.open(catalog).grants
    context.output.lines(_grant_line(catalogs, grant) for grant in grants.all())


@command(
    _grants,
    "effective",
    examples=[
        "lakesweep catalog grant effective jane",
        "lakesweep catalog grant effective jane shop.sales.orders",
    ],
)
def effective(
    context: Context,
    name: PrincipalName,
    choice: RealmChoice,
    on: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHAT]", help="CATALOG or CATALOG.NAME; else the realm.", show_default=False
        ),
    ] = None,
) -> None:
    """All that a principal may do with something, and which grant it has that from."""
    from lakesweep.catalog.access_control import AccessControl
    from lakesweep.catalog.entity_names import split

    catalogs = open_catalogs(context, choice)
    top, *path = (None,) if on is None else split(on)
    catalog = None if top is None else catalogs.open(top)
    place = tuple(str(part) for part in path)
    allowed = AccessControl(catalogs).effective(
        find_principal(catalogs, name), catalog, place or None
    )
    document = {"principal": name, "on": on or "realm", "allowed": allowed}
    context.output.result(document, allowed_table(allowed))


def _alter(
    context: Context, choice: RealmChoice, names: list[str], on: str, to: str, *, revoke: bool
) -> None:
    from lakesweep.catalog.privileges import parse_privilege

    privileges = [parse_privilege(name) for name in names]
    catalogs = open_catalogs(context, choice)
    what, whom = resolve_target(catalogs, on), resolve_target(catalogs, to)
    if not to.startswith(("principal:", "role:")):
        raise UsageError(
            f"nothing can be granted to {to}", hint="write --to principal:NAME or --to role:ROLE"
        )
    grants = grants_of(catalogs, what)
    change = grants.revoke if revoke else grants.grant
    changed = change(what, whom, privileges)
    left = grants.get(what.id, whom.id)
    now = list(left.privileges) if left else []
    context.output.result({"on": on, "to": to, "privileges": now, "changed": changed})
    context.output.say(f"{to} may {', '.join(now) or 'do nothing'} on {on}")


def _grant_line(catalogs: Catalogs, grant: Grant) -> GrantLine:
    return GrantLine(
        target_name(catalogs, grant.securable),
        target_name(catalogs, grant.grantee),
        [each.value for each in grant.privileges],
    )


def _all(container: EntityContainer[Any]) -> Iterator[EntityLine]:
    token: str | None = None
    while True:
        page = container.list(size=1000, token=token)
        yield from (EntityLine.of(entity.name, entity) for entity in page.items)
        token = page.token
        if token is None:
            return


def _show(context: Context, container: EntityContainer[Any], name: str) -> None:
    line = EntityLine.of(name, container.snapshot(fresh=True).get((name,)))
    context.output.result(line.document(), line.table())


def _drop(
    context: Context,
    container: EntityContainer[Any],
    name: str,
    words: str,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    from lakesweep.catalog import Drop

    line = EntityLine.of(name, container.snapshot(fresh=True).get((name,)))
    if not dry_run:
        context.confirm(f"Drop {words}?", yes=yes)
        container.apply([Drop((name,))])
    status = "not-applied" if dry_run else "dropped"
    context.output.result({**line.document(), "status": status})
    context.output.say(f"{words}: {status.replace('-', ' ')}")
