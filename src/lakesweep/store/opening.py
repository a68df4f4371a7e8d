"""From the URL of a database to its backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from lakesweep.errors import UsageError
from lakesweep.store.backend import Backend


def open_backend(url: str) -> Backend:
    """The backend of a URL. UsageError if it names no database that can hold a store."""
    scheme = url.partition(":")[0].partition("+")[0]
    opener = OPENERS.get(scheme)
    if opener is None:
        near = get_close_matches(scheme, OPENERS, n=1)
        raise UsageError(
            f"{scheme or 'nothing'}: no store can be kept in such a database",
            hint=f"did you mean {near[0]}?" if near else f"a URL begins with {', '.join(OPENERS)}",
        )
    return opener(url)


def _memory(url: str) -> Backend:
    from lakesweep.store.backends.memory import MemoryBackend

    del url
    return MemoryBackend()


def _sql(url: str) -> Backend:
    from lakesweep.store.backends.sql import SqlBackend

    return SqlBackend(url)


def _mongo(url: str) -> Backend:
    from lakesweep.store.backends.mongo import MongoBackend

    return MongoBackend(url)


def _dynamo(url: str) -> Backend:
    from lakesweep.store.backends.dynamo import DynamoBackend

    return DynamoBackend(url)


#: What a URL begins with, and what opens it.
OPENERS: Mapping[str, Callable[[str], Backend]] = {
    "sqlite": _sql,
    "postgresql": _sql,
    "mysql": _sql,
    "mariadb": _sql,
    "mongodb": _mongo,
    "dynamodb": _dynamo,
    "memory": _memory,
}
