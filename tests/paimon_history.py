"""Histories of Paimon tables, put together step by step, and what each owner in them needs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import fastavro

from tests.paimon_expiry import ListedStore
from tests.paimon_tables import File, Index, Row, Table, unique_name

MAIN = ""
_LISTS = ("baseManifestList", "deltaManifestList", "changelogManifestList")


@dataclass
class StoreBucket:
    """What a table is written into: a store in memory."""

    store: ListedStore = field(default_factory=ListedStore)

    def write(self, path: str, data: bytes) -> str:
        self.store.write(_key(path), data)
        return path

    def delete(self, path: str) -> None:
        self.store.delete([_key(path)])


@dataclass(frozen=True)
class State:
    """A table after one commit: its live files, and the manifests that say so."""

    live: frozenset[File] = frozenset()
    manifests: tuple[Row, ...] = ()
    index: tuple[str, str] | None = None


@dataclass
class History:
    """A table and its branches.

    By the name of their delta list: what owners need for their state, for their changelog, and for
    what they changed.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    bucket: StoreBucket = field(default_factory=StoreBucket)
    states: dict[str, State] = field(default_factory=dict)
    needs: dict[str, frozenset[str]] = field(default_factory=dict)
    changes: dict[str, frozenset[str]] = field(default_factory=dict)
    deltas: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = count()
        self.table = Table(self.bucket, options=self.options)  # type: ignore[arg-type]

    @property
    def store(self) -> ListedStore:
        return self.bucket.store

    @property
    def stored(self) -> set[str]:
        return {key.removeprefix("t/") for key in self.store.current()}

    def owners(self) -> dict[str, Row]:
        """The documents of all snapshots, tags and changelogs that are there."""
        return {
            key.removeprefix("t/"): json.loads(data)
            for key, data in self.store.current().items()
            if key.rpartition("/")[2].startswith(("snapshot-", "tag-", "changelog-"))
            and "/bucket-" not in key
        }

    def numbers(self, branch: str = MAIN) -> list[int]:
        """The snapshots of a branch."""
        prefix = f"{_folder(branch)}snapshot/snapshot-"
        names = (name for name in self.owners() if name.startswith(prefix))
        return sorted(int(name.removeprefix(prefix)) for name in names)

    def snapshot(self, branch: str, number: int) -> Row:
        return self.owners()[f"{_folder(branch)}snapshot/snapshot-{number}"]

    def latest(self, branch: str = MAIN) -> State:
        """The state after the newest commit of a branch."""
        numbers = self.numbers(branch)
        return self.state(self.snapshot(branch, numbers[-1])) if numbers else State()

    def state(self, document: Row) -> State:
        return self.states[document["deltaManifestList"]]

    def new_files(self, number: int, *, extra: bool = False) -> list[File]:
        """Data files that are stored and nobody has committed yet."""
        files = [File(f"data-{self._unique()}.parquet") for _ in range(number)]
        files = [replace(file, extra=(f"{file.name}.index",)) if extra else file for file in files]
        for name in _file_names(files):
            self.table.write(name, b"content")
        return files

    def commit(
        self,
        branch: str = MAIN,
        add: Sequence[File] = (),
        delete: Iterable[File] = (),
        *,
        changelog: bool = False,
        index: bool = False,
        merge: bool = False,
    ) -> None:
        """Commit files that are there, after deleting others, as the next snapshot of a branch."""
        before = self.latest(branch)
        deleted = list(delete)
        base = (self.table.manifest(*sorted(before.live, key=str)),) if merge else before.manifests
        delta = (self.table.manifest(*(replace(file, kind=1) for file in deleted), *add),)
        written = self._index() if index else before.index
        state = State(before.live - set(deleted) | set(add), base + delta, written)
        fields: Row = {} if written is None else {"indexManifest": written[0]}
        changed = self._changelog() if changelog else []
        if changed:
            fields["changelogManifestList"] = changed[0].removeprefix("manifest/")
        number = max(self.numbers(branch), default=0) + 1
        document = self.table.snapshot(number, *delta, base=base, branch=branch, **fields)
        name = document["deltaManifestList"]
        self.states[name] = state
        self.changes[name] = frozenset(changed)
        self.needs[name] = frozenset(_state_names(document, state))
        lists = {name, *(manifest["_FILE_NAME"] for manifest in delta)}
        self.deltas[name] = frozenset({*_file_names(add), *(f"manifest/{each}" for each in lists)})

    def adopt(self, branch: str) -> None:
        """Note the newest snapshot of a branch, which dropped all that was live."""
        document = self.snapshot(branch, self.numbers(branch)[-1])
        name, index = document["deltaManifestList"], document.get("indexManifest")
        lists = (document["baseManifestList"], name)
        base, delta = ([*_rows(self.store.read(f"t/manifest/{each}"))] for each in lists)
        self.states[name] = State(manifests=(*base, *delta))
        indexes = {f"manifest/{index}"} if index else set()
        self.needs[name] = frozenset(_state_names(document, self.states[name])) | indexes
        self.changes[name] = frozenset()
        written = (name, *(manifest["_FILE_NAME"] for manifest in delta))
        self.deltas[name] = frozenset(f"manifest/{each}" for each in written)

    def tag(self, name: str, branch: str, number: int) -> None:
        self.table.tag(name, self.snapshot(branch, number), branch=branch)

    def make_branch(self, name: str, tag: Row) -> None:
        """A branch of a tag of the main branch."""
        self.table.schema(branch=name)
        self.table.tag("origin", tag, branch=name)
        self.table.write(f"{_folder(name)}snapshot/snapshot-{tag['id']}", tag)

    def roll_back(self, branch: str, number: int) -> None:
        """Forget all snapshots after one, as Java does: the hint first. Their files stay."""
        self.table.write(f"{_folder(branch)}snapshot/LATEST", str(number).encode())
        for newer in self.numbers(branch):
            if newer > number:
                self.table.delete(f"{_folder(branch)}snapshot/snapshot-{newer}")

    def missing(self) -> set[str]:
        """What an owner needs that is there, and is not there."""
        return self.needed() - self.stored

    def needed(self) -> set[str]:
        """What all owners need that are there."""
        return set().union(*(self._needed(*owner) for owner in self.owners().items()))

    def _needed(self, name: str, document: Row) -> frozenset[str]:
        delta = document["deltaManifestList"]
        if "changelog/changelog-" in name:
            # Without changelogs of its own, what a table changed stands for them.
            written = "changelog-producer" in self.options
            return self.changes[delta] | (frozenset() if written else self.deltas[delta])
        return self.needs[delta] | self.changes[delta]

    def named(self) -> set[str]:
        """The names, without folders, of all that the owners that are there name, live or not."""
        names: set[str] = set()
        for document in self.owners().values():
            index = document.get("indexManifest")
            names |= {index, *self._records(index, "_FILE_NAME")} if index else set()
            for listed in filter(None, map(document.get, _LISTS)):
                names |= {listed, *(manifests := self._records(listed, "_FILE_NAME"))}
                for file in (file for name in manifests for file in self._records(name, "_FILE")):
                    names |= {file["_FILE_NAME"], *file["_EXTRA_FILES"]}
        return names

    def _records(self, name: str, column: str) -> list[Any]:
        """A column of a list or a manifest; nothing where it is gone."""
        data = self.store.current().get(f"t/manifest/{name}")
        return [] if data is None else [row[column] for row in _rows(data)]

    def _unique(self) -> str:
        return unique_name(next(self._numbers))

    def _changelog(self) -> list[str]:
        name = f"changelog-{self._unique()}.parquet"
        self.table.write(f"bucket-0/{name}", b"changes")
        manifest = self.table.manifest(File(name))
        listed = self.table.list(manifest)
        return [f"manifest/{listed}", f"manifest/{manifest['_FILE_NAME']}", f"bucket-0/{name}"]

    def _index(self) -> tuple[str, str]:
        name = f"index-{self._unique()}"
        self.table.write(f"index/{name}", b"index")
        return self.table.index_manifest(Index(name)), name


def _rows(data: bytes) -> list[Row]:
    return [row for row in fastavro.reader(io.BytesIO(data)) if isinstance(row, dict)]


def _state_names(document: Row, state: State) -> list[str]:
    names = [document["baseManifestList"], document["deltaManifestList"]]
    names += [manifest["_FILE_NAME"] for manifest in state.manifests]
    indexes = (
        [] if state.index is None else [f"manifest/{state.index[0]}", f"index/{state.index[1]}"]
    )
    return [*(f"manifest/{name}" for name in names), *_file_names(state.live), *indexes]


def _file_names(files: Iterable[File]) -> list[str]:
    return [f"bucket-0/{name}" for file in files for name in (file.name, *file.extra)]


def _folder(branch: str) -> str:
    return f"branch/branch-{branch}/" if branch else ""


def _key(path: str) -> str:
    return path.partition("://")[2].partition("/")[2]
