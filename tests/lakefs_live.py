"""A repository of its own on a real lakeFS server, and all that tests do to it, over its API.

`LAKESWEEP_TEST_LAKEFS_ENDPOINT` names the server, `LAKESWEEP_TEST_LAKEFS_NAMESPACE` an address
below which it may create storage namespaces (`local://lakesweep-tests` if nobody says), and
`LAKESWEEP_TEST_LAKEFS_ROOT` the folder in which it keeps `local://` ones, by the server's own name
for it. The variables of lakeFS' own tools have its credentials.
"""

from __future__ import annotations

import os
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lakefs_sdk import models
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.exceptions import ApiException

from lakesweep.clock import SystemClock
from lakesweep.lakefs.client.access import access_from

ENDPOINT = os.environ.get("LAKESWEEP_TEST_LAKEFS_ENDPOINT", "")
NAMESPACE = os.environ.get("LAKESWEEP_TEST_LAKEFS_NAMESPACE", "local://lakesweep-tests")
ROOT = os.environ.get("LAKESWEEP_TEST_LAKEFS_ROOT")

_PAGE = 1000
_GONE = 410


class LaterClock(SystemClock):
    """The machine's clock, so many days later. Nothing on a server can be made older than it is."""

    days = 0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(days=self.days)


def name_of(address: str) -> str:
    """What an object is called, of whose address servers have several spellings."""
    return address.rpartition("/")[2]


@dataclass
class Live:
    """The repository. `foreign` are objects that some entry names in full, as an import does."""

    client: Any
    name: str
    foreign: set[str] = field(default_factory=set)

    @property
    def namespace(self) -> str:
        """Where its objects lie, as we read them."""
        told = f"{NAMESPACE}/{self.name}"
        return told.replace("local:/", ROOT) if ROOT and told.startswith("local:") else told

    @property
    def is_local(self) -> bool:
        return NAMESPACE.startswith("local:")

    def put(self, branch: str, path: str, content: str) -> str:
        """Upload an object, and give its name."""
        data = content.encode()
        told = self.client.objects_api.upload_object(self.name, branch, path, content=data)
        return name_of(told.physical_address)

    def stat(self, ref: str, path: str) -> Any:
        return self.client.objects_api.stat_object(self.name, ref, path)

    def link(self, branch: str, path: str, source: Any) -> None:
        """Stage an object, as `stat` tells of it, under another path too."""
        said = models.ObjectStageCreation(
            physical_address=source.physical_address,
            checksum=source.checksum,
            size_bytes=source.size_bytes,
        )
        with warnings.catch_warnings():  # no other call puts one object under several paths
            warnings.simplefilter("ignore", DeprecationWarning)
            self.client.internal_api.stage_object(self.name, branch, path, said)
        if self.is_local:
            self.foreign.add(name_of(source.physical_address))  # such servers write it in full

    def take_in(self, branch: str, path: str, source: Any) -> None:
        """Import an object of another repository, if need be by linking it."""
        if self.is_local:  # where imports are off, unless the server is told otherwise
            self.link(branch, path, source)
            self.commit(branch)
            return
        where = models.ImportLocation(type="object", path=source.physical_address, destination=path)
        commit = models.CommitCreation(message="imported")
        said = models.ImportCreation(paths=[where], commit=commit)
        task = self.client.import_api.import_start(self.name, branch, said).id
        while not self.client.import_api.import_status(self.name, branch, task).completed:
            time.sleep(0.1)

    def remove(self, branch: str, *paths: str) -> None:
        for path in paths:
            self.client.objects_api.delete_object(self.name, branch, path)

    def commit(self, branch: str, message: str = "a commit") -> str:
        said = models.CommitCreation(message=message)
        return str(self.client.commits_api.commit(self.name, branch, said).id)

    def branch(self, name: str, source: str, *, hidden: bool = False) -> None:
        said = models.BranchCreation(name=name, source=source, hidden=hidden)
        self.client.branches_api.create_branch(self.name, said)

    def drop_branch(self, name: str) -> None:
        self.client.branches_api.delete_branch(self.name, name)

    def protect(self, pattern: str) -> None:
        """Let nobody write to branches but by merges."""
        rules = [models.BranchProtectionRule(pattern=pattern)]
        self.client.repositories_api.set_branch_protection_rules(self.name, rules)

    def tag(self, name: str, ref: str) -> None:
        self.client.tags_api.create_tag(self.name, models.TagCreation(id=name, ref=ref))

    def merge(self, source: str, branch: str) -> str:
        said = self.client.refs_api.merge_into_branch(self.name, source, branch)
        return str(said.reference)

    def reset(self, branch: str) -> None:
        """Drop what is staged."""
        said = models.ResetCreation(type="reset")
        self.client.branches_api.reset_branch(self.name, branch, said)

    def heads(self) -> Mapping[str, str]:
        """The commits of all branches, hidden ones too."""
        told = self.client.branches_api.list_branches(self.name, amount=_PAGE, show_hidden=True)
        return {each.id: each.commit_id for each in told.results}

    def tags(self) -> Mapping[str, str]:
        told = self.client.tags_api.list_tags(self.name, amount=_PAGE)
        return {each.id: each.commit_id for each in told.results}

    def logged(self, ref: str) -> Mapping[str, Any]:
        """All commits that a ref reaches."""
        told = self.client.refs_api.log_commits(self.name, ref, amount=_PAGE).results
        return {each.id: each for each in told}

    def listed(self, ref: str) -> list[Any]:
        """What a branch, with what is staged on it, a tag or a commit shows."""
        found: list[Any] = []
        after = ""
        while True:
            told = self.client.objects_api.list_objects(self.name, ref, after=after, amount=_PAGE)
            found += told.results
            if not told.pagination.has_more:
                return found
            after = told.pagination.next_offset

    def read(self, ref: str, path: str) -> bytes | None:
        """What is read of a path; None where its bytes are gone."""
        try:
            return bytes(self.client.objects_api.get_object(self.name, ref, path))
        except ApiException as error:
            if error.status != _GONE:
                raise
            return None

    def shown(self) -> Mapping[tuple[str, str], bytes | None]:
        """All that readers of branches and tags get."""
        return {
            (ref, each.path): self.read(ref, each.path)
            for ref in (*self.heads(), *self.tags())
            for each in self.listed(ref)
        }


@contextmanager
def live_repository() -> Iterator[Live]:
    """A repository for one test. Its objects stay: no server deletes any."""
    access = access_from(os.environ, ENDPOINT)
    settings = Configuration(
        host=access.url, username=access.access_key_id, password=access.secret_access_key
    )
    live = Live(LakeFSClient(settings), f"lakesweep-{uuid.uuid4().hex[:12]}")
    said = models.RepositoryCreation(name=live.name, storage_namespace=f"{NAMESPACE}/{live.name}")
    live.client.repositories_api.create_repository(said)
    try:
        yield live
    finally:
        live.client.repositories_api.delete_repository(live.name)
