"""A repository that answers as its server did, and does what tests tell it to do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakesweep.errors import LakesweepError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.columns import STAGED
from lakesweep.lakefs.ranges.reader import RangeFiles
from lakesweep.lakefs.refs.commit_graph import (
    Refs,
    RepositoryBranch,
    RepositoryCommit,
    RepositoryTag,
    make_refs,
)
from lakesweep.lakefs.repository.interface import DumpAge
from lakesweep.lakefs.repository.stored import StoredFiles
from lakesweep.storage.stores import Stores
from tests.lakefs import RealRepository


@dataclass
class RecordedRepository:
    """What a server said, and what came since: commits, branches, tags, and staged entries.

    `broken` is what the server answers with instead. With `age` the refs are those of a dump.
    """

    real: RealRepository
    commits: dict[str, RepositoryCommit] = field(default_factory=dict)
    branches: dict[str, RepositoryBranch] = field(default_factory=dict)
    tags: dict[str, RepositoryTag] = field(default_factory=dict)
    staging: list[dict[str, Any]] = field(default_factory=list)
    broken: LakesweepError | None = None
    age: DumpAge | None = None

    def __post_init__(self) -> None:
        self.commits = {each["id"]: _commit(each) for each in self.real.answer("commits")}
        self.branches = {
            each["id"]: RepositoryBranch(each["id"], each["commit_id"], each["hidden"])
            for each in self.real.answer("branches")
        }
        self.tags = {
            each["id"]: RepositoryTag(each["id"], each["commit_id"])
            for each in self.real.answer("tags")
        }
        self.staging = [
            _staged(branch, each)
            for branch, answer in self.real.answer("staged").items()
            for each in answer["entries"]
        ]

    @property
    def name(self) -> str:
        return self.real.name

    @cached_property
    def namespace(self) -> StorageNamespace:
        return StorageNamespace(str(self.real.folder), (self.real.namespace,))

    @property
    def files(self) -> RangeFiles:
        return StoredFiles(Stores(), self.namespace)

    @property
    def editor(self) -> None:
        return None

    def read_refs(self) -> Refs:
        if self.broken is not None:
            raise self.broken
        return make_refs(self.commits.values(), self.branches.values(), self.tags.values())

    def dump_age(self) -> DumpAge | None:
        return self.age

    def staged(self) -> Iterator[pa.RecordBatch]:
        if self.broken is not None:
            raise self.broken
        yield pa.RecordBatch.from_pylist(self.staging, schema=STAGED)

    def stage(self, branch: str, path: str, address: str) -> None:
        """Let a branch show an entry that its HEAD does not have."""
        self.staging.append(
            {
                "branch": branch,
                "path": path.encode(),
                "address": self.namespace.address(address),
                "address_type": "full",
                "size_bytes": 1,
                "checksum": "",
                "modified": datetime.now(UTC),
            }
        )


def _commit(answer: Mapping[str, Any]) -> RepositoryCommit:
    return RepositoryCommit(
        answer["id"],
        tuple(answer["parents"]),
        answer["meta_range_id"],
        datetime.fromtimestamp(answer["creation_date"], UTC),
        answer["committer"],
        answer["message"],
        answer["version"],
        answer["generation"],
    )


def _staged(branch: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "branch": branch,
        "path": answer["path"].encode(),
        "address": answer["physical_address"],
        "address_type": "full",
        "size_bytes": answer["size_bytes"],
        "checksum": answer["checksum"],
        "modified": datetime.fromtimestamp(answer["mtime"], UTC),
    }
