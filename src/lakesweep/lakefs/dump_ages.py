"""How old refs are that come from dumps, without a server: what people are told, and what stops.

What was committed since a dump is not known. So guards say of when the dumps are, and that more was
written since. Whatever is written after a plan was begun, and nobody dumped, ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from lakesweep.errors import IncompleteError
from lakesweep.lakefs.repository import DumpAge
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.lakefs.repository import Repository

Opener = Callable[[], "Repository"]
Ages = Mapping[str, DumpAge]


def find_ages(openers: Mapping[str, Opener]) -> dict[str, DumpAge]:
    """The ages of the dumps of repositories, of those that no server tells of."""
    ages = {name: opener().dump_age() for name, opener in openers.items()}
    return {name: age for name, age in ages.items() if age is not None}


def check_age(opener: Opener, name: str, before: DumpAge | None) -> Opener:
    """Opens a repository; IncompleteError where its dump was overtaken since it had that age."""
    return partial(_open, opener, name, before)


def _open(opener: Opener, name: str, before: DumpAge | None) -> Repository:
    repository = opener()
    age = repository.dump_age()
    if age is not None and age.is_overtaken(before):
        raise IncompleteError(
            f"{name}: {_since(age)}, so that its refs are not those of its last dump",
            hint="dump its refs again: lakesweep lifecycle refs NAME has its server do so; then"
            " plan again",
        )
    return repository


def describe_ages(ages: Ages) -> list[str]:
    """Of when the dumps are."""
    return [f"{name} ({_dumped(age)})" for name, age in ages.items()]


def describe_stale(ages: Ages) -> list[str]:
    """Those after which something was written."""
    return [f"{name} ({_since(age)})" for name, age in ages.items() if age.written_since]


def _dumped(age: DumpAge) -> str:
    return f"dumped {age.dumped:%Y-%m-%dT%H:%M:%SZ}" if age.dumped else "dumped nobody knows when"


def _since(age: DumpAge) -> str:
    return f"{format_count(age.written_since, 'range')} or metaranges written since it was dumped"


def store_ages(ages: Ages) -> dict[str, Any]:
    """Ages as a plan has them."""
    return {name: msgspec.to_builtins(age) for name, age in ages.items()}


def load_ages(stored: Mapping[str, Any]) -> dict[str, DumpAge]:
    """The ages that a plan has."""
    return {name: msgspec.convert(age, DumpAge) for name, age in stored.items()}
