"""What runs count, by what they do, and the one codec by which their records keep it.

The names of fields are stored. A record keeps figures as JSON values, because those of earlier
versions, and of kinds that a reader does not know, must stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from lakesweep.decoding import convert

#: Figures, or what was asked for, as a record keeps them.
Recorded: TypeAlias = dict[str, Any]

#: Lists that grow with what went wrong: outcomes have them, and a record stays small.
_LISTS = ("failures", "branches")


class PlanRunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a run that made a plan counted. Only sweeps count roots and have a filter."""

    plan: str
    delete_files: int
    delete_bytes: int
    keep_files: int
    keep_bytes: int
    roots_complete: int | UnsetType = UNSET
    roots_incomplete: int | UnsetType = UNSET
    filter: Recorded | UnsetType = UNSET
    seconds: dict[str, float]


class CheckRunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a check counted. `names` are the files that roots name, each as often as they do."""

    missing: int
    tables_broken: int
    outside: int
    roots: int
    roots_incomplete: int
    names: int
    refused: int


class RunTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What others read of the figures of a run, whatever it did; None if it did not count that."""

    plan: str | None = None
    delete_files: int | None = None
    delete_bytes: int | None = None
    keep_files: int | None = None
    missing: int | None = None
    bytes_deleted: int | None = None
    roots_incomplete: int | None = None


def recorded_figures(
    counted: msgspec.Struct, *, with_lists: bool = False, **more: object
) -> Recorded:
    """What was counted, as a record keeps it."""
    figures: Recorded = msgspec.to_builtins(counted)
    if not with_lists:
        figures = {name: value for name, value in figures.items() if name not in _LISTS}
    return figures | more


def run_totals(figures: Mapping[str, Any]) -> RunTotals:
    """The figures of a record that others read."""
    return convert(figures, RunTotals)


def check_figures(figures: Mapping[str, Any]) -> CheckRunFigures:
    """The figures of a check."""
    return convert(figures, CheckRunFigures)
