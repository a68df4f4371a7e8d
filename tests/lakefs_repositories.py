"""Small repositories of lakeFS, as data and as files.

model = Model()
first = model.commit("main", {"foo/bar/a": entry("data/1", 11)}, days=11)
repository = write_repository(model, folder)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from lakesweep.errors import MissingError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.columns import STAGED, AddressType
from lakesweep.lakefs.ranges.blocks import commit_id
from lakesweep.lakefs.ranges.sstable import SSTableType
from lakesweep.lakefs.refs.commit_graph import (
    Refs,
    RepositoryBranch,
    RepositoryCommit,
    RepositoryTag,
    make_refs,
)
from tests.lakefs_tables import Entry, RangeOf, Written, write_table

#: Where the repositories lie, as their addresses tell it; their files are in folders.
LOCATION = "s3://lake/repo"
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
#: A range ends after a key whose hash is divided by this; about so many keys are in one.
_KEYS_IN_A_RANGE = 4

Tree = Mapping[str, Entry]


def ago(days: float, now: datetime = NOW) -> datetime:
    return now - timedelta(days=days)


def entry(address: str, days: float, *, full: bool = False, size: int = 10) -> Entry:
    """An object that came so many days ago."""
    seconds = int(ago(days).timestamp())
    kind = 2 if full else 1
    return Entry(address, seconds, size_bytes=size, checksum=f"c-{address}", type=kind)


@dataclass
class Made:
    """A commit with its whole tree."""

    id: str
    parents: tuple[str, ...]
    created: datetime
    tree: Tree
    metarange: Written | None
    ranges: tuple[Written, ...]


@dataclass
class Model:
    """A repository as dictionaries. A staged change is an address on a branch."""

    commits: dict[str, Made] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    staged: list[tuple[str, str]] = field(default_factory=list)

    def commit(
        self, branch: str | None, tree: Tree, *, days: float = 0, parents: Iterable[str] = ()
    ) -> str:
        """Commit a tree so many days ago, to a branch or to none; answers the id."""
        before = (self.branches[branch],) if branch in self.branches else ()
        ancestors = (*before, *parents)
        ranges = write_ranges(tree)
        metarange = write_metarange(ranges, tree) if tree else None
        created = ago(days)
        id_ = commit_id(
            "",
            f"commit {len(self.commits)}",
            metarange.id if metarange else "",
            int(created.timestamp()),
            {},
            ancestors,
        )
        self.commits[id_] = Made(id_, ancestors, created, dict(tree), metarange, ranges)
        if branch is not None:
            self.branches[branch] = id_
        return id_

    def refs(self) -> Refs:
        commits = (
            RepositoryCommit(
                made.id, made.parents, made.metarange.id if made.metarange else "", made.created
            )
            for made in self.commits.values()
        )
        branches = (RepositoryBranch(name, id_) for name, id_ in self.branches.items())
        tags = (RepositoryTag(name, id_) for name, id_ in self.tags.items())
        return make_refs(commits, branches, tags)


def _ends_range(key: bytes) -> bool:
    return hashlib.sha256(key).digest()[0] % _KEYS_IN_A_RANGE == 0


def _cut(tree: Tree) -> Iterator[list[bytes]]:
    keys: list[bytes] = []
    for key in sorted(each.encode("utf-8", "surrogateescape") for each in tree):
        keys.append(key)
        if _ends_range(key):
            yield keys
            keys = []
    if keys:
        yield keys


def write_ranges(tree: Tree) -> tuple[Written, ...]:
    values = {key.encode("utf-8", "surrogateescape"): made.value() for key, made in tree.items()}
    cut = ([(key, values[key]) for key in keys] for keys in _cut(tree))
    return tuple(write_table(records, SSTableType.RANGES) for records in cut)


def write_metarange(ranges: Iterable[Written], tree: Tree) -> Written:
    told = [
        (keys[-1], RangeOf(written.id, keys[0], keys[-1], len(written.data), len(keys)).value())
        for keys, written in zip(_cut(tree), ranges, strict=True)
    ]
    return write_table(told, SSTableType.METARANGES)


@dataclass(frozen=True)
class FolderFiles:
    """The files of a repository in a folder."""

    folder: str

    def read(self, id_: str, *, meta: bool) -> bytes:
        path = Path(self.folder, "_lakefs", id_)
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise MissingError(str(path), "is not there") from error


@dataclass(frozen=True)
class FolderRepository:
    """A repository of which the refs and what is staged are known.

    It pretends to lie in a bucket.
    """

    model: Model
    folder: str
    name: str = "repo"

    @property
    def namespace(self) -> StorageNamespace:
        return StorageNamespace(LOCATION)

    @property
    def files(self) -> FolderFiles:
        return FolderFiles(self.folder)

    @property
    def editor(self) -> None:
        return None

    def read_refs(self) -> Refs:
        return self.model.refs()

    def dump_age(self) -> None:
        return None

    def staged(self) -> Iterator[pa.RecordBatch]:
        rows = [
            {
                "branch": branch,
                "path": b"staged",
                "address": self.namespace.address(address),
                "address_type": AddressType.FULL,
                "size_bytes": 1,
                "checksum": "",
                "modified": NOW,
            }
            for branch, address in self.model.staged
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=STAGED)


def write_repository(model: Model, folder: Path) -> FolderRepository:
    """Write the files of a model; those that are there already stay."""
    below = folder / "_lakefs"
    below.mkdir(parents=True, exist_ok=True)
    for made in model.commits.values():
        for written in (*made.ranges, *([made.metarange] if made.metarange else [])):
            path = below / written.id
            if not path.exists():
                path.write_bytes(written.data)
    return FolderRepository(model, str(folder))
