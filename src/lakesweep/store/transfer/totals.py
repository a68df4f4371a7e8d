"""How much there is in an export, and the hash of all of it."""

from __future__ import annotations

import hashlib

from lakesweep.store.transfer.lines import (
    EndLine,
    Line,
    ObjectLine,
    PieceLine,
    ReferenceLine,
    RowLine,
)

_MODULUS = 2**256


class Totals:
    """Counts the lines of an export, and sums up their hashes.

    The content hash is the sum of the SHA-256 of every line but the first and the last, as JSON
    without its checksum, modulo 2**256: so it does not depend on the order, nor on the database.
    """

    def __init__(self) -> None:
        self.references = 0
        self.items = 0
        self.size_bytes = 0
        self._sum = 0

    @property
    def hash(self) -> str:
        return f"{self._sum % _MODULUS:064x}"

    def add(self, line: Line, text: bytes) -> None:
        """Count a line, which is this text in JSON."""
        match line:
            case ObjectLine():
                self.items += 1
                self.size_bytes += len(line.payload)
            case RowLine():
                self.items += 1
                self.size_bytes += len(line.value)
            case PieceLine():
                self.size_bytes += len(line.payload)
            case ReferenceLine():
                self.references += 1
            case _:
                return
        self._sum += int.from_bytes(hashlib.sha256(text, usedforsecurity=False).digest(), "big")

    def end(self) -> EndLine:
        """The last line of an export of so much."""
        return EndLine(
            references=self.references, items=self.items, bytes=self.size_bytes, hash=self.hash
        )
