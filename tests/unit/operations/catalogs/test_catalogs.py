from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lakesweep.app import App
from lakesweep.catalog import EntityType
from lakesweep.config import Config, StoreSection
from lakesweep.errors import EntityMissingError, RefusedError, UsageError
from lakesweep.operations.catalogs import access, catalogs, entities
from lakesweep.operations.store.store import init_store

TABLE = EntityType.GENERIC_TABLE
RAW = {"format": "csv", "location": "s3://lake/raw"}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    section = StoreSection(url=f"sqlite:///{tmp_path}/store.db")
    app = App(Config(store=section), folder=tmp_path)
    init_store(app)
    catalogs.create_catalog(app, catalogs.CreateCatalogRequest("shop", properties={"a": "b"}))
    yield app
    app.close()


def agree(_: object) -> None:
    pass


def refuse(preview: object) -> None:
    raise RefusedError("confirmation", f"not confirmed: {preview}")


def _create(app: App) -> None:
    entities.create_entity(app, entities.CreateEntityRequest("shop.raw", TABLE, RAW))


def test_a_catalog_counts_what_it_holds(app: App) -> None:
    _create(app)
    shown = catalogs.show_catalog(app, "shop")
    assert (shown.generic_table, shown.table, shown.dropped) == (1, 0, 0)
    assert (shown.status, shown.keep_dropped, shown.properties) == ("active", "7d", {"a": "b"})


def test_an_update_keeps_what_is_not_given(app: App) -> None:
    request = catalogs.UpdateCatalogRequest("shop", properties={"c": "d"}, unset=["a"])
    updated = catalogs.update_catalog(app, request)
    assert (updated.status, updated.properties, updated.dropped) == (
        "updated",
        {"c": "d"},
        msgspec.UNSET,
    )


def test_entities_have_flat_views_and_lines_with_details(app: App) -> None:
    _create(app)
    (line,) = entities.list_entities(app, "shop", TABLE)
    assert msgspec.to_builtins(line)["details"] == RAW
    view = msgspec.to_builtins(entities.show_entity(app, "shop.raw", TABLE))
    assert (view["name"], view["kind"], view["format"]) == ("shop.raw", "generic-table", "csv")
    assert "description" not in view
    page = entities.page_entities(app, entities.PageRequest("shop", TABLE))
    assert ([each.name for each in page.entities], page.token) == (["shop.raw"], None)


def test_nothing_is_dropped_unless_the_caller_agrees(app: App) -> None:
    _create(app)
    with pytest.raises(RefusedError, match="not confirmed"):
        entities.drop_entity(app, entities.DropEntityRequest("shop.raw", TABLE), refuse)
    dry = entities.DropEntityRequest("shop.raw", TABLE, dry_run=True)
    assert entities.drop_entity(app, dry, agree).status == "not-applied"
    with pytest.raises(RefusedError):
        catalogs.drop_catalog(app, catalogs.RemoveCatalogRequest("shop"), agree)
    with pytest.raises(RefusedError, match="entities=1"):
        catalogs.purge_catalog(app, catalogs.RemoveCatalogRequest("shop"), refuse)
    assert entities.show_entity(app, "shop.raw", TABLE).version == 1


def test_a_dropped_table_comes_back_with_its_id(app: App) -> None:
    _create(app)
    before = entities.show_entity(app, "shop.raw", TABLE)
    entities.drop_entity(app, entities.DropEntityRequest("shop.raw", TABLE), agree)
    assert [each.id for each in catalogs.list_dropped(app, "shop")] == [before.id]
    restored = entities.undrop_entity(app, entities.UndropEntityRequest("shop.raw"))
    assert restored.id == before.id


def test_an_update_of_nothing_is_refused(app: App) -> None:
    with pytest.raises(UsageError, match="nothing to change"):
        entities.update_entity(app, entities.UpdateEntityRequest("shop.raw", TABLE))


def test_grants_are_changed_and_listed(app: App) -> None:
    created = access.create_principal(app, access.CreatePrincipalRequest("jane"))
    assert created.secret
    access.create_role(app, access.CreateRoleRequest("reader", catalog="shop"))
    request = access.ChangeGrantRequest(("read-data",), "shop", "role:shop.reader")
    assert access.grant_privileges(app, request).changed
    (grant,) = access.list_grants(app, "shop")
    assert (grant.on, grant.to, grant.privileges) == ("shop", "role:shop.reader", ("read-data",))
    assert access.revoke_privileges(app, request).privileges == ()
    assert access.effective_privileges(app, "jane").allowed == ()


def test_a_principal_is_dropped_once_the_caller_agrees(app: App) -> None:
    access.create_principal(app, access.CreatePrincipalRequest("jane"))
    request = access.DropPrincipalRequest("jane")
    with pytest.raises(RefusedError, match="not confirmed"):
        access.drop_principal(app, request, refuse)
    assert access.drop_principal(app, request, agree).status == "dropped"
    with pytest.raises(EntityMissingError):
        access.show_principal(app, "jane")
