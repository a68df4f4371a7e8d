from __future__ import annotations

import pytest

from lakesweep.catalog import (
    Catalog,
    CatalogPolicy,
    CatalogRole,
    Catalogs,
    Create,
    Drop,
    Namespace,
    Principal,
    PrincipalRole,
    Rename,
)
from lakesweep.catalog.access.access_control import AccessControl
from lakesweep.catalog.grants import (
    REALM,
    EntityRef,
    Privilege,
    entity_ref,
    included,
    parse_privilege,
)
from lakesweep.errors import EntityExistsError, EntityMissingError, UsageError
from lakesweep.store.objects.objects import Objects
from tests.realms import open_catalogs, table


class World:
    """A principal in a principal role that has a catalog role; nothing granted to that yet."""

    def __init__(self) -> None:
        self.catalogs: Catalogs = open_catalogs()
        self.shop: Catalog = self.catalogs.create("shop")
        self.shop.apply(
            [
                Create("sales", Namespace()),
                Create("sales.eu", Namespace()),
                Create("sales.eu.orders", table("orders")),
                Create("web", Namespace()),
            ]
        )
        self.jane, _ = self.catalogs.principals.create("jane")
        self.catalogs.principal_roles.apply([Create("analyst", PrincipalRole())])
        self.shop.roles.apply([Create("reader", CatalogRole())])
        self.analyst = entity_ref(self.catalogs.principal_roles.get("analyst"))
        self.reader = entity_ref(self.shop.roles.get("reader"), self.shop.id)
        use = [Privilege.USE_ROLE]
        self.catalogs.grants.grant(self.analyst, entity_ref(self.jane), use)
        self.shop.grants.grant(self.reader, self.analyst, use)

    def securable(self, name: str) -> EntityRef:
        return entity_ref(self.shop.get(name), self.shop.id)

    def allowed(self, name: str | None = None) -> set[str]:
        found = AccessControl(self.catalogs).effective(self.jane, self.shop, name)
        return {each.privilege.value for each in found}


@pytest.fixture
def world() -> World:
    return World()


def test_privileges_come_through_roles_from_above(world: World) -> None:
    world.shop.grants.grant(world.securable("sales"), world.reader, [Privilege.READ_DATA])
    assert world.allowed("sales.eu.orders") == {"list", "read-data", "read-metadata"}
    assert world.allowed("sales") == {"list", "read-data", "read-metadata"}
    assert world.allowed("web") == set()
    assert world.allowed() == set()
    (found, *_) = AccessControl(world.catalogs).effective(world.jane, world.shop, "sales.eu")
    assert (found.through, found.on) == ("catalog role reader", "namespace sales")


def test_the_realm_lies_above_all_catalogs(world: World) -> None:
    world.catalogs.grants.grant(REALM, world.analyst, [Privilege.MANAGE_REALM])
    access = AccessControl(world.catalogs)
    assert access.may(world.jane, Privilege.CREATE_CATALOG)
    assert access.may(world.jane, Privilege.DROP, world.shop, "sales.eu.orders")
    bob, _ = world.catalogs.principals.create("bob")
    assert not access.may(bob, Privilege.LIST, world.shop)


def test_a_grant_follows_what_is_renamed_and_not_the_name(world: World) -> None:
    world.shop.grants.grant(world.securable("sales.eu"), world.reader, [Privilege.LIST])
    world.shop.apply([Rename("sales.eu", "web.eu"), Create("sales.eu", Namespace())])
    assert world.allowed("web.eu") == {"list"}
    assert world.allowed("sales.eu") == set()


def test_what_is_revoked_is_gone(world: World) -> None:
    sales = world.securable("sales")
    both = [Privilege.LIST, Privilege.DROP]
    assert world.shop.grants.grant(sales, world.reader, both)
    assert not world.shop.grants.grant(sales, world.reader, both)
    assert world.shop.grants.revoke(sales, world.reader, [Privilege.DROP])
    assert world.allowed("sales") == {"list"}
    assert world.shop.grants.revoke(sales, world.reader)
    assert not world.shop.grants.revoke(sales, world.reader)
    assert world.allowed("sales") == set()
    assert list(world.shop.grants.on(sales.id)) == []
    assert [each.securable.id for each in world.shop.grants.to(world.reader.id)] == []


