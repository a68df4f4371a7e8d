"""`lakesweep lifecycle refs` and `entries`: what a repository and one of its commits hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.repositories import RepositoryName, find_repository
from lakesweep.units import format_count, format_moment

if TYPE_CHECKING:
    import pyarrow as pa

    from lakesweep.lakefs.refs.commit_graph import Refs, RepositoryCommit

#: So much of an id is enough for people.
_SHORT = 12


@dataclass(frozen=True, slots=True)
class RefLine:
    """A branch or a tag."""

    kind: str
    name: str
    commit: str
    hidden: bool | None

    def text(self) -> str:
        hidden = "  (hidden)" if self.hidden else ""
        return f"{self.kind:<7} {self.commit[:_SHORT]}  {self.name}{hidden}"


@dataclass(frozen=True, slots=True)
class RepositoryCommitLine:
    """A commit; `dangling` where no branch reaches it."""

    kind: str
    commit: str
    created: datetime
    parents: tuple[str, ...]
    metarange: str | None
    committer: str
    message: str
    metadata: Mapping[str, str]
    dangling: bool

    @classmethod
    def of(cls, commit: RepositoryCommit, *, dangling: bool) -> RepositoryCommitLine:
        return cls(
            "commit",
            commit.id,
            commit.created,
            commit.parents,
            commit.metarange_id or None,
            commit.committer,
            commit.message,
            commit.metadata,
            dangling,
        )

    def text(self) -> str:
        title = self.message.partition("\n")[0]
        dangling = "  (dangling)" if self.dangling else ""
        when = format_moment(self.created.replace(microsecond=0))
        return f"{self.kind:<7} {self.commit[:_SHORT]}  {when}  {title}{dangling}"


def refs(context: Context, repo: RepositoryName) -> None:
    """The branches, tags and commits of a repository, as the job sees them.

    Hidden branches are among them, and commits that no branch reaches any more. The newest commits
    come last.
    """
    found = find_repository(context, repo).read_refs()
    dangling = found.dangling()
    context.output.lines(_lines(found, dangling))
    branches = f"{len(found.branches):,} {'branch' if len(found.branches) == 1 else 'branches'}"
    tags, commits = format_count(len(found.tags), "tag"), format_count(len(found.commits), "commit")
    context.output.say(f"{branches}, {tags}, {commits}, {len(dangling):,} of them on no branch")


def _lines(found: Refs, dangling: frozenset[str]) -> Iterator[RefLine | RepositoryCommitLine]:
    for branch in found.branches:
        yield RefLine("branch", branch.name, branch.commit_id, branch.hidden)
    for tag in found.tags:
        yield RefLine("tag", tag.name, tag.commit_id, None)
    for commit in sorted(found.commits.values(), key=lambda each: (each.created, each.id)):
        yield RepositoryCommitLine.of(commit, dangling=commit.id in dangling)


RefName = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="Branch, tag, commit id, or the beginning of one.",
        show_default=False,
    ),
]


def entries(context: Context, repo: RepositoryName, ref: RefName) -> None:
    """Every object of one commit: its path, and where its bytes lie.

    Of a branch its HEAD counts: what is staged on it is not committed. Addresses are as they are
    stored: relative to the namespace, or full. Ids prove each range that is read.
    """
    from lakesweep.cli.render.rows import EntryRows
    from lakesweep.lakefs.ranges.reader import Trees

    repository = find_repository(context, repo)
    commit = repository.read_refs().find(ref)
    trees = Trees(repository.files, repository.namespace)
    context.output.rows(_readable(trees.entries(commit.metarange_id)), EntryRows())


def _readable(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from lakesweep.cli.render.rows import path_texts

    for batch in batches:
        yield batch.set_column(0, "path", path_texts(batch.column("path")))
