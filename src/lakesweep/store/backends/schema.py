"""The version of the tables that a database holds."""

from __future__ import annotations

from lakesweep.errors import NewerSchemaError
from lakesweep.store.backend import SCHEMA_VERSION


def refuse_newer(where: str, version: int) -> None:
    """NewerSchemaError if the tables are newer than this program."""
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"{where}: the tables have version {version}, this program understands {SCHEMA_VERSION}"
        )