def test_roles_that_are_gone_give_nothing(world: World) -> None:
    world.shop.grants.grant(world.securable("sales"), world.reader, [Privilege.LIST])
    world.shop.roles.apply([Drop("reader"), Create("reader", CatalogRole())])
    assert world.allowed("sales") == set()


def test_members_that_left_a_role_lose_what_it_gives(world: World) -> None:
    world.catalogs.grants.grant(REALM, world.analyst, [Privilege.LIST])
    assert world.allowed() == {"list"}
    world.catalogs.grants.revoke(world.analyst, entity_ref(world.jane))
    assert world.allowed() == set()


@pytest.mark.parametrize(
    ("name", "privilege"),
    [("sales", Privilege.USE_ROLE), ("sales", Privilege.MANAGE_REALM)],
)
def test_not_everything_can_be_granted_on_everything(
    world: World, name: str, privilege: Privilege
) -> None:
    with pytest.raises(UsageError, match="cannot be granted on a namespace"):
        world.shop.grants.grant(world.securable(name), world.reader, [privilege])
    with pytest.raises(UsageError, match="principal role"):
        world.catalogs.grants.grant(world.analyst, entity_ref(world.jane), [Privilege.LIST])


def test_what_includes_something_includes_all_of_it() -> None:
    for privilege in Privilege:
        once = included([privilege])
        assert included(once) == once
    with pytest.raises(UsageError) as caught:
        parse_privilege("read-date")
    assert caught.value.hint == "did you mean read-data?"


def test_only_hashes_of_secrets_are_stored(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    payloads: list[bytes] = []
    stage = Objects.stage

    def watch(self: Objects, values: dict[int, object]) -> object:
        staged = stage(self, values)  # type: ignore[arg-type]
        payloads.extend(row.value for row in staged.rows)
        return staged

    monkeypatch.setattr(Objects, "stage", watch)
    _, credentials = world.catalogs.principals.create("bob")
    assert payloads
    assert not any(credentials.secret.encode() in payload for payload in payloads)


def test_a_secret_lets_in_whoever_has_it(world: World) -> None:
    principals = world.catalogs.principals
    bob, first = principals.create("bob")
    assert principals.login(first.client_id, first.secret).id == bob.id
    for client, secret in [(first.client_id, "x"), ("x", first.secret), ("x", "")]:
        with pytest.raises(EntityMissingError):
            principals.login(client, secret)


def test_secrets_can_be_changed_one_after_the_other(world: World) -> None:
    principals = world.catalogs.principals
    _, first = principals.create("bob")
    second = principals.rotate("bob")
    assert principals.login(first.client_id, first.secret).name == "bob"
    third = principals.rotate("bob", revoke=True)
    principals.login(third.client_id, third.secret)
    for gone in (first, second):
        with pytest.raises(EntityMissingError):
            principals.login(gone.client_id, gone.secret)


def test_a_principal_that_is_gone_cannot_log_in(world: World) -> None:
    principals = world.catalogs.principals
    _, credentials = principals.create("bob")
    principals.apply([Rename("bob", "rob")])
    assert principals.login(credentials.client_id, credentials.secret).name == "rob"
    principals.apply([Drop("rob")])
    with pytest.raises(EntityMissingError):
        principals.login(credentials.client_id, credentials.secret)
    with pytest.raises(UsageError):
        principals.create("")
    assert isinstance(principals.get("jane"), Principal)


def test_policies_are_attached_once_a_type(world: World) -> None:
    world.shop.apply(
        [Create("p", CatalogPolicy(type="retention")), Create("q", CatalogPolicy(type="retention"))]
    )
    p, q, sales = (world.securable(name) for name in ("p", "q", "sales"))
    mappings = world.catalogs.mappings
    assert mappings.attach(p, "retention", sales)
    assert not mappings.attach(p, "retention", sales)
    assert mappings.attach(p, "retention", sales, {"days": "7"})
    with pytest.raises(EntityExistsError):
        mappings.attach(q, "retention", sales)
    assert [each.parameters for each in mappings.on(sales.id)] == [{"days": "7"}]
    assert [each.target.id for each in mappings.of(p.id)] == [sales.id]
    assert mappings.detach(p, sales)
    assert not mappings.detach(p, sales)
    assert list(mappings.of(p.id)) == []
