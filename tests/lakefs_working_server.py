"""A lakeFS server that people work on: branches, staged changes, commits, merges, reverts.

It does with these what a real one does, as far as the calls are of use to us: it compares contents
and not addresses, refuses to merge into a branch on which something is staged, to commit or merge
where nothing changes, and where both sides changed a path. A commit of equal bytes leaves the
address that was there, and a merge drops what is staged of them. Its objects lie on its own disk.

with working_server(folder) as server:
    server.put("main", "logs/a", days=100)
    server.commit("main", days=100)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lakesweep.lakefs.client.access import ConfiguredServer
from lakesweep.lakefs.ranges.blocks import commit_id, entry_identity
from lakesweep.lakefs.ranges.sstable import SSTableType
from lakesweep.lakefs.repository.interface import Repository
from lakesweep.lakefs.repository.lookup import open_repository
from lakesweep.storage.stores import Stores
from tests.lakefs_repositories import write_metarange, write_ranges
from tests.lakefs_server import NoSuchThingError, page_of, serving, variables_of
from tests.lakefs_tables import (
    Entry,
    RangeOf,
    Written,
    commit_data,
    envelope,
    ref_data,
    write_table,
)

_API = "/api/v1/repositories/"

Tree = Mapping[str, Entry]


class RefusalError(Exception):
    """What the server says no with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Committed:
    """A commit, with all that it holds."""

    id: str
    parents: tuple[str, ...]
    seconds: int
    tree: Tree
    metarange_id: str
    message: str
    metadata: Mapping[str, str]


