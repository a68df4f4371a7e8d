"""Iceberg tables that tests put together piece by piece, in a bucket in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Recording
from lakesweep.sweep.roots.root import RootKind, RootProblem, RootRow
from tests.unit.iceberg.test_manifests import FILE_FIELDS, LIST_SCHEMA, encode, entry_schema

BUCKET = "s3://lake"
_numbers = count()


@dataclass(frozen=True)
class File:
    """A file that a manifest names, with the status of its entry."""

    path: str
    content: int = 0
    status: int = 1
    format: str = "PARQUET"
    size_bytes: int = 7

    def entry(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "data_file": {
                "content": self.content,
                "file_path": self.path,
                "file_format": self.format,
                "file_size_in_bytes": self.size_bytes,
            },
        }


class Bucket:
    """The bucket `lake`, which remembers what was asked of it."""

    def __init__(self) -> None:
        self.store: ObjectStore = Stores().open(f"memory://tables-{next(_numbers)}/")
        self.recording = Recording(self.store)
        self.stores = Stores(replace={BUCKET: self.recording})

    def write(self, path: str, data: bytes) -> str:
        self.store.write(path.removeprefix(f"{BUCKET}/"), data)
        return path

    def read(self, path: str) -> bytes:
        return self.store.read(path.removeprefix(f"{BUCKET}/"))

    def delete(self, path: str) -> None:
        self.store.delete([path.removeprefix(f"{BUCKET}/")])

    def reads(self) -> list[str]:
        """What was read since the last call."""
        keys = [f"{BUCKET}/{key}" for key in self.recording.keys("read")]
        self.recording.calls.clear()
        return keys


@dataclass
class Table:
    """One table. `commit` writes its metadata as it is by then, and gives the address of it."""

    bucket: Bucket
    name: str
    document: dict[str, Any] = field(default_factory=dict)
    version: int = 0

    def __post_init__(self) -> None:
        self.document = {
            "format-version": 2,
            "table-uuid": f"uuid-of-{self.name}",
            "location": self.location,
            "snapshots": [],
            **self.document,
        }

    @property
    def location(self) -> str:
        return f"{BUCKET}/{self.name}"

    def path(self, name: str) -> str:
        return f"{self.location}/{name}"

    def data(self, name: str, **how: Any) -> File:
        """A file among the table's own."""
        return File(self.path(f"data/{name}"), **how)

    def manifest(self, name: str, *files: File) -> str:
        rows = [file.entry() for file in files]
        data = encode(entry_schema(FILE_FIELDS), rows)
        return self.bucket.write(self.path(f"metadata/{name}"), data)

    def snapshot(self, *manifests: str) -> None:
        """Add a snapshot with a list of manifests, which are stored already."""
        number = len(self.document["snapshots"]) + 1
        path = self.path(f"metadata/snap-{number}-{next(_numbers)}.avro")
        rows = [self._listed(manifest) for manifest in manifests]
        self.bucket.write(path, encode(LIST_SCHEMA, rows))
        self.document["snapshots"].append({"snapshot-id": number, "manifest-list": path})

    def _listed(self, path: str) -> dict[str, Any]:
        absolute = path if "://" in path else self.path(path)
        return {
            "manifest_path": path,
            "manifest_length": len(self.bucket.read(absolute)),
            "content": 0,
            "added_files_count": None,
            "existing_files_count": None,
            "deleted_files_count": None,
        }

    def commit(self) -> str:
        self.version += 1
        path = self.path(f"metadata/{self.version:05}-x.metadata.json")
        return self.bucket.write(path, json.dumps(self.document).encode())


@dataclass
class Names:
    """A source of roots: names of tables and views, and where each points."""

    pointers: dict[str, str] = field(default_factory=dict)
    views: Sequence[str] = ()
    name: str = "names"

    def collect(self) -> Iterator[RootRow | RootProblem]:
        return (self._row(name) for name in list(self.pointers))

    def look(self, root: RootRow) -> RootRow | None:
        return self._row(root.name) if root.name in self.pointers else None

    def _row(self, name: str) -> RootRow:
        kind = RootKind.ICEBERG_VIEW if name in self.views else RootKind.ICEBERG_TABLE
        return RootRow(name, kind, self.pointers[name], self.name)
