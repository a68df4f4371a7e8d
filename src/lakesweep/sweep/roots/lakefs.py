"""lakeFS repositories as roots: everything that is committed or staged is kept.

Only the driver can reach the server of a repository. So each look writes what the repository
references as a state, in a folder of its own for each version; executors read that.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakesweep.errors import IncompleteError
from lakesweep.hashing import hash128
from lakesweep.lakefs.addresses import METADATA
from lakesweep.lakefs.columns import STAGED
from lakesweep.lakefs.mark_levels import RepositoryState, StagedPart, content_name
from lakesweep.lakefs.repository.interface import RepositoryOpener, StagingUnknownError
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.spool import Spool
from lakesweep.storage.file_batches import coalesce_batches
from lakesweep.storage.moves import object_exists
from lakesweep.sweep.lake import STATES
from lakesweep.sweep.roots.root import RootKind, RootProblem, RootRow
from lakesweep.untrusted.limits import read_failure

if TYPE_CHECKING:
    from lakesweep.config import LakefsRoot
    from lakesweep.lakefs.refs.commit_graph import Refs
    from lakesweep.lakefs.repository.interface import Repository
    from lakesweep.storage.stores import Stores

#: The metaranges to read, for a repository with these refs.
MetarangeChooser = Callable[["Refs"], Sequence[str]]

_ROWS_IN_A_FILE = 1 << 18


def metaranges_of(refs: Refs) -> list[str]:
    """The metaranges of all commits, each once."""
    found = {commit.metarange_id for commit in refs.commits.values()}
    return sorted(found - {""})


@dataclass(frozen=True)
class LakefsRoots:
    """Some repositories, by name. `place` is the folder for their states.

    If it is unknown what is staged, the repository counts as unreadable, unless `without_staging`.
    """

    stores: Stores
    server: str
    repositories: Mapping[str, RepositoryOpener]
    place: str
    choose: MetarangeChooser = metaranges_of
    without_staging: bool = False

    @property
    def name(self) -> str:
        return f"lakefs {self.server}"

    def collect(self) -> Iterator[RootRow | RootProblem]:
        for name, opener in self.repositories.items():
            try:
                yield self._row(name, opener())
            except Exception as error:
                reason = read_failure(name, error).message
                yield RootProblem(self.name, reason, _called(name), RootKind.LAKEFS)

    def look(self, root: RootRow) -> RootRow | None:
        # A repository that its server no longer knows may still be read by others.
        name = root.name.removeprefix(_called(""))
        return self._row(name, self.repositories[name]())

    def _row(self, name: str, repository: Repository) -> RootRow:
        location = repository.namespace.location
        with Spool(STAGED) as staged:
            sha256 = self._read_staged(repository, staged)
            # Refs after staging: an object committed in between was either seen as staged, or is
            # seen now as committed. The other order could miss it in both.
            refs = repository.read_refs()
            _refuse_without_commits(name, refs)
            chosen = self.choose(refs)
            where = (location, *repository.namespace.aliases)  # a copy may have the same refs
            version = _sha256([sha256, refs_version(refs), *where, *chosen])
            state = StateFolder(self.stores, f"{self.place}/{STATES}/{version}")
            file = state.write(repository, chosen, staged)
        pointer = f"{repository.namespace.folder}{METADATA}refs/{version}"
        return RootRow(
            _called(name), RootKind.LAKEFS, pointer, self.name, (location,), own_file=file
        )

    def _read_staged(self, repository: Repository, staged: Spool) -> str:
        try:
            return read_staged(repository, staged)
        except StagingUnknownError as error:
            if self.without_staging:
                return "unknown"
            # A plan shows the message of an unreadable root, not its hint.
            remedy = "set without_staging = true for this root if nothing is staged any more"
            raise StagingUnknownError(f"{error.message}; {remedy}", hint=error.hint) from error


def _refuse_without_commits(name: str, refs: Refs) -> None:
    """IncompleteError if there is no commit: then every object would look unreferenced."""
    if not refs.commits:
        raise IncompleteError(
            f"{name} has no commit, not even the first one, which all repositories have: its refs"
            " were lost, or are not restored yet",
            hint="lakectl refs-restore brings them back from a dump",
        )


@dataclass(frozen=True)
class StateFolder:
    """The files of one state. Each is named by its contents, and need not be written twice."""

    stores: Stores
    folder: str

    def write(self, repository: Repository, metaranges: Sequence[str], staged: Spool) -> str:
        """The address of the state."""
        batches = coalesce_batches(staged.batches(), _ROWS_IN_A_FILE)
        parts = tuple(self._write_part(batch) for batch in batches)
        namespace = repository.namespace
        state = RepositoryState(
            location=namespace.location,
            aliases=namespace.aliases,
            metaranges=tuple(metaranges),
            staged=parts,
        )
        return self._write(msgspec.json.encode(state), "json")

    def _write_part(self, staged: pa.RecordBatch) -> StagedPart:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches([staged]), sink, compression="zstd")
        data = sink.getvalue().to_pybytes()
        return StagedPart(self._write(data, "parquet"), staged.num_rows, len(data))

    def _write(self, data: bytes, suffix: str) -> str:
        path = f"{self.folder}/{content_name(data, suffix)}"
        place = parse(path)
        store = self.stores.open(place)
        if not object_exists(store, place.key):
            store.write(place.key, data)
        return path


def read_staged(repository: Repository, spool: Spool) -> str:
    """Spool what is staged; returns a hash that does not depend on the order of rows."""
    low, high = np.zeros(2, np.uint64)
    for batch in repository.staged():
        spool.add(batch)
        with np.errstate(over="ignore"):
            h1, h2 = hash128(_texts(batch))
            low, high = low + h1.sum(dtype=np.uint64), high + h2.sum(dtype=np.uint64)
    return f"{spool.files}-{int(low):016x}{int(high):016x}"


def _texts(batch: pa.RecordBatch) -> pa.Array:
    """One text per row. Paths may be any bytes, which does not matter for hashing."""
    paths = batch["path"].view(pa.string())
    return pc.binary_join_element_wise(batch["branch"], paths, batch["address"], "\n")


def refs_version(refs: Refs) -> str:
    """A hash of all commits, branches and tags."""
    lines = [f"commit {commit}" for commit in refs.commits]
    lines += [f"branch {branch.name} {branch.commit_id}" for branch in refs.branches]
    lines += [f"tag {tag.name} {tag.commit_id}" for tag in refs.tags]
    return _sha256(sorted(lines))


def _sha256(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def configured_openers(stores: Stores, root: LakefsRoot) -> Mapping[str, RepositoryOpener]:
    """The openers of the repositories that a configuration names.

    An outdated dump lacks commits, and so what keeps their objects alive: it is refused. So is a
    repository whose objects are among those of another one that is not a root.
    """
    from lakesweep.lakefs.client.access import ConfiguredServer
    from lakesweep.lakefs.repository.interface import check_age
    from lakesweep.lakefs.repository.lookup import open_alone
    from lakesweep.lakefs.repository.stored import StoredRepository

    openers: dict[str, RepositoryOpener] = {}
    if root.endpoint is not None:
        pace = stores.load.catalog(root.endpoint)
        places = (ConfiguredServer(root.endpoint, root.repositories, root.local_root, pace),)
        for name in root.repositories:
            openers[name] = partial(open_alone, name, stores, places, os.environ, root.repositories)
    for location in root.namespaces:
        openers[location] = check_age(partial(StoredRepository, stores, location), location, None)
    return openers


def _called(name: str) -> str:
    return f"lakefs {name}"
