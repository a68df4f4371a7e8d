"""A repository on a server: refs from a fresh dump, files from its store or the server."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from lakesweep.errors import (
    ConfigError,
    IncompleteError,
    LakesweepError,
    MissingError,
    StorageError,
)
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.ranges.reader import RangeFiles, Trees
from lakesweep.lakefs.refs.commit_graph import Refs, RepositoryBranch
from lakesweep.lakefs.refs.dumps import read_dump
from lakesweep.lakefs.repository.interface import DumpAge
from lakesweep.lakefs.repository.stored import StoredFiles
from lakesweep.lakefs.server.branch_editor import BranchEditor
from lakesweep.lakefs.server.client import Server
from lakesweep.lakefs.server.staging import staged_entries
from lakesweep.storage.stores import Stores

_LOCAL = "local://"
_COMMIT = re.compile("[0-9a-f]{1,64}")


class ServedFiles:
    """The files of a repository, from its store if that is readable, else from its server.

    Ids verify the contents, whichever source they come from. This process does not use a store
    again that failed once: retries would cost more than the detour.
    """

    def __init__(self, server: Server, repository: str, stored: StoredFiles) -> None:
        self._server = server
        self._repository = repository
        self._stored = stored
        self._asks_store = True

    def read(self, id_: str, *, meta: bool) -> bytes:
        """Read a file from either."""
        if self._asks_store:
            try:
                return self._stored.read(id_, meta=meta)
            except LakesweepError:
                self._asks_store = False
        kind = "meta_range" if meta else "range"
        return self._server.metadata(self._repository, id_, kind)


class ServedRepository:
    """A repository by name. `local_root` is where the server stores `local://` namespaces."""

    def __init__(
        self, server: Server, name: str, stores: Stores, *, local_root: str | None = None
    ) -> None:
        self.name = name
        self._server = server
        told = trim_namespace(server.repository(name).storage_namespace)
        self.namespace = find_namespace(told, local_root)
        stored = StoredFiles(stores, self.namespace)
        self._files = ServedFiles(server, name, stored)

    @property
    def files(self) -> RangeFiles:
        """The files of ranges and metaranges."""
        return self._files

    @property
    def editor(self) -> BranchEditor:
        """Removes paths from its branches, through the server."""
        return BranchEditor(self._server, self.name, self._staged_on)

    @property
    def _trees(self) -> Trees:
        return Trees(self._files, self.namespace)

    def read_refs(self) -> Refs:
        """All current refs, from a new dump; only listings show which branches are hidden."""
        shown = {branch.id for branch in self._server.branches(self.name, hidden=False)}
        hidden = {branch.id for branch in self._server.branches(self.name, hidden=True)} - shown
        refs = read_dump(self._trees, self._server.dump_refs(self.name))
        branches = tuple(
            RepositoryBranch(branch.name, branch.commit_id, hidden=branch.name in hidden)
            for branch in refs.branches
        )
        return Refs(refs.commits, branches, refs.tags)

    def dump_age(self) -> DumpAge | None:
        """None: each call dumps the refs again."""
        return None

    def staged(self) -> Iterator[pa.RecordBatch]:
        """Rows of STAGED of all branches."""
        for branch in self._server.branches(self.name, hidden=True):
            yield from self._staged_on(branch.id, branch.commit_id)

    def _staged_on(self, branch: str, head: str) -> Iterator[pa.RecordBatch]:
        self._refuse_mistaken(branch)
        metarange_id = self._server.commit(self.name, head).meta_range_id
        pages = self._server.objects(self.name, branch)
        committed = self._trees.entries(metarange_id)
        yield from staged_entries(branch, pages, committed, self.namespace)

    def _refuse_mistaken(self, branch: str) -> None:
        """IncompleteError for a branch name that the server takes for a commit id."""
        if _COMMIT.fullmatch(branch) and not self._is_taken_for_branch(branch):
            raise IncompleteError(
                f"what is staged on the branch {branch} of {self.name} cannot be listed: its name"
                " is the beginning of a commit's id, and its server takes it for that commit",
                hint="commit its staged changes, then rename the branch",
            )

    def _is_taken_for_branch(self, name: str) -> bool:
        """Current servers look for a branch first, unless the name is a full id."""
        if not self._server.commit(self.name, name).id.startswith(name):
            return True
        try:
            self._server.commit(self.name, f"{name}@")  # a suffix that only branches may have
        except (MissingError, StorageError):
            return False
        return True


def find_namespace(told: str, local_root: str | None) -> StorageNamespace:
    """Where to read the namespace that a server names; ConfigError if only the server can."""
    if told.startswith("mem://"):
        raise ConfigError(f"{told} is in the memory of a server, which does not persist it")
    if not told.startswith(_LOCAL):
        return StorageNamespace(told)
    if local_root is None:
        raise ConfigError(
            f"{told} is on the disk of its server, in an unknown folder",
            hint="set local_root of the lakeFS root to the folder where the server stores objects",
        )
    root = local_root.rstrip("/")
    folder = f"{root}/{told.removeprefix(_LOCAL).strip('/')}"
    # For entries with a full address, listings prepend the root once more.
    return StorageNamespace(folder, (told, _LOCAL + folder, _LOCAL + root + folder))


def trim_namespace(told: str) -> str:
    """A namespace without any `/` around its path, as servers read it."""
    scheme, mark, rest = told.partition("://")
    store, _, path = rest.partition("/")
    return f"{scheme}{mark}{store}/{path.strip('/')}".rstrip("/")
