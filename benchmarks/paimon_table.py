"""Large Paimon tables, quickly made: one with orphans beside its files, one with many snapshots.

The files are empty; the metadata is what Java's library reads and would have written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from lakesweep.paimon.model.binary_row import encode_row
from lakesweep.paimon.model.data_types import parse_type
from tests.paimon_tables import LIST_SCHEMA, NO_PARTITION, File, Row, encode, entry_schema

PARTITIONS = 2_000
_IN_A_MANIFEST = 30_000
_STATS = {"_MIN_VALUES": NO_PARTITION, "_MAX_VALUES": NO_PARTITION, "_NULL_COUNTS": []}
_MERGED_AT = 30


@dataclass
class BigTable:
    """`db.t` of the warehouse `folder`, an append table of partitions `dt`.

    All files were written at one `moment`, in seconds since 1970.
    """

    folder: Path
    moment: float
    _names: Iterator[int] = field(default_factory=count)

    @property
    def path(self) -> Path:
        return self.folder / "db.db" / "t"

    def make(self) -> None:
        """An empty table, without a snapshot."""
        for name in ("schema", "snapshot", "manifest"):
            (self.path / name).mkdir(parents=True)
        for part in range(PARTITIONS):
            (self.path / _folder(part)).mkdir(parents=True)
        self._write("schema/schema-0", json.dumps(_schema()).encode())

    def name(self, prefix: str) -> str:
        """A name that no other file of the table has, as Paimon gives it."""
        number = next(self._names)
        return f"{prefix}-{number * 2654435761 % 2**32:08x}-6d3f-4f0c-9a51-{number:012x}-0"

    def touch(self, paths: Iterable[str]) -> None:
        moment = int(self.moment * 1e9)
        for path in paths:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
            os.utime(path, ns=(moment, moment))

    def place(self, part: int) -> str:
        """The address of a new data file in a partition."""
        return f"{self.path}/{_folder(part)}{self.name('data')}.parquet"

    def manifest(self, entries: Sequence[tuple[int, int, str]]) -> Row:
        """A manifest of kinds, partitions and paths, as the row that lists have of it."""
        name = self.name("manifest")
        data = encode(entry_schema(), (_entry(*entry) for entry in entries))
        self._write(f"manifest/{name}", data)
        parts = [part for _, part, _ in entries]
        added = sum(kind == 0 for kind, _, _ in entries)
        stats = {"_MIN_VALUES": _row(min(parts)), "_MAX_VALUES": _row(max(parts))}
        return {
            "_VERSION": 2,
            "_FILE_NAME": name,
            "_FILE_SIZE": len(data),
            "_NUM_ADDED_FILES": added,
            "_NUM_DELETED_FILES": len(entries) - added,
            "_PARTITION_STATS": {**stats, "_NULL_COUNTS": [0]},
            "_SCHEMA_ID": 0,
        }

    def commit(self, number: int, base: Sequence[Row], delta: Sequence[Row]) -> None:
        """A snapshot of manifests that are there."""
        document = {
            "version": 3,
            "id": number,
            "schemaId": 0,
            "baseManifestList": self._list(base),
            "deltaManifestList": self._list(delta),
            "changelogManifestList": None,
            "commitUser": "bench",
            "commitIdentifier": number,
            "commitKind": "APPEND",
            "timeMillis": int(self.moment * 1000) + number,
            "totalRecordCount": 0,
            "deltaRecordCount": 0,
        }
        self._write(f"snapshot/snapshot-{number}", json.dumps(document).encode())

    def hint(self, earliest: int, latest: int) -> None:
        self._write("snapshot/EARLIEST", str(earliest).encode())
        self._write("snapshot/LATEST", str(latest).encode())

    def _list(self, manifests: Sequence[Row]) -> str:
        name = self.name("manifest-list")
        self._write(f"manifest/{name}", encode(LIST_SCHEMA, manifests))
        return name

    def _write(self, name: str, data: bytes) -> None:
        path = self.path / name
        path.write_bytes(data)
        os.utime(path, (self.moment, self.moment))


@dataclass
class Littered:
    """A table of so many live data files, and as many orphans as are wanted beside them."""

    table: BigTable
    live: int
    orphans: int

    def make(self) -> None:
        """Write the table; the orphans are planted by themselves."""
        self.table.make()
        files = [(0, at % PARTITIONS, self.table.place(at % PARTITIONS)) for at in range(self.live)]
        self.table.touch(path for _, _, path in files)
        starts = range(0, len(files), _IN_A_MANIFEST)
        manifests = [self.table.manifest(files[at : at + _IN_A_MANIFEST]) for at in starts]
        self.table.commit(1, [], manifests)
        self.table.hint(1, 1)

    def found_by(self, count: int) -> bool:
        """Whether so many are all orphans, but for those that a filter takes for live ones."""
        return 0.999 * self.orphans <= count <= self.orphans

    def plant(self) -> list[str]:
        """Make orphans, under new names; gives their paths."""
        paths = [self.table.place(at % PARTITIONS) for at in range(self.orphans)]
        self.table.touch(paths)
        return paths


def write_history(table: BigTable, snapshots: int) -> None:
    """A table whose every commit replaces one of its files."""
    table.make()
    base: list[Row] = []
    live: list[tuple[int, int, str]] = []
    for number in range(1, snapshots + 1):
        part = number % PARTITIONS
        added = (0, part, table.place(part))
        table.touch([added[2]])
        gone = [(1, *entry[1:]) for entry in live[:1]] if number > 10 else []
        live = [*live[len(gone) :], added]
        delta = [table.manifest([*gone, added])]
        table.commit(number, base, delta)
        base = [table.manifest(live)] if len(base) >= _MERGED_AT else [*base, *delta]
    table.hint(1, snapshots)


def _folder(part: int) -> str:
    return f"dt={_day(part)}/bucket-0/"


def _day(part: int) -> str:
    return f"{2000 + part // 336}-{part // 28 % 12 + 1:02}-{part % 28 + 1:02}"


def _row(part: int) -> bytes:
    return encode_row([_day(part)], [parse_type("STRING")])


def _entry(kind: int, part: int, path: str) -> Row:
    row = File(path.rpartition("/")[2], kind, _row(part), size_bytes=0).row()
    row["_TOTAL_BUCKETS"] = -1
    row["_FILE"] |= {"_KEY_STATS": _STATS, "_VALUE_STATS": _STATS}
    return row


def _schema() -> dict[str, Any]:
    fields = [("id", "INT"), ("dt", "STRING")]
    return {
        "version": 3,
        "id": 0,
        "fields": [{"id": at, "name": n, "type": t} for at, (n, t) in enumerate(fields)],
        "highestFieldId": 1,
        "partitionKeys": ["dt"],
        "primaryKeys": [],
        "options": {"bucket": "-1", "file.format": "parquet"},
        "timeMillis": 0,
    }
