"""The version of the tables that a database holds."""

from __future__ import annotations

from lakesweep.errors import SchemaError
from lakesweep.store.backend import SCHEMA_VERSION


def refuse_newer(where: str, version: int) -> None:
    """SchemaError if the tables are newer than this program."""
    if version > SCHEMA_VERSION:
        raise SchemaError(
            f"{where}: the tables have version {version}, "
            f"this program understands {SCHEMA_VERSION}",
            hint="use a newer lakesweep",
        )
