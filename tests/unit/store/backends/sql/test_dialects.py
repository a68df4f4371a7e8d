"""URLs of relational databases: which are understood, and what is said of the others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakesweep.errors import ConfigError, SchemaError, UsageError
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.store.backends.sql.dialects import parse_url, without_secrets
from lakesweep.store.backends.urls import open_backend

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
        ("postgres", "postgresql://user:***@host:5432/database"),
        ("postgresq", "postgresql://user:***@host:5432/database"),
        ("maria", "mysql://user:***@host:3306/database"),
        ("mssql", "mysql://user:***@host:3306/database"),
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


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://u@127.0.0.1:1/x?ssl_ca=/no/such.pem", "ssl_ca names /no/such.pem, which cannot"),
        ("mysql://u@127.0.0.1:1/x?ssl_key=/no/such.pem", "ssl_key names /no/such.pem"),
        ("mysql://u@127.0.0.1:1/x?ssl_ca=/etc/passwd", "invalid option: .*certificate"),
        ("mysql://u@127.0.0.1:1/x?ssl_cipher=none", "invalid option: .*cipher"),
        ("mysql://u@127.0.0.1:1/x?charset=none", "invalid option"),
        ("mysql://u@127.0.0.1:1/x?read_default_file=/etc/passwd", "invalid option"),
        ("mysql://u@127.0.0.1:1/x?compress=1", "compress cannot be set in a URL"),
        ("mysql://u@127.0.0.1:1/x?autocommit=0", "autocommit cannot be set in a URL"),
        ("postgresql://u@127.0.0.1:1/x?sslrootcert=/no/such.pem", "sslrootcert names /no/such"),
        ("postgresql://u@127.0.0.1:1/x?sslcert=/no/such.pem", "sslcert names /no/such"),
        ("postgresql://u@127.0.0.1:1/x?sslmode=none", 'invalid sslmode value: "none"'),
        ("postgresql://u@127.0.0.1:1/x?port=none", "invalid option"),
        ("postgresql://u@127.0.0.1:1/x?port=99999", "invalid port number"),
        ("postgresql://u@127.0.0.1:1/x?service=none", 'service "none" not found'),
        ("postgresql://u@127.0.0.1:1/x?keepalives=none", 'invalid integer value "none"'),
        ("postgresql://u@127.0.0.1:1/x?row_factory=1", "row_factory cannot be set in a URL"),
        ("sqlite:////no/x.db?cached_statements=999999999999999999999", "invalid option"),
        ("sqlite:////no/x.db?uri=true", "with the option uri"),
        ("mongodb://u:p@127.0.0.1:1/x?tls=true&tlsCAFile=/no/such.pem", "/no/such.pem"),
        ("mongodb://u:p@127.0.0.1:1/x?tls=true&tlsCAFile=/etc/passwd", "invalid option"),
        ("mongodb://u:p@127.0.0.1:1/x?heartbeatFrequencyMS=1", "heartbeatFrequencyMS cannot be"),
        ("dynamodb://lake?endpoint=ftp://h", "is not an http or https address"),
        ("dynamodb://lake?endpoint=http://h:99999", "is not an http or https address"),
    ],
)
def test_wrong_options_of_urls_are_errors_of_usage_that_say_so(url: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        open_backend(url).check_schema()


def test_a_look_at_a_missing_file_does_not_create_it(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/a.db", f"sqlite:///file:{tmp_path}/a.db?uri=true"):
        with pytest.raises(SchemaError):
            open_backend(url).check_schema()
        assert not list(tmp_path.iterdir())
