"""Time zones, as people name them."""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated

import typer

from lakesweep.errors import UsageError

Zone = Annotated[
    str, typer.Option("--zone", metavar="ZONE", help="Whose clock the times are on: Asia/Tokyo.")
]


def parse_zone(name: str) -> tzinfo:
    """The zone of a name such as `Asia/Tokyo`."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such zone, no name, no file of that kind
        raise UsageError(
            f"there is no time zone {name!r}", hint="write UTC, or a name such as Asia/Tokyo"
        ) from None
