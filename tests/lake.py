"""The lake that the Java engine wrote, with the engine's own answers.

`data/iceberg.tar.xz` holds the content of bucket `lake` (a key is a relative path), the SQLite file
of the engine's JDBC catalog, and what the engine says that each table references.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.storage.address import identity
from lakesweep.storage.object_store import ObjectStore

ARCHIVE = Path(__file__).parent / "data" / "iceberg.tar.xz"
BUCKET = "lake"

_KINDS = {"metadata-json": IcebergKind.METADATA}


@dataclass(frozen=True)
class EngineTable:
    """One table or view, as the engine answers for it."""

    name: str
    answer: Mapping[str, Any]

    @property
    def metadata_path(self) -> str:
        return str(self.answer["metadata-location"])

    @property
    def is_view(self) -> bool:
        return "view" in self.answer

    def referenced(self) -> set[tuple[str, str]]:
        """(kind, identity) of everything that it references."""
        return {
            (self._kind(name), identity(path))
            for name, paths in self.answer["referenced"].items()
            for path in paths
        }

    def purged(self) -> set[str]:
        """The identities of all that a purge takes: also metadata that only older logs name."""
        older = self.answer.get("older-metadata-reached-through-log", ())
        return {path for _, path in self.referenced()} | {identity(path) for path in older}

    def _kind(self, name: str) -> str:
        if self.is_view:
            return IcebergKind.VIEW_METADATA
        return _KINDS.get(name, name)


@dataclass
class EngineLake:
    """The unpacked lake."""

    folder: Path

    @classmethod
    def unpack(cls, folder: Path) -> EngineLake:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder, filter="data")
        return cls(folder)

    @property
    def bucket(self) -> Path:
        """The folder that holds the content of the bucket."""
        return self.folder / "lake"

    @property
    def catalog_uri(self) -> str:
        """Where PyIceberg's SQL catalog finds the engine's JDBC catalog."""
        return f"sqlite:///{self.folder / 'catalog.db'}"

    def copy_catalog(self, folder: Path) -> str:
        """A copy of the catalog, for whoever changes it; gives its URI."""
        copy = EngineLake(folder)
        shutil.copy(self.folder / "catalog.db", folder)
        return copy.catalog_uri

    @cached_property
    def objects(self) -> Mapping[str, bytes]:
        """Every key with its bytes, as they were unpacked."""
        files = (path for path in sorted(self.bucket.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.bucket)): path.read_bytes() for path in files}

    def fill(self, store: ObjectStore) -> ObjectStore:
        """Write every object into a store, and give the store back."""
        for key, data in self.objects.items():
            store.write(key, data)
        return store

    def tables(self) -> list[EngineTable]:
        return [*self._answers("tables", "table"), *self._answers("views", "view")]

    def table(self, name: str) -> EngineTable:
        return next(table for table in self.tables() if table.name == name)

    def orphans(self) -> Mapping[str, Any]:
        """What no table or view references."""
        return dict(json.loads((self.folder / "expected" / "orphans.json").read_text()))

    def _answers(self, folder: str, key: str) -> Iterator[EngineTable]:
        for path in sorted((self.folder / "expected" / folder).glob("*.json")):
            answer = json.loads(path.read_text())
            yield EngineTable(answer[key], answer)


def table_names() -> list[str]:
    """The names of all tables and views, read from the archive without unpacking it."""
    with tarfile.open(ARCHIVE) as archive:
        return sorted(
            Path(member).stem
            for member in archive.getnames()
            if member.startswith(("expected/tables/", "expected/views/"))
        )
