"""A repository on a server: refs from a fresh dump, files from its store or the server.

Staged entries are what a branch shows that its HEAD does not hold. The branch's own diff is not
enough. A new upload of content that was committed before is live on the branch under a new address,
but in no diff, because lakeFS compares identities.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import (
    ConfigError,
    IncompleteError,
    LakesweepError,
    MissingError,
    StorageError,
)
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.client.api import ObjectRecord, Server
from lakesweep.lakefs.client.branch_editor import BranchEditor
from lakesweep.lakefs.columns import STAGED, AddressType
from lakesweep.lakefs.ranges.reader import RangeFiles, Trees
from lakesweep.lakefs.refs.commit_graph import Refs, RepositoryBranch
from lakesweep.lakefs.refs.dumps import read_dump
from lakesweep.lakefs.repository.interface import DumpAge
from lakesweep.lakefs.repository.stored import StoredFiles
from lakesweep.storage.address import identities
from lakesweep.storage.stores import Stores

_LOCAL = "local://"
_COMMIT = re.compile("[0-9a-f]{1,64}")
_COMPARED = pa.schema([("path", pa.binary()), ("mark", pa.binary())])


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


def staged_entries(
    branch: str,
    pages: Iterable[Sequence[ObjectRecord]],
    committed: Iterable[pa.RecordBatch],
    namespace: StorageNamespace,
) -> Iterator[pa.RecordBatch]:
    """Compare a listing with the entries of HEAD, both in path order, page by page."""
    tree = _Tree(_marks(batch, namespace) for batch in committed)
    for page in pages:
        if page:
            shown = _as_batch(branch, page)
            marks = _marks(shown, namespace)
            known = pc.is_in(marks["mark"], value_set=tree.up_to(marks["path"][-1].as_py()))
            if not pc.all(known).as_py():
                yield shown.filter(pc.invert(known))


class _Tree:
    """Yields the entries of a tree up to a path, each once."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._ahead = pa.record_batch([[], []], schema=_COMPARED)

    def up_to(self, path: bytes) -> pa.Array:
        """The marks of all entries up to this path that were not yielded yet."""
        parts = []
        while True:
            count = pc.sum(pc.less_equal(self._ahead.column("path"), path)).as_py() or 0
            parts.append(self._ahead.column("mark")[:count])
            self._ahead = self._ahead[count:]
            if self._ahead.num_rows or (following := next(self._batches, None)) is None:
                return pa.concat_arrays(parts)
            self._ahead = following


def _as_batch(branch: str, page: Sequence[ObjectRecord]) -> pa.RecordBatch:
    columns = {
        "branch": pa.repeat(branch, len(page)),
        "path": pa.array([each.path.encode() for each in page], pa.binary()),
        "address": pa.array([each.physical_address for each in page], pa.string()),
        "address_type": pa.repeat(str(AddressType.FULL), len(page)),
        "size_bytes": pa.array([each.size_bytes for each in page], pa.int64()),
        "checksum": pa.array([each.checksum for each in page], pa.string()),
        "modified": pa.array([each.mtime for each in page], pa.timestamp("s", tz="UTC")),
    }
    arrays = [columns[field.name].cast(field.type) for field in STAGED]
    return pa.record_batch(arrays, schema=STAGED)


def _marks(entries: pa.RecordBatch, namespace: StorageNamespace) -> pa.RecordBatch:
    """Path, object and second of an entry in one value: if any differs, it is staged.

    Servers return full addresses for entries stored as keys, each in a spelling of its own.
    """
    addresses = entries["address"]
    keys = namespace.keys(addresses, entries["address_type"])
    mark = pc.binary_join_element_wise(
        entries["path"],
        pc.coalesce(keys, identities(addresses)).cast(pa.binary()),
        _seconds(entries["modified"]).cast(pa.binary()),
        pa.scalar(b"\0", pa.binary()),
    )
    return pa.record_batch([entries["path"], mark], schema=_COMPARED)


def _seconds(moments: pa.Array) -> pa.Array:
    """Times in seconds, as servers return them; empty if there is none."""
    micros = moments.cast(pa.timestamp("us")).cast(pa.int64())
    seconds = pc.floor(pc.divide(micros.cast(pa.float64()), 1e6)).cast(pa.int64())
    return seconds.cast(pa.string()).fill_null("")
