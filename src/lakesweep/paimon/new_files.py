"""The files that one attempt to commit writes, before anybody can see them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from uuid import uuid4

from lakesweep.errors import LakesweepError
from lakesweep.paimon.manifest_rows import list_row
from lakesweep.paimon.rows import Row, RowFormat
from lakesweep.paimon.table import Branch
from lakesweep.storage.address import parse

_TARGET_BYTES = 8 << 20


class NewFiles:
    """Writes manifests and their lists under names that nobody else has.

    Until a snapshot names them they are orphans. `remove` deletes them, and is only for an attempt
    that certainly lost: what may have been committed must stay.
    """

    def __init__(self, branch: Branch) -> None:
        self._branch = branch
        self._token = uuid4()
        self._numbers: dict[str, count[int]] = {}
        self._written: list[str] = []

    def manifests(self, entries: Sequence[Row], how: RowFormat) -> list[Row]:
        """Write entries as manifests of the size that the table wants; the rows of their list."""
        options = self._branch.layout.options
        target = options.size_bytes("manifest.target-file-size", _TARGET_BYTES)
        data = how.encode(entries)
        parts = min(-(-len(data) // max(target, 1)), len(entries))
        if parts <= 1:
            return [self._manifest(entries, data)]
        size = -(-len(entries) // parts)
        chunks = [entries[at : at + size] for at in range(0, len(entries), size)]
        return [self._manifest(chunk, how.encode(chunk)) for chunk in chunks]

    def manifest_list(self, rows: Sequence[Row], how: RowFormat) -> tuple[str, int]:
        """Write a list; its name and its size."""
        data = how.encode(rows)
        return self._write("manifest-list", data), len(data)

    def index_manifest(self, rows: Sequence[Row], how: RowFormat) -> str:
        """Write an index manifest; its name."""
        return self._write("index-manifest", how.encode(rows))

    def remove(self) -> None:
        """Delete what was written; what cannot be deleted stays as an orphan."""
        for path in self._written:
            address = parse(path)
            with suppress(LakesweepError):
                self._branch.table.stores.open(address).delete([address.key])
        self._written.clear()

    def _manifest(self, entries: Sequence[Row], data: bytes) -> Row:
        name = self._write("manifest", data)
        return list_row(name, len(data), entries, self._branch.layout.partitioning)

    def _write(self, kind: str, data: bytes) -> str:
        number = next(self._numbers.setdefault(kind, count()))
        name = f"{kind}-{self._token}-{number}"
        path = self._branch.layout.manifest(name)
        address = parse(path)
        self._written.append(path)  # first: a write without an answer may have written
        self._branch.table.stores.open(address).write(address.key, data)
        return name
