from __future__ import annotations

import sqlite3
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakesweep.errors import ConfigError, IncompleteError, LakesweepError, NotFoundError
from lakesweep.iceberg.catalogs import open_catalog, storage_options
from tests.rest_catalog import RestCatalogServer, rest_catalog

PATH = "s3://lake/t/metadata/v1.metadata.json"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A SQL catalog with a table, a view, and a name of another catalog in the same database."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    SqlCatalog("prod", uri=uri, warehouse=str(tmp_path)).close()
    rows = [
        ("prod", "shop", "orders", PATH, None, "TABLE"),
        ("prod", "a.b", "deep", PATH, None, None),
        ("prod", "shop", "v", PATH, None, "VIEW"),
        ("other", "shop", "hidden", PATH, None, "TABLE"),
    ]
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.executemany("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, ?, ?)", rows)
    return uri


def test_a_sql_catalog_gives_tables_and_views_of_its_own_name(uri: str) -> None:
    entries = list(open_catalog("prod", {"type": "sql", "uri": uri}).entries())
    assert {(entry.full_name, entry.is_view) for entry in entries} == {
        ("prod.shop.orders", False),
        ("prod.a.b.deep", False),
        ("prod.shop.v", True),
    }
    assert {entry.metadata_path for entry in entries} == {PATH}


def test_a_name_is_found_or_not_found(uri: str) -> None:
    catalog = open_catalog("prod", {"type": "sql", "uri": uri})
    assert catalog.find(("a", "b", "deep")).metadata_path == PATH
    with pytest.raises(NotFoundError, match=r"shop\.hidden"):
        catalog.find(("shop", "hidden"))


def test_a_database_without_a_catalog_is_not_an_empty_catalog(tmp_path: Path) -> None:
    catalog = open_catalog("prod", {"type": "sql", "uri": f"sqlite:///{tmp_path}/empty.db"})
    with pytest.raises(ConfigError, match="holds no Iceberg catalog"):
        list(catalog.entries())


def test_a_row_without_metadata_is_not_passed_over(uri: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = NULL")
    with pytest.raises(IncompleteError, match="names no metadata file"):
        list(open_catalog("prod", {"type": "sql", "uri": uri}).entries())


def test_a_catalog_that_nobody_configured_is_an_error_of_configuration() -> None:
    with pytest.raises(ConfigError, match="nobody cannot be opened"):
        open_catalog("nobody", {})


def test_a_rest_catalog_gives_nested_namespaces_tables_and_views() -> None:
    server = RestCatalogServer({("a", "t"): PATH, ("a", "b", "c", "t"): PATH}, {("a", "v"): PATH})
    with rest_catalog(server):
        catalog = open_catalog("rest", {"type": "rest", "uri": server.uri})
        found = {(entry.full_name, entry.is_view) for entry in catalog.entries()}
        assert found == {("rest.a.t", False), ("rest.a.b.c.t", False), ("rest.a.v", True)}
        catalog.drop(catalog.find(("a", "t")))
        assert ("a", "t") not in server.tables
        with pytest.raises(NotFoundError):
            catalog.find(("a", "t"))


def test_a_rest_catalog_that_is_gone_is_not_an_empty_one() -> None:
    with rest_catalog(RestCatalogServer({("a", "t"): PATH})) as server:
        catalog = open_catalog("rest", {"type": "rest", "uri": server.uri})
    with pytest.raises(LakesweepError):
        list(catalog.entries())


def test_a_rest_catalog_that_is_busy_is_asked_again() -> None:
    class Busy(RestCatalogServer):
        refusals = 0

        def answer(self, method: str, target: str) -> tuple[HTTPStatus, dict[str, Any] | None]:
            self.refusals += 1
            if self.refusals % 3 and "namespaces" in target:
                return HTTPStatus.SERVICE_UNAVAILABLE, {"error": {"message": "busy"}}
            return super().answer(method, target)

    with rest_catalog(Busy({("a", "t"): PATH})) as server:
        catalog = open_catalog("rest", {"type": "rest", "uri": server.uri})
        assert [entry.full_name for entry in catalog.entries()] == ["rest.a.t"]


def test_properties_of_a_catalog_say_how_files_are_reached() -> None:
    options = storage_options(
        {"s3.endpoint": "http://e", "client.region": "r", "s3.force-virtual-addressing": "True"}
    )
    assert options is not None
    assert (options.endpoint, options.region, options.addressing) == ("http://e", "r", "virtual")
    assert storage_options({"uri": "http://catalog", "type": "rest"}) is None


class Endless(RestCatalogServer):
    """Every page leads to another one; the tokens come from a list, round and round, or are new."""

    tokens: tuple[str, ...] = ()
    names: int = 0

    def answer(self, method: str, target: str) -> tuple[HTTPStatus, dict[str, Any] | None]:
        status, body = super().answer(method, target)
        if body is None or not {"namespaces", "identifiers"} & set(body):
            return status, body
        self.names += 1
        new = f"token-{self.names}"
        token = self.tokens[self.names % len(self.tokens)] if self.tokens else new
        return status, {**body, "next-page-token": token}


@pytest.mark.parametrize("tokens", [("a",), ("a", "b", "c"), ()])
def test_a_rest_catalog_whose_pages_never_end_is_incomplete(tokens: tuple[str, ...]) -> None:
    server = Endless({("a", "t"): PATH})
    server.tokens = tokens
    with rest_catalog(server):
        catalog = open_catalog("prod", {"type": "rest", "uri": server.uri})
        with pytest.raises(IncompleteError, match="catalog prod: the listing does not end"):
            list(catalog.survey())


def test_a_rest_catalog_that_invents_namespaces_for_ever_is_incomplete() -> None:
    class Deep(RestCatalogServer):
        def answer(self, method: str, target: str) -> tuple[HTTPStatus, dict[str, Any] | None]:
            status, body = super().answer(method, target)
            if body is not None and "namespaces" in body:
                parent = parse_qs(urlsplit(target).query).get("parent", [""])[0]
                body = {"namespaces": [[*filter(None, parent.split("\x1f")), "deeper"]]}
            return status, body

    with rest_catalog(Deep()) as server:
        catalog = open_catalog("prod", {"type": "rest", "uri": server.uri})
        with pytest.raises(IncompleteError, match="lists namespaces without end"):
            list(catalog.survey())


def test_a_rest_catalog_may_have_many_pages() -> None:
    """Page by page, each with a name of its own."""

    class Paged(RestCatalogServer):
        def answer(self, method: str, target: str) -> tuple[HTTPStatus, dict[str, Any] | None]:
            status, body = super().answer(method, target)
            if body is not None and "identifiers" in body and body["identifiers"]:
                place = int(parse_qs(urlsplit(target).query).get("pageToken", ["0"])[0])
                rest = body["identifiers"][place + 1 :]
                body = {"identifiers": body["identifiers"][place : place + 1]}
                body |= {"next-page-token": str(place + 1)} if rest else {}
            return status, body

    with rest_catalog(Paged({("a", f"t{number}"): PATH for number in range(9)})) as server:
        catalog = open_catalog("prod", {"type": "rest", "uri": server.uri})
        assert len(list(catalog.survey())) == 9
