"""lakeFS repositories: their refs, the entries of a commit, and how their plans are rechecked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.errors import NotFoundError
from lakesweep.lakefs.ranges.reader import Trees
from lakesweep.lakefs.refs.commit_graph import Refs, RepositoryCommit
from lakesweep.lakefs.repository.interface import Repository, RepositoryOpener
from lakesweep.lifecycle.apply.applier import plan_sources
from lakesweep.lifecycle.plan.recheck import RecheckSources
from lakesweep.lifecycle.repository_lake import lake_name
from lakesweep.runs.records import PlanRecord, is_repository
from lakesweep.sweep.plan.document import PlanDocument


class RepositoryRefLine(msgspec.Struct, frozen=True):
    """A branch or a tag; `hidden` is None for tags."""

    kind: str
    name: str
    commit: str
    hidden: bool | None


class RepositoryCommitLine(msgspec.Struct, frozen=True):
    """A commit; `dangling` if no branch reaches it."""

    kind: str
    commit: str
    created: datetime
    parents: tuple[str, ...]
    metarange: str | None
    committer: str
    message: str
    metadata: dict[str, str]
    dangling: bool


@dataclass(frozen=True, slots=True)
class RepositoryRefs:
    """The refs of a repository: branches, tags, then commits, the newest last."""

    branches: int
    tags: int
    commits: int
    dangling: int
    lines: Iterable[RepositoryRefLine | RepositoryCommitLine]


def list_refs(app: App, repository: str) -> RepositoryRefs:
    """Read the branches, tags and commits of a repository, by its name or address."""
    refs = app.repository(repository).read_refs()
    dangling = refs.dangling()
    return RepositoryRefs(
        len(refs.branches),
        len(refs.tags),
        len(refs.commits),
        len(dangling),
        _ref_lines(refs, dangling),
    )


def _ref_lines(
    refs: Refs, dangling: frozenset[str]
) -> Iterator[RepositoryRefLine | RepositoryCommitLine]:
    for branch in refs.branches:
        yield RepositoryRefLine("branch", branch.name, branch.commit_id, branch.hidden)
    for tag in refs.tags:
        yield RepositoryRefLine("tag", tag.name, tag.commit_id, None)
    for commit in sorted(refs.commits.values(), key=lambda each: (each.created, each.id)):
        yield _commit_line(commit, dangling=commit.id in dangling)


def _commit_line(commit: RepositoryCommit, *, dangling: bool) -> RepositoryCommitLine:
    return RepositoryCommitLine(
        "commit",
        commit.id,
        commit.created,
        commit.parents,
        commit.metarange_id or None,
        commit.committer,
        commit.message,
        dict(commit.metadata),
        dangling,
    )


def list_entries(app: App, repository: str, ref: str) -> Iterator[pa.RecordBatch]:
    """Stream the entries of a commit, by a branch, a tag, or a commit id or its beginning."""
    found = app.repository(repository)
    commit = found.read_refs().find(ref)
    for batch in Trees(found.files, found.namespace).entries(commit.metarange_id):
        yield batch.set_column(0, "path", _path_texts(batch.column("path")))


def _path_texts(paths: pa.Array) -> pa.Array:
    """Paths as text; bytes that are not UTF-8 are escaped."""
    try:
        texts = paths.cast(pa.string())
    except pa.ArrowInvalid:
        escaped = [path.decode(errors="backslashreplace") for path in paths.to_pylist()]
        texts = pa.array(escaped, pa.string())
    return texts


def plan_or_lake(app: App, name: str) -> str:
    """The name of a plan unchanged; the lake of a repository if `name` is one."""
    if name.startswith("plan-") or is_repository(name):
        return name
    try:
        app.runs.plan(name)
    except NotFoundError:
        return lake_name(app.repository(name).namespace)
    return name


def opener_of(app: App, name: str) -> RepositoryOpener:
    """Opens a repository by its name or address, each time it is called."""
    return lambda: app.repository(name)


def neighbours_of(app: App, repository: Repository) -> dict[str, RepositoryOpener]:
    """The other configured repositories: they may have imported objects of this one."""
    names = app.repository_names
    return {name: opener_of(app, name) for name in names if name != repository.name}


def recheck_sources(app: App, plan: PlanRecord, document: PlanDocument) -> RecheckSources:
    """The sources that say what has changed since a plan."""
    details = document.details
    # A repository that was configured after the plan may have imported objects too.
    names = (details["repository"], *details["neighbours"], *app.repository_names)
    openers: dict[str, RepositoryOpener] = {name: opener_of(app, name) for name in names}
    # lakeFS allows another repository to be created in the same folder at any time.
    openers[names[0]] = lambda: app.repository_alone(names[0])
    return plan_sources(app.stores, plan, document, openers, app.root_sources)
