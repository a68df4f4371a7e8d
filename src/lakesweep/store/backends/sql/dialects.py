"""The supported relational databases, and the dialect that a URL selects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

import sqlalchemy
from sqlalchemy import URL
from sqlalchemy.exc import ArgumentError

from lakesweep.errors import UsageError
from lakesweep.store.backends.sql.dialect import Dialect
from lakesweep.store.backends.sql.sqlite import Sqlite


def _postgresql() -> Dialect:
    from lakesweep.store.backends.sql.postgresql import PostgreSql

    return PostgreSql()


def _mysql() -> Dialect:
    from lakesweep.store.backends.sql.mysql import MySql

    return MySql()


#: The schemes of URLs, and their databases. Each is loaded only if a URL names it.
DIALECTS: Mapping[str, Callable[[], Dialect]] = {
    "sqlite": Sqlite,
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
}


_ESCAPING = "write @ : / ? # % in a user or password as %40 %3A %2F %3F %23 %25"


def parse_url(text: str) -> tuple[URL, Dialect]:
    """The parsed URL, with the driver to use, and the dialect of its database."""
    scheme, _, driver = text.partition(":")[0].lower().partition("+")
    if scheme not in DIALECTS:
        raise UsageError(
            f"{scheme or 'an empty URL'}: not a supported database", hint=_near(scheme)
        )
    dialect = DIALECTS[scheme]()
    if driver not in {"", dialect.driver}:
        raise UsageError(f"{scheme}+{driver}: unsupported driver", hint=f"write {scheme}://")
    url = _parse(text, dialect)
    if wrong := dialect.check_url(url):
        raise UsageError(f"{scheme}: invalid URL: {wrong}", hint=f"as in {dialect.example}")
    return url.set(drivername=f"{scheme}+{dialect.driver}"), dialect


def without_secrets(url: URL) -> str:
    """The URL without anything secret."""
    plain = url.set(drivername=url.get_backend_name(), query={})
    return plain._replace(password=None).render_as_string()


def _parse(text: str, dialect: Dialect) -> URL:
    try:
        url = sqlalchemy.make_url(text)
    except (ArgumentError, ValueError):
        # The cause may contain parts of a password, so it is not shown.
        raise UsageError(
            f"{dialect.name}: this is not a valid database URL",
            hint=f"as in {dialect.example}; {_ESCAPING}",
        ) from None
    if "@" in (url.host or ""):
        raise UsageError(f"{dialect.name}: the URL contains two @", hint=_ESCAPING)
    return url


def _near(scheme: str) -> str:
    near = get_close_matches(scheme, DIALECTS, n=1, cutoff=0.5)
    example = DIALECTS[near[0] if near else "sqlite"]().example
    return f"did you mean {example}?" if near else f"{example} keeps a store in a file"
