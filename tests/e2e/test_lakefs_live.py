"""Reading a repository of a real lakeFS server, over its API; see `conftest.py` for when it runs.

`LAKESWEEP_TEST_LAKEFS_ENDPOINT` names the server, `LAKESWEEP_TEST_LAKEFS_NAMESPACE` an address
below which it may create a storage namespace (`local://lakesweep-tests` if nobody says), and
`LAKESWEEP_TEST_LAKEFS_ROOT` the folder in which it keeps `local://` ones. The variables of lakeFS'
own tools have its credentials.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.models import (
    BranchCreation,
    CommitCreation,
    RepositoryCreation,
    TagCreation,
)

from lakesweep.lakefs.finding import ServerPlace, open_repository
from lakesweep.lakefs.reading import Trees
from lakesweep.lakefs.repository import Repository
from lakesweep.lakefs.server import access_from
from lakesweep.storage.stores import Stores

ENDPOINT = os.environ["LAKESWEEP_TEST_LAKEFS_ENDPOINT"]


@dataclass(frozen=True)
class Live:
    """A repository of its own on the server, and lakeFS' client to write to it."""

    client: Any
    name: str

    def put(self, branch: str, path: str, content: bytes) -> None:
        self.client.objects_api.upload_object(self.name, branch, path, content=content)

    def commit(self, branch: str) -> str:
        said = CommitCreation(message="a commit")
        return str(self.client.commits_api.commit(self.name, branch, said).id)

    def opened(self) -> Repository:
        root = os.environ.get("LAKESWEEP_TEST_LAKEFS_ROOT")
        place = ServerPlace(ENDPOINT, (self.name,), root)
        return open_repository(self.name, Stores(), (place,), os.environ)


@pytest.fixture
def live() -> Iterator[Live]:
    access = access_from(os.environ, ENDPOINT)
    settings = Configuration(
        host=access.url, username=access.access_key_id, password=access.secret_access_key
    )
    client = LakeFSClient(settings)
    name = f"lakesweep-{uuid.uuid4().hex[:12]}"
    namespace = os.environ.get("LAKESWEEP_TEST_LAKEFS_NAMESPACE", "local://lakesweep-tests")
    client.repositories_api.create_repository(
        RepositoryCreation(name=name, storage_namespace=f"{namespace}/{name}")
    )
    yield Live(client, name)
    client.repositories_api.delete_repository(name)


def test_a_story_over_the_api(live: Live) -> None:
    live.put("main", "a", b"one")
    live.put("main", "b", b"two")
    first = live.commit("main")
    said = BranchCreation(name="work", source="main", hidden=True)
    live.client.branches_api.create_branch(live.name, said)
    live.client.tags_api.create_tag(live.name, TagCreation(id="v1", ref=first))
    live.put("work", "c", b"three")
    dangling = live.commit("work")
    live.client.branches_api.delete_branch(live.name, "work")
    live.client.branches_api.create_branch(live.name, said)
    live.put("work", "a", b"one")  # equal content, at an address of its own

    repository = live.opened()
    staged = [row for batch in repository.staged() for row in batch.to_pylist()]
    assert [(row["branch"], row["path"]) for row in staged] == [("work", b"a")]
    refs = repository.read_refs()
    assert refs.dangling() == {dangling}
    assert {branch.name: branch.hidden for branch in refs.branches} == {"main": False, "work": True}
    assert refs.find("v1").id == refs.find("main").id == first

    trees = Trees(repository.files, repository.namespace)
    for id_ in (first, dangling):
        rows = [
            row
            for batch in trees.entries(refs.commits[id_].metarange_id)
            for row in batch.to_pylist()
        ]
        told = live.client.objects_api.list_objects(live.name, id_).results
        assert [row["path"].decode() for row in rows] == [each.path for each in told]
        assert [row["size_bytes"] for row in rows] == [each.size_bytes for each in told]
        assert [row["checksum"] for row in rows] == [each.checksum for each in told]
