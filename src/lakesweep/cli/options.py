"""Options that several groups share: engine, rate limits, dry run, confirmation, guards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from lakesweep.errors import UsageError
from lakesweep.guard_names import NAMED_TABLE, GuardName
from lakesweep.operations.interaction import EngineName
from lakesweep.storage.options import DeleteRate
from lakesweep.units import absolute_override


@dataclass(frozen=True)
class EngineChoice:
    """Which engine runs the steps of a sweep."""

    engine: Annotated[
        EngineName | None,
        typer.Option(
            help="Run on Spark as configured, or in this process, without Java. By default the "
            "engine of the configuration, or else Spark.",
            show_default=False,
        ),
    ] = None


ManifestEngine = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        help="Read manifests in this process, without Java, or on Spark for very large tables.",
    ),
]

_GUARDS = [name.value for name in GuardName]
_NEXT_GUARD = re.compile(
    rf",(?=\s*(?:{NAMED_TABLE}|(?:{'|'.join(map(re.escape, _GUARDS))})\s*(?:,|$)))"
)


def parse_guards(texts: Sequence[str] | None) -> list[str] | None:
    """The guards of repeated options, each with one name or several between commas."""
    if texts is None:
        return None
    return [parse_guard(name.strip()) for text in texts for name in _guards(text)]


def _guards(text: str) -> list[str]:
    """The parts of an option. An address may have commas: it ends before the next guard."""
    before, named, address = text.partition(NAMED_TABLE)
    if not named:
        return text.split(",")
    first, *behind = _NEXT_GUARD.split(address)
    names = before.rstrip().removesuffix(",").split(",") if before.strip() else []
    return [*names, NAMED_TABLE + first, *behind]


def parse_guard(name: str) -> str:
    """The name of a guard. A wrong name is refused, and the nearest one suggested."""
    if name.startswith(NAMED_TABLE) and name != NAMED_TABLE:
        return absolute_override(name)
    if name in _GUARDS:
        return name
    near = get_close_matches(name, _GUARDS, n=1)
    advice = f"did you mean {near[0]}?" if near else f"the guards are {', '.join(_GUARDS)}"
    raise typer.BadParameter(f"there is no guard {name!r}; {advice}")


def _complete_guard(incomplete: str) -> list[str]:
    return [name for name in _GUARDS if name.startswith(incomplete)]


#: For every command that can delete: `dry_run: DryRun = False, yes: Yes = False`.
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the totals and delete nothing.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Delete without asking; needed without a terminal.")
]
#: For commands with guards: `override: Overrides = None`.
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--override",
        metavar="GUARD",
        callback=parse_guards,
        autocompletion=_complete_guard,
        help=f"Continue although this guard fails: {', '.join(_GUARDS)}. Repeatable; "
        "several names may stand between commas.",
    ),
]


_RATE_PANEL = "Rate limits"


def _limit(name: str, least: float, meaning: str) -> Any:
    return typer.Option(name, min=least, metavar="N", help=meaning, rich_help_panel=_RATE_PANEL)


FilesPerSecond = Annotated[
    float | None, _limit("--files-per-second", 0.001, "Delete at most this many files per second.")
]
BatchesPerSecond = Annotated[
    float | None,
    _limit("--batches-per-second", 0.001, "Send at most this many requests per second."),
]
BatchSize = Annotated[
    int | None, _limit("--batch-size", 1, "Keys per delete request, up to the limit of the store.")
]


@dataclass(frozen=True)
class RateLimitOptions:
    """Rate limits for deletes."""

    files_per_second: FilesPerSecond = None
    batches_per_second: BatchesPerSecond = None
    batch_size: BatchSize = None

    @property
    def rate(self) -> DeleteRate:
        return DeleteRate(self.files_per_second, self.batches_per_second, self.batch_size)


TolerantFlag = Annotated[
    bool, typer.Option("--tolerant", help="Skip what cannot be read, and exit with code 4.")
]


def parse_properties(texts: list[str] | None) -> dict[str, str]:
    """The properties of repeated KEY=VALUE options."""
    return dict(map(_parse_property, texts or ()))


def _parse_property(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not (key and separator):
        raise UsageError(f"{text!r} is not a property", hint="write --property KEY=VALUE")
    return key, value
