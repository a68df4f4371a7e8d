"""Which table of DynamoDB a URL means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from lakesweep.errors import UsageError

DEFAULT_TABLE = "lakesweep"

_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_OPTIONS = ("region", "endpoint", "profile")
_EXAMPLE = "dynamodb://lakesweep?region=eu-central-1"


@dataclass(frozen=True, slots=True)
class DynamoAddress:
    """A table, and where it is; None is whatever the AWS SDKs are set up for."""

    table: str
    region: str | None = None
    endpoint: str | None = None
    profile: str | None = None

    def __str__(self) -> str:
        return f"dynamodb://{self.table}"


def parse_address(url: str) -> DynamoAddress:
    """`dynamodb://table?region=…&endpoint=…&profile=…`, each part of which may be left out."""
    place, _, query = url.partition("?")
    if "@" in url:
        raise UsageError(
            "dynamodb: credentials do not belong into the URL",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or add ?profile=name",
        )
    table = place.partition("://")[2].rstrip("/") or DEFAULT_TABLE
    if not _TABLE.fullmatch(table):
        raise UsageError(
            f"dynamodb: {table!r} is not the name of a table",
            hint=f"write 3 to 255 letters, digits, dots, hyphens or underscores: {_EXAMPLE}",
        )
    return DynamoAddress(table, **_options(query))


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name not in _OPTIONS:
            raise UsageError(f"dynamodb: unknown option {name!r}", hint=f"as in {_EXAMPLE}")
        if not value:
            raise UsageError(f"dynamodb: option {name} is empty", hint=f"as in {_EXAMPLE}")
    return options
