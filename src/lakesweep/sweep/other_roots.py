"""Roots that are lists of addresses, or that this version cannot read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesweep.errors import DamagedError, UsageError
from lakesweep.storage.address import parse
from lakesweep.storage.pins import read_pins
from lakesweep.sweep.roots import RootKind, RootProblem, RootRow

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores


@dataclass(frozen=True)
class PinnedRoots:
    """A list of addresses: each keeps the file of that name, and all that lies below it."""

    stores: Stores
    file: str

    @property
    def name(self) -> str:
        return f"pinned {self.file}"

    def collect(self) -> Iterator[RootRow | RootProblem]:
        yield self._row()

    def look(self, _: RootRow) -> RootRow | None:
        return self._row()

    def _row(self) -> RootRow:
        pins = read_pins(self.stores, self.file)
        for pin in pins:
            _check(self.file, pin)
        version = hashlib.sha256("\n".join(pins).encode()).hexdigest()
        return RootRow(self.file, RootKind.PINNED, version, self.name, locations=tuple(pins))


def _check(file: str, pin: str) -> None:
    try:
        parse(pin)
    except UsageError as error:
        raise DamagedError(file, error.message, hint=error.hint) from error
