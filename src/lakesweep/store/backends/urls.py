"""Database URLs: open the backend of one, resolve relative paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path

from lakesweep.errors import UsageError
from lakesweep.store.backends.backend import Backend


def open_backend(url: str) -> Backend:
    """The backend of a URL. UsageError if it names no supported database."""
    scheme = url.partition(":")[0].partition("+")[0]
    opener = OPENERS.get(scheme)
    if opener is None:
        near = get_close_matches(scheme, OPENERS, n=1)
        raise UsageError(
            f"{scheme or 'an empty URL'}: not a supported database",
            hint=f"did you mean {near[0]}?" if near else f"a URL starts with {', '.join(OPENERS)}",
        )
    return opener(url)


def _memory(url: str) -> Backend:
    from lakesweep.store.backends.memory import MemoryBackend

    del url
    return MemoryBackend()


def _sql(url: str) -> Backend:
    from lakesweep.store.backends.sql.backend import SqlBackend

    return SqlBackend(url)


def _mongo(url: str) -> Backend:
    from lakesweep.store.backends.mongo.backend import MongoBackend

    return MongoBackend(url)


def _dynamo(url: str) -> Backend:
    from lakesweep.store.backends.dynamo.backend import DynamoBackend

    return DynamoBackend(url)


#: The schemes of URLs, and what opens them.
OPENERS: Mapping[str, Callable[[str], Backend]] = {
    "sqlite": _sql,
    "postgresql": _sql,
    "mysql": _sql,
    "mariadb": _sql,
    "mongodb": _mongo,
    "dynamodb": _dynamo,
    "memory": _memory,
}


_SQLITE = re.compile(r"(sqlite(?:\+\w+)?:///)([^?]*)(.*)", re.DOTALL)


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite database; None for all others, and if it is in memory."""
    found = _SQLITE.fullmatch(url)
    return Path(found[2]) if found and _is_file(found[2]) else None


def anchored(url: str, folder: Path) -> str:
    """The same URL, independent of the working directory; relative files are in `folder`."""
    found = _SQLITE.fullmatch(url)
    if found is None or not _is_file(found[2]):
        return url
    file = str(folder.absolute() / found[2])
    if "?" in file:
        raise UsageError(
            f"{file}: a database URL cannot contain a question mark in its path",
            hint="put the store in another folder",
        )
    return f"{found[1]}{file}{found[3]}"


def _is_file(path: str) -> bool:
    return path not in {"", ":memory:"} and not path.startswith("file:")