@dataclass
class WorkingServer:
    """One repository, and what happens to its calls.

    `before` and `behind` are done when a call comes that has the text in it, and when it was
    carried out: they may raise RefusalError, so that the call is refused, or its answer lost.
    Hooks of the branches in `hooked` refuse merges, whose commits are made all the same.
    """

    folder: Path
    name: str = "repo"
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    endpoint: str = ""
    commits: dict[str, Committed] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    staged: dict[str, dict[str, Entry | None]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    hooked: set[str] = field(default_factory=set)
    before: dict[str, Callable[[], None]] = field(default_factory=dict)
    behind: dict[str, Callable[[], None]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    others: list[dict[str, str]] = field(default_factory=list)
    lists_repositories: bool = True
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        (self.namespace / "_lakefs").mkdir(parents=True)
        (self.namespace / "data").mkdir()
        self.branches["main"] = self._add((), {}, "Repository created", {}, self._ago(1000))

    @property
    def namespace(self) -> Path:
        return self.folder / self.name

    @property
    def environment(self) -> dict[str, str]:
        return variables_of(self.endpoint)

    def opened(self) -> Repository:
        place = ConfiguredServer(self.endpoint, (self.name,), str(self.folder))
        return open_repository(self.name, Stores(), (place,), self.environment)

    # What people do.

    def put(self, branch: str, path: str, *, days: float = 0, content: str = "") -> str:
        """Upload an object, and stage it; answers its key."""
        key = f"data/{next(self.numbers):06}"
        file, when = self.namespace / key, self._ago(days)
        file.write_text(content or path)
        os.utime(file, (when, when))
        made = Entry(key, when, size_bytes=file.stat().st_size, checksum=content or path)
        self.staged.setdefault(branch, {})[path] = made
        return key

    def commit(
        self,
        branch: str,
        *,
        days: float = 0,
        message: str = "work",
        metadata: Mapping[str, str] | None = None,
    ) -> str:
        head = self.commits[self.branches[branch]]
        tree = _changed(head.tree, self._changes(branch))
        if tree == head.tree:
            raise RefusalError(400, "commit: no changes")
        self.staged.pop(branch)
        made = self._add((head.id,), tree, message, metadata or {}, self._ago(days))
        self.branches[branch] = made
        return made

    def branch(self, name: str, source: str = "main", *, hidden: bool = False) -> str:
        if name in self.branches:
            raise RefusalError(409, "branch already exists: not unique")
        self.branches[name] = self._resolve(source)
        if hidden:
            self.hidden.add(name)
        return self.branches[name]

    def drop(self, name: str) -> None:
        if name not in self.branches:
            raise NoSuchThingError(name)
        del self.branches[name]
        self.hidden.discard(name)
        self.staged.pop(name, None)

    def merge(self, source: str, into: str, message: str, metadata: Mapping[str, str]) -> str:
        self._refuse_staged(into)
        theirs, ours = self.commits[self._resolve(source)], self.commits[self.branches[into]]
        base = self._base(theirs.id, ours.id)
        if theirs.metarange_id == base.metarange_id:
            raise RefusalError(400, f"update branch {into}: no changes")
        tree = _merged(base.tree, ours.tree, theirs.tree)
        metadata = {**metadata, ".lakefs.merge.strategy": "default"}
        made = self._add((ours.id, theirs.id), tree, message, metadata, self._ago(0))
        if into in self.hooked:
            raise RefusalError(412, "pre-merge hook aborted")
        self.branches[into] = made
        self.staged.pop(into, None)
        return made

    def revert(self, branch: str, commit: str, parent: int) -> None:
        self._refuse_staged(branch)
        undone, head = self.commits[commit], self.commits[self.branches[branch]]
        tree = _merged(undone.tree, head.tree, self.commits[undone.parents[parent - 1]].tree)
        self.branches[branch] = self._add((head.id,), tree, "Revert", {}, self._ago(0))
        self.staged.pop(branch, None)

    def shown(self, ref: str) -> Tree:
        """What a branch or a commit shows."""
        return _changed(self.commits[self._resolve(ref)].tree, self.staged.get(ref, {}))

    def readable(self) -> bool:
        """Whether every object is there that any HEAD holds or that is staged."""
        entries = (each for branch in self.branches for each in self.shown(branch).values())
        return all((self.namespace / each.address).exists() for each in entries)

    def stored(self) -> set[str]:
        return {f"data/{path.name}" for path in (self.namespace / "data").iterdir()}

    # What the server says.

    def answer(
        self, method: str, path: str, query: Mapping[str, str], body: bytes
    ) -> tuple[int, bytes]:
        if path == _API.rstrip("/"):
            if not self.lists_repositories:
                return 403, b'{"message":"insufficient permissions"}'
            return 200, json.dumps(page_of([self._repository, *self.others], "id", query)).encode()
        call = f"{method} {unquote(path).removeprefix(_API + self.name).lstrip('/')}"
        self.asked.append(call)
        try:
            for text in [text for text in self.before if text in call]:
                self.before[text]()
            said = self._answer(call, query, json.loads(body or b"{}"))
            for text in [text for text in self.behind if text in call]:
                self.behind[text]()
        except RefusalError as error:
            return error.status, json.dumps({"message": str(error)}).encode()
        return 200, said if isinstance(said, bytes) else json.dumps(said).encode()

    def _answer(self, call: str, query: Mapping[str, str], body: Mapping[str, Any]) -> object:
        method, _, what = call.partition(" ")
        if method in {"GET", "PUT"}:
            return self._told(what.split("/"), query)
        return self._done(method, what.split("/"), body)

    def _told(self, what: list[str], query: Mapping[str, str]) -> object:
        match what:
            case [""]:
                return self._repository
            case ["metadata", "object", _, id_]:
                return (self.namespace / "_lakefs" / id_).read_bytes()
            case ["branches"]:
                shown = query.get("show_hidden", "").lower() == "true"
                names = [name for name in sorted(self.branches) if shown or name not in self.hidden]
                return page_of([self._ref(name) for name in names], "id", query)
            case ["branches", name]:
                return self._ref(name)
            case ["branches", name, "diff"]:
                rows = [{"path": path} for path in sorted(self._changes(name))]
                return page_of(rows, "path", query)
            case ["commits", id_]:
                return self._commit(self._resolve(id_))
            case ["refs", "dump"]:
                return self._dump()
            case ["refs", ref, "objects", "ls"]:
                rows = [self._object(path, each) for path, each in self.shown(ref).items()]
                return page_of(rows, "path", query)
        raise NoSuchThingError("/".join(what))

    def _done(self, method: str, what: list[str], body: Mapping[str, Any]) -> object:
        said: object = {}
        match method, what:
            case "POST", ["branches"]:
                said = self.branch(body["name"], body["source"], hidden=body["hidden"])
            case "DELETE", ["branches", name]:
                self.drop(name)
            case "POST", ["branches", name, "objects", "delete"]:
                said = self._delete(name, body["paths"])
            case "POST", ["branches", name, "commits"]:
                made = self.commit(name, message=body["message"], metadata=body["metadata"])
                said = self._commit(made)
            case "POST", ["branches", name, "revert"]:
                self.revert(name, body["ref"], body["parent_number"])
            case "POST", ["refs", source, "merge", into]:
                said = {"reference": self.merge(source, into, body["message"], body["metadata"])}
            case _:
                raise NoSuchThingError("/".join(what))
        return said

    @property
    def _repository(self) -> dict[str, str]:
        return {"id": self.name, "storage_namespace": f"local://{self.name}"}

    def _ref(self, branch: str) -> dict[str, str]:
        if branch not in self.branches:
            raise NoSuchThingError(branch)
        return {"id": branch, "commit_id": self.branches[branch]}

    def _commit(self, id_: str) -> dict[str, Any]:
        made = self.commits[id_]
        return {
            "id": id_,
            "meta_range_id": made.metarange_id,
            "parents": list(made.parents),
            "metadata": dict(made.metadata),
        }

    def _object(self, path: str, each: Entry) -> dict[str, Any]:
        return {
            "path": path,
            "physical_address": f"local://{self.namespace}/{each.address}",
            "checksum": each.checksum,
            "mtime": each.seconds,
            "size_bytes": each.size_bytes,
        }

    def _delete(self, branch: str, paths: list[str]) -> dict[str, Any]:
        if len(paths) > 1000:
            raise RefusalError(400, "request size exceeded, max paths is set to 1000")
        self._ref(branch)
        shown = self.shown(branch)
        for path in paths:
            if path in shown:
                self.staged.setdefault(branch, {})[path] = None
        return {"errors": []}

    def _changes(self, branch: str) -> dict[str, Entry | None]:
        """What is staged and differs from HEAD by its contents. All else is lost by any commit."""
        tree = self.commits[self.branches[branch]].tree
        staged = self.staged.get(branch, {}).items()
        return {path: each for path, each in staged if _identity(each) != _identity(tree.get(path))}

    def _refuse_staged(self, branch: str) -> None:
        if self._changes(branch):
            raise RefusalError(400, "uncommitted changes (dirty branch)")

    def _resolve(self, ref: str) -> str:
        found = self.branches.get(ref, ref)
        if found not in self.commits:
            raise NoSuchThingError(ref)
        return found

    def _base(self, one: str, other: str) -> Committed:
        ours = self._ancestors(other)
        return next(self.commits[id_] for id_ in self._ancestors(one) if id_ in ours)

    def _ancestors(self, id_: str) -> list[str]:
        """A commit and what came before it, the nearest first."""
        found = [id_]
        for each in found:
            found += [parent for parent in self.commits[each].parents if parent not in found]
        return found

    def _ago(self, days: float) -> int:
        return int((self.now - timedelta(days=days)).timestamp())

    def _add(
        self,
        parents: tuple[str, ...],
        tree: Tree,
        message: str,
        metadata: Mapping[str, str],
        seconds: int,
    ) -> str:
        ranges = write_ranges(tree)
        metarange = self._write(write_metarange(ranges, tree)) if tree else ""
        for each in ranges:
            self._write(each)
        id_ = commit_id("", message, metarange, seconds, metadata, parents)
        self.commits[id_] = Committed(id_, parents, seconds, tree, metarange, message, metadata)
        return id_

    def _write(self, table: Written) -> str:
        (self.namespace / "_lakefs" / table.id).write_bytes(table.data)
        return table.id

    def _dump(self) -> dict[str, str]:
        commits = {
            each.id: commit_data(
                each.id,
                each.metarange_id,
                each.seconds,
                each.parents,
                message=each.message,
                metadata=each.metadata,
            )
            for each in self.commits.values()
        }
        branches = {name: ref_data(name, id_) for name, id_ in self.branches.items()}
        tags = {name: ref_data(name, id_) for name, id_ in self.tags.items()}
        found = {"commit": commits, "branch": branches, "tag": tags}
        ids = {kind: self._write_refs(kind, records) for kind, records in found.items()}
        return {
            "commits_meta_range_id": ids["commit"],
            "branches_meta_range_id": ids["branch"],
            "tags_meta_range_id": ids["tag"],
        }

    def _write_refs(self, kind: str, records: Mapping[str, bytes]) -> str:
        named = {"entity": kind.encode()}
        keys = sorted(each.encode() for each in records)
        rows = [(key, envelope(key, records[key.decode()])) for key in keys]
        if not rows:
            return self._write(write_table([], SSTableType.METARANGES, named=named))
        table = write_table(rows, SSTableType.RANGES, named=named)
        self._write(table)
        told = RangeOf(table.id, keys[0], keys[-1], len(table.data), len(keys)).value()
        return self._write(write_table([(keys[-1], told)], SSTableType.METARANGES, named=named))


def _changed(tree: Tree, changes: Mapping[str, Entry | None]) -> Tree:
    found = {**tree, **changes}
    return {path: each for path, each in sorted(found.items()) if each is not None}


def _merged(base: Tree, ours: Tree, theirs: Tree) -> Tree:
    """What comes of two trees: what only one side changed, by contents; 409 for what both did."""
    found: dict[str, Entry] = {}
    for path in base.keys() | ours.keys() | theirs.keys():
        was, here, there = (_identity(tree.get(path)) for tree in (base, ours, theirs))
        if here not in (was, there) and there != was:
            raise RefusalError(409, "conflict found")
        chosen = theirs if here == was and there != was else ours
        if path in chosen:
            found[path] = chosen[path]
    return dict(sorted(found.items()))


def _identity(entry: Entry | None) -> bytes | None:
    if entry is None:
        return None
    about = (entry.size_bytes, entry.checksum, entry.metadata, entry.content_type)
    return entry_identity(*about)


@contextmanager
def working_server(folder: Path, **options: Any) -> Iterator[WorkingServer]:
    """A server on a port of its own, for as long as it is needed."""
    server = WorkingServer(folder, **options)
    with serving(server.answer) as server.endpoint:
        yield server
