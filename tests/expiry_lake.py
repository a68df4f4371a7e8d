"""Tables that Iceberg 1.12 wrote and expired, with what it did for many arguments.

`data/iceberg-expiry.tar.xz` holds two buckets (a key is a relative path), the SQLite file of the
engine's JDBC catalog, and `expected/`: one case for each expiry. The engine's clock was set, so
each case has an exact `now_ms`. In a case, `document_after` is the metadata that the engine wrote,
`rule.deletable` what only removed snapshots reach, and `iceberg_damage` marks answers of the engine
that are wrong; `rule` decides those. Tables share files, so all of them must be known at once.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from lakesweep.storage.object_store import ObjectStore

ARCHIVE = Path(__file__).parent / "data" / "iceberg-expiry.tar.xz"


@dataclass(frozen=True)
class ExpiryCase:
    """One expiry: the arguments, and what the engine did."""

    name: str
    answer: Mapping[str, Any]

    def __str__(self) -> str:
        return self.name

    @property
    def table(self) -> str:
        return str(self.answer["table"])

    @property
    def now_ms(self) -> int:
        return int(self.answer["now_ms"])

    @property
    def metadata_before(self) -> str:
        return str(self.answer["metadata_before"])

    def document_after(self) -> dict[str, Any] | None:
        """The metadata that the engine wrote; None if it wrote none."""
        path = self.answer.get("document_after")
        return json.loads(archived()[f"expected/{path}"]) if path else None


@cache
def archived() -> Mapping[str, bytes]:
    """Every file of the archive."""
    with tarfile.open(ARCHIVE) as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive)
        return {name: file.read() for name, file in files if file is not None}


@cache
def expiry_cases() -> tuple[ExpiryCase, ...]:
    """All cases, in the order in which the engine ran them."""
    index = json.loads(archived()["expected/index.json"])
    return tuple(
        ExpiryCase(each["case"], json.loads(archived()[f"expected/{each['file']}"]))
        for each in index
    )


def object_at(path: str) -> bytes:
    """The object at an address of the lake."""
    return archived()["buckets/" + path.partition("://")[2]]


@dataclass
class ExpiryLake:
    """The unpacked lake."""

    folder: Path

    @classmethod
    def unpack(cls, folder: Path) -> ExpiryLake:
        for name, data in archived().items():
            if not name.startswith("expected/"):
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        return cls(folder)

    @property
    def catalog_uri(self) -> str:
        """Where PyIceberg's SQL catalog finds the engine's JDBC catalog, named `attic`."""
        return f"sqlite:///{self.folder / 'catalog.db'}"

    @cached_property
    def pointers(self) -> Mapping[str, str]:
        """Each table with its current metadata file."""
        return dict(json.loads(archived()["expected/catalog.json"]))

    def copy(self, folder: Path) -> ExpiryLake:
        """The same lake again, for whoever changes it."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return ExpiryLake(folder)

    def fill(self, bucket: str, store: ObjectStore) -> ObjectStore:
        """Write every object of a bucket into a store, and give the store back."""
        prefix = f"buckets/{bucket}/"
        for name, data in archived().items():
            if name.startswith(prefix):
                store.write(name.removeprefix(prefix), data)
        return store
