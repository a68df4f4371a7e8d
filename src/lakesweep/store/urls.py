"""URLs of databases: where a relative one points to, and how to show one."""

from __future__ import annotations

import re
from pathlib import Path

from lakesweep.errors import UsageError

_SQLITE = re.compile(r"(sqlite(?:\+\w+)?:///)([^?]*)(.*)", re.DOTALL)
# From the first colon behind the user to the last @, in case somebody left one in the password.
_PASSWORD = re.compile(r"(?<=://)([^:/?@]*):.*@", re.DOTALL)
_SECRET = re.compile(r"([?&][^=&]*(?:pass|pwd|secret|token|key)[^=&]*=)[^&]*", re.IGNORECASE)


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    return _SECRET.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite database; None for all others, and for one in memory."""
    found = _SQLITE.fullmatch(url)
    return Path(found[2]) if found and _is_file(found[2]) else None


def anchored(url: str, folder: Path) -> str:
    """The same database, whatever folder the process is in; relative files are in `folder`."""
    found = _SQLITE.fullmatch(url)
    if found is None or not _is_file(found[2]):
        return url
    file = str(folder.absolute() / found[2])
    if "?" in file:
        raise UsageError(
            f"{file}: no URL can name a file whose folder has a question mark in its name",
            hint="keep the store in another folder",
        )
    return f"{found[1]}{file}{found[3]}"


def _is_file(path: str) -> bool:
    return path not in {"", ":memory:"} and not path.startswith("file:")
