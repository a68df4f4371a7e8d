"""`lakesweep catalog principal`, `role` and `grant`: who may use what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.catalog.catalog_options import Properties
from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes, parse_properties
from lakesweep.cli.render.catalog_lines import allowed_table, entity_facts, entity_text, grant_text
from lakesweep.cli.store.store_options import RealmChoice

if TYPE_CHECKING:
    from lakesweep.operations.catalogs.access import ChangedGrant
    from lakesweep.operations.catalogs.views import EntityView, PrincipalSecretView

PrincipalName = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="The name of the principal.", show_default=False)
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
    "Roles of a realm, held by principals; and of a catalog, held by roles of the realm.",
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
    """Add the commands for principals, roles and grants."""
    for added in (_principals, _roles, _grants):
        app.add_typer(added)


@command(_principals, "create", remote=True, examples=["lakesweep catalog principal create jane"])
def create_principal(
    context: Context, name: PrincipalName, choice: RealmChoice, properties: Properties = None
) -> None:
    """Create a principal, and show its secret once: only a hash of it is stored."""
    from lakesweep.operations.catalogs.access import CreatePrincipalRequest, create_principal

    request = CreatePrincipalRequest(name, parse_properties(properties), choice.realm)
    _show_secret(context, choice.call(context, create_principal, request))


@command(
    _principals,
    "rotate",
    remote=True,
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
        bool, typer.Option("--revoke", help="Revoke the previous secret at once.")
    ] = False,
) -> None:
    """Give a principal a new secret; the previous one stays valid until the next rotation."""
    from lakesweep.operations.catalogs.access import RotateSecretRequest, rotate_secret

    request = RotateSecretRequest(name, revoke, choice.realm)
    _show_secret(context, choice.call(context, rotate_secret, request))


@command(_principals, "list", remote=True, examples=["lakesweep catalog principal list"])
def list_principals(context: Context, choice: RealmChoice) -> None:
    """List all principals."""
    from lakesweep.operations.catalogs import access

    found = choice.call(context, access.list_principals, choice.realm)
    context.output.structs(found, entity_text)


@command(_principals, "show", remote=True, examples=["lakesweep catalog principal show jane"])
def show_principal(context: Context, name: PrincipalName, choice: RealmChoice) -> None:
    """Show a principal."""
    from lakesweep.operations.catalogs import access

    _show(context, choice.call(context, access.show_principal, name, choice.realm))


@command(_principals, "drop", remote=True, examples=["lakesweep catalog principal drop jane --yes"])
def drop_principal(
    context: Context,
    name: PrincipalName,
    choice: RealmChoice,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Drop a principal; the next maintenance run removes its grants."""
    from lakesweep.operations.catalogs import access

    def confirm(_: EntityView) -> None:
        if not dry_run:
            context.confirm(f"Drop principal {name}?", yes=yes)

    request = access.DropPrincipalRequest(name, dry_run, choice.realm)
    dropped = choice.call(context, access.drop_principal, request, confirm)
    _show_dropped(context, dropped, f"principal {name}")


@command(
    _roles,
    "create",
    remote=True,
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
    from lakesweep.operations.catalogs import access

    request = access.CreateRoleRequest(name, catalog, parse_properties(properties), choice.realm)
    _show(context, choice.call(context, access.create_role, request))


@command(_roles, "list", remote=True, examples=["lakesweep catalog role list --catalog shop"])
def list_roles(context: Context, choice: RealmChoice, catalog: OfCatalog = None) -> None:
    """List all roles in the realm, or in a catalog."""
    from lakesweep.operations.catalogs import access

    found = choice.call(context, access.list_roles, catalog, choice.realm)
    context.output.structs(found, entity_text)


@command(_roles, "show", remote=True, examples=["lakesweep catalog role show analyst"])
def show_role(
    context: Context, name: RoleName, choice: RealmChoice, catalog: OfCatalog = None
) -> None:
    """Show a role."""
    from lakesweep.operations.catalogs import access

    _show(context, choice.call(context, access.show_role, name, catalog, choice.realm))


@command(_roles, "drop", remote=True, examples=["lakesweep catalog role drop analyst --yes"])
def drop_role(
    context: Context,
    name: RoleName,
    choice: RealmChoice,
    catalog: OfCatalog = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Drop a role, and with it all access through it."""
    from lakesweep.operations.catalogs import access

    def confirm(_: EntityView) -> None:
        if not dry_run:
            context.confirm(f"Drop role {name}?", yes=yes)

    request = access.DropRoleRequest(name, catalog, dry_run, choice.realm)
    dropped = choice.call(context, access.drop_role, request, confirm)
    _show_dropped(context, dropped, f"role {name}")


@command(
    _grants,
    "create",
    remote=True,
    examples=[
        "lakesweep catalog grant create use-role --on role:analyst --to principal:jane",
        "lakesweep catalog grant create read-data list --on shop.sales --to role:shop.reader",
    ],
)
def create_grant(
    context: Context, privileges: PrivilegeNames, choice: RealmChoice, on: On, to: To
) -> None:
    """Grant privileges."""
    from lakesweep.operations.catalogs.access import ChangeGrantRequest, grant_privileges

    request = ChangeGrantRequest(tuple(privileges), on, to, choice.realm)
    _show_grant(context, choice.call(context, grant_privileges, request))


@command(
    _grants,
    "revoke",
    remote=True,
    examples=["lakesweep catalog grant revoke read-data --on shop.sales --to role:shop.reader"],
)
def revoke_grant(
    context: Context, privileges: PrivilegeNames, choice: RealmChoice, on: On, to: To
) -> None:
    """Revoke privileges."""
    from lakesweep.operations.catalogs.access import ChangeGrantRequest, revoke_privileges

    request = ChangeGrantRequest(tuple(privileges), on, to, choice.realm)
    _show_grant(context, choice.call(context, revoke_privileges, request))


@command(
    _grants,
    "list",
    remote=True,
    examples=["lakesweep catalog grant list", "lakesweep catalog grant list --catalog shop --json"],
)
def list_grants(context: Context, choice: RealmChoice, catalog: OfCatalog = None) -> None:
    """List the grants on the realm itself, or on one catalog and what it contains."""
    from lakesweep.operations.catalogs import access

    found = choice.call(context, access.list_grants, catalog, choice.realm)
    context.output.structs(found, grant_text)


@command(
    _grants,
    "effective",
    remote=True,
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
    """Show everything a principal may do with something, and through which grants."""
    from lakesweep.operations.catalogs.access import effective_privileges

    found = choice.call(context, effective_privileges, name, on, choice.realm)
    context.output.result(found, allowed_table(found.allowed))


def _show(context: Context, entity: EntityView) -> None:
    context.output.result(entity, entity_facts(entity))


def _show_secret(context: Context, principal: PrincipalSecretView) -> None:
    _show(context, principal)
    context.output.say("keep the secret: it is not shown again")


def _show_dropped(context: Context, entity: EntityView, words: str) -> None:
    context.output.result(entity)
    context.output.say(f"{words}: {str(entity.status).replace('-', ' ')}")


def _show_grant(context: Context, grant: ChangedGrant) -> None:
    context.output.result(grant)
    allowed = ", ".join(grant.privileges) or "do nothing"
    context.output.say(f"{grant.to} may {allowed} on {grant.on}")
