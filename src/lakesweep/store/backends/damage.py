"""Telling rows that cannot be what this program wrote."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from lakesweep.errors import DamagedRowError

Value = TypeVar("Value")
Row = Mapping[str, Any]


def tells_damage(read: Callable[[Row], Value]) -> Callable[[Row], Value]:
    """Let a reader of rows raise DamagedRowError where a row lacks what it reads.

    For databases that keep a row of any shape.
    """

    @wraps(read)
    def read_checked(row: Row) -> Value:
        try:
            return read(row)
        except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
            key = {name: row.get(name) for name in ("_id", "pk", "sk") if name in row}
            raise DamagedRowError(f"the row {key} was not written by lakesweep") from error

    return read_checked
