"""Manifests, manifest lists and index manifests as rows that can be written again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeAlias

#: A row by the names of Paimon's fields. Moments are numbers, as they stand in the file.
Row: TypeAlias = dict[str, Any]


class RowFormat(Protocol):
    """How the rows of a file were written, and others can be."""

    def encode(self, rows: Sequence[Row]) -> bytes:
        """A file of these rows."""
        ...

    def widened(self, other: Self) -> Self:
        """The same with fields that only another one of its kind has, behind its own."""
        ...
