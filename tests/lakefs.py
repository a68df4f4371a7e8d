"""The repositories that a real lakeFS server wrote, with the server's own answers.

`data/lakefs.tar.xz` holds the storage namespaces of nine repositories, whole, as they were at
`AS_OF`, and `landing`, from where one imported objects. On the server they were
`s3://lake/repos/<name>` and `s3://landing/`. In `oracle` is what its API said of each, and in
`decoded` what lakeFS' own reader makes of some files. The times of files mean nothing.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).parent / "data" / "lakefs.tar.xz"

#: The moment that all ages in these repositories count from.
AS_OF = datetime(2026, 11, 15, 12, tzinfo=UTC)

REPOSITORIES = (
    "actions",
    "analytics",
    "bare",
    "branches",
    "empty",
    "frozen",
    "objects",
    "random-1",
    "wide",
)


@dataclass(frozen=True)
class RealRepository:
    """One repository: the folder of its namespace, and what the server said of it."""

    name: str
    folder: Path
    oracle: Path

    def answer(self, what: str) -> Any:
        """What the server says of `commits`, `branches`, `tags`, `staged`, `repository`, `gc-1`."""
        return json.loads((self.oracle / f"{what}.json").read_text())

    @cached_property
    def entries(self) -> Mapping[str, list[Mapping[str, Any]]]:
        """The listing of every commit, by the commit's id."""
        found: dict[str, list[Mapping[str, Any]]] = {
            commit["id"]: [] for commit in self.answer("commits")
        }
        for line in (self.oracle / "entries.jsonl").read_text().split("\n"):
            if line:
                entry = json.loads(line)
                found[entry["commit_id"]].append(entry)
        return found

    @property
    def namespace(self) -> str:
        """What the server calls the namespace."""
        return f"s3://lake/repos/{self.name}"

    def tables(self) -> Iterator[Path]:
        """The files of all ranges and metaranges."""
        return (path for path in (self.folder / "_lakefs").iterdir() if len(path.name) == 64)

    def copy_to(self, folder: Path) -> RealRepository:
        """The same repository in a folder that a test may change."""
        shutil.copytree(self.folder, folder / self.name)
        return RealRepository(self.name, folder / self.name, self.oracle)


@dataclass(frozen=True)
class RealRepositories:
    """The unpacked repositories. They are shared by tests: whoever changes one takes a copy."""

    folder: Path

    @classmethod
    def unpack(cls, folder: Path) -> RealRepositories:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder, filter="data")
        return cls(folder)

    def repository(self, name: str) -> RealRepository:
        namespaces, oracles = self.folder / "namespaces", self.folder / "oracle"
        return RealRepository(name, namespaces / name, oracles / name)

    def __iter__(self) -> Iterator[RealRepository]:
        return (self.repository(name) for name in REPOSITORIES)

    def decoded(self) -> Iterator[Mapping[str, Any]]:
        """What lakeFS' own reader says of some files, each with the file's `path` below here."""
        for path in sorted((self.folder / "decoded").glob("*.json")):
            if path.name != "index.json":
                yield json.loads(path.read_text())
