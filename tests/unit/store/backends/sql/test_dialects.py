"""URLs of relational databases: which are understood, and what is said of the others."""

from __future__ import annotations

import sys

import pytest

from lakesweep.errors import ConfigError, UsageError
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.store.backends.sql.dialects import parse_url, without_secrets

SECRET = "hush"


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("sqlite:///folder/store.db", "sqlite+pysqlite"),
        ("postgresql://user@host/lake", "postgresql+psycopg"),
        ("postgresql+psycopg://user@host/lake", "postgresql+psycopg"),
        ("mysql://user@host/lake", "mysql+pymysql"),
        ("mariadb://user@host/lake", "mariadb+pymysql"),
        ("MariaDB://user@host/lake", "mariadb+pymysql"),
        ("postgresql:///lake?host=/var/run/postgresql", "postgresql+psycopg"),
    ],
)
def test_a_scheme_means_one_driver(url: str, driver: str) -> None:
    assert parse_url(url)[0].drivername == driver


@pytest.mark.parametrize(
    ("scheme", "example"),
    [
        ("postgres", "postgresql://user:password@host:5432/database"),
        ("postgresq", "postgresql://user:password@host:5432/database"),
        ("maria", "mysql://user:password@host:3306/database"),
        ("mssql", "mysql://user:password@host:3306/database"),
        ("sqlite3", "sqlite:///folder/store.db"),
    ],
)
def test_an_unknown_scheme_is_told_the_nearest(scheme: str, example: str) -> None:
    with pytest.raises(UsageError, match=f"^{scheme}: not a supported database") as caught:
        parse_url(f"{scheme}://user:{SECRET}@host/lake")
    assert caught.value.hint == f"did you mean {example}?"


@pytest.mark.parametrize("url", ["", "nonsense", "oracle://user:hush@host/lake"])
def test_what_is_like_no_scheme_is_told_the_simplest(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(url)
    assert caught.value.hint == "sqlite:///folder/store.db keeps a store in a file"


@pytest.mark.parametrize("url", ["postgresql+psycopg2://host/lake", "mysql+mysqldb://host/lake"])
def test_another_driver_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="unsupported driver"):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        (f"postgresql://user:{SECRET}@host", "it does not name a database"),
        (f"mysql://user:{SECRET}@host/", "it does not name a database"),
        ("sqlite://store.db", "comes after three slashes"),
        ("sqlite://", "it does not name a file"),
        ("sqlite:///:memory:", "use memory: for a store in memory"),
        ("sqlite:///store.db?mdoe=ro", "SQLite has no option mdoe"),
        (f"postgresql://user:{SECRET}@host:port/lake", "this is not a valid database URL"),
        (f"postgresql:user:{SECRET}@host/lake", "this is not a valid database URL"),
        (f"postgresql://user:p@{SECRET}@host/lake", "the URL contains two @"),
        ("sqlite:store.db", "this is not a valid database URL"),
    ],
)
def test_a_wrong_url_is_told_what_is_wrong_and_no_password(url: str, wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(url)
    assert wrong in caught.value.message
    assert SECRET not in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{SECRET}@host:5432/lake",
        f"postgresql://user@host:5432/lake?password={SECRET}",
        f"postgresql://user:{SECRET}@host:5432/lake?sslpassword={SECRET}&sslmode=require",
    ],
)
def test_what_is_shown_of_a_url_has_no_secret(url: str) -> None:
    assert without_secrets(parse_url(url)[0]) == "postgresql://user@host:5432/lake"


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("postgresql://user@host/lake", "psycopg", "postgresql"),
        ("mariadb://user@host/lake", "pymysql", "mysql"),
    ],
)
def test_a_driver_that_is_not_installed_is_named(
    url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=f"needs the package {module}") as caught:
        SqlBackend(url)
    assert caught.value.hint == f"pip install 'lakesweep[{extra}]'"


@pytest.mark.parametrize(
    "url", ["mysql://user@host/lake?connect_timeout=soon", "sqlite:///store.db?timeout=long"]
)
def test_an_option_of_the_wrong_type_is_an_error(url: str) -> None:
    with pytest.raises(UsageError, match="the URL has an invalid option"):
        SqlBackend(url)
