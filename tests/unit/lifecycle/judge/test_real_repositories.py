"""Repositories that a real server wrote, judged as the oracle judges the server's own listings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.columns import STAGED, AddressType
from lakesweep.lakefs.refs.commit_graph import (
    Refs,
    RepositoryBranch,
    RepositoryCommit,
    RepositoryTag,
    make_refs,
)
from tests.lakefs import REPOSITORIES, RealRepositories, RealRepository
from tests.lakefs_repositories import FolderFiles, Made, Model
from tests.lakefs_tables import Entry
from tests.lifecycle_oracle import expired
from tests.lifecycle_runs import going, judge, policy_of

_WHOLE = {"prefix": "", "allow_empty_prefix": True}
POLICIES: list[dict[str, Any]] = [
    {"all": {**_WHOLE, "days": 30}},
    {"all": {**_WHOLE, "days": 90, "branch_days": {"main": 10}, "tag_days": {"*": 60}}},
    {"foo": {"prefix": "foo", "days": 7, "expire_heads": True}, "all": {**_WHOLE, "days": 200}},
    {"some": {"prefix": "s*", "days": 20}, "t": {"prefix": "tables/t1", "days": 60}},
]


@dataclass(frozen=True)
class Served:
    """A repository of which the server's own answers are known."""

    real: RealRepository

    @property
    def name(self) -> str:
        return self.real.name

    @property
    def namespace(self) -> StorageNamespace:
        return StorageNamespace(self.real.namespace)

    @property
    def files(self) -> FolderFiles:
        return FolderFiles(str(self.real.folder))

    @property
    def editor(self) -> None:
        return None

    def read_refs(self) -> Refs:
        commits = (
            RepositoryCommit(
                each["id"], tuple(each["parents"]), each["meta_range_id"], _created(each)
            )
            for each in self.real.answer("commits")
        )
        branches = (
            RepositoryBranch(each["id"], each["commit_id"]) for each in self.real.answer("branches")
        )
        tags = (RepositoryTag(each["id"], each["commit_id"]) for each in self.real.answer("tags"))
        return make_refs(commits, branches, tags)

    def dump_age(self) -> None:
        return None

    def staged(self) -> Iterator[pa.RecordBatch]:
        rows = [
            {
                "branch": branch,
                "path": entry["path"].encode(),
                "address": entry["physical_address"],
                "address_type": AddressType.FULL,
                "size_bytes": entry["size_bytes"],
                "checksum": "",
                "modified": datetime.fromtimestamp(entry["mtime"], UTC),
            }
            for branch, told in self.real.answer("staged").items()
            for entry in told["entries"]
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=STAGED)

    def model(self) -> Model:
        """What the server's listings say, for the oracle."""
        trees = {
            id_: {each["path"]: self._entry(each) for each in entries}
            for id_, entries in self.real.entries.items()
        }
        made = {
            each["id"]: Made(
                each["id"], tuple(each["parents"]), _created(each), trees[each["id"]], None, ()
            )
            for each in self.real.answer("commits")
        }
        refs = self.read_refs()
        staged = [
            (row["branch"], self._key(row["address"]))
            for batch in self.staged()
            for row in batch.to_pylist()
        ]
        return Model(
            made,
            {branch.name: branch.commit_id for branch in refs.branches},
            {tag.name: tag.commit_id for tag in refs.tags},
            staged,
        )

    def _key(self, address: str) -> str:
        return address.removeprefix(f"{self.real.namespace}/")

    def _entry(self, told: Any) -> Entry:
        kind = 1 if told["physical_address_type"] == "RELATIVE" else 2
        # The oracle knows where its own repositories lie.
        address = told["address"].replace(f"{self.real.namespace}/", "s3://lake/repo/")
        return Entry(address, told["mtime"], type=kind)


def _created(told: Any) -> datetime:
    return datetime.fromtimestamp(told["creation_date"], UTC)


@pytest.mark.parametrize("name", REPOSITORIES)
def test_goes_what_the_oracle_lets_go(
    lakefs_repositories: RealRepositories, folder: Path, name: str
) -> None:
    served = Served(lakefs_repositories.repository(name))
    model = served.model()
    for rules in POLICIES:
        policy = policy_of(rules)
        assert going(judge(served, policy, folder)) == expired(model, policy)


@pytest.mark.parametrize("name", ["analytics", "branches", "random-1"])
def test_the_first_policy_lets_something_go(
    lakefs_repositories: RealRepositories, name: str
) -> None:
    model = Served(lakefs_repositories.repository(name)).model()
    assert expired(model, policy_of(POLICIES[0]))
