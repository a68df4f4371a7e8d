"""The interface of a repository, with or without a server, and the age of its refs dump.

Without a server, commits made after a dump are unknown. So guards report the age of the dumps and
whether anything was written since. If something is written after a plan was started and no new
dump exists, the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lakesweep.errors import IncompleteError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.ranges.reader import RangeFiles
from lakesweep.lakefs.refs.commit_graph import Refs
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.lakefs.client.branch_editor import BranchEditor


class StagingUnknownError(IncompleteError):
    """No server can be asked for staged entries. A server that fails raises other errors."""


@dataclass(frozen=True, slots=True)
class DumpAge:
    """When refs were dumped, and how many ranges and metaranges were written since.

    `dumped` is None if the store does not say. A change that writes neither, such as a branch or a
    tag on an old commit, leaves no trace: 0 does not mean that nothing happened.
    """

    dumped: datetime | None
    written_since: int = 0

    def is_overtaken(self, before: DumpAge | None) -> bool:
        """Whether more was written since this dump than before; anything, if it is another dump."""
        is_known = before is not None and before.dumped == self.dumped
        return self.written_since > (before.written_since if before and is_known else 0)


class Repository(Protocol):
    """One repository, read-only except for its `editor`.

    Answers are never partial: what cannot be read completely raises an error of `lakesweep.errors`.
    Two calls see two states; call `staged` before `read_refs`, because a commit moves entries from
    the one to the other.
    """

    @property
    def name(self) -> str:
        """Its name on the server, or its address."""
        ...

    @property
    def namespace(self) -> StorageNamespace:
        """Where it stores its objects, and how entries may spell that."""
        ...

    @property
    def files(self) -> RangeFiles: ...

    @property
    def editor(self) -> BranchEditor | None:
        """Removes paths from its branches; None if commits are impossible."""
        ...

    def read_refs(self) -> Refs:
        """All tags, then all branches, hidden ones too, then all commits, dangling ones too.

        In this order a commit that is made meanwhile is known, if not as a HEAD.
        """
        ...

    def dump_age(self) -> DumpAge | None:
        """How old the refs of `read_refs` are; None if they are current."""
        ...

    def staged(self) -> Iterator[pa.RecordBatch]:
        """Rows of STAGED: what each branch shows that its HEAD does not hold in the same form.

        Both are listed and compared, because no diff contains a new upload of equal content. The
        rows may include what is committed meanwhile. Raises StagingUnknownError immediately, not
        with the first row, if no server can be asked.
        """
        ...


#: Opens a repository in its present state.
RepositoryOpener = Callable[[], "Repository"]
Ages = Mapping[str, DumpAge]


def find_ages(openers: Mapping[str, RepositoryOpener]) -> dict[str, DumpAge]:
    """The ages of refs dumps, for repositories without a server."""
    ages = {name: opener().dump_age() for name, opener in openers.items()}
    return {name: age for name, age in ages.items() if age is not None}


def check_age(opener: RepositoryOpener, name: str, before: DumpAge | None) -> RepositoryOpener:
    """Opens a repository; IncompleteError if anything was written since its dump had that age."""
    return partial(_open, opener, name, before)


def _open(opener: RepositoryOpener, name: str, before: DumpAge | None) -> Repository:
    repository = opener()
    age = repository.dump_age()
    if age is not None and age.is_overtaken(before):
        raise IncompleteError(
            f"{name}: {_since(age)}, so its last dump is out of date",
            hint="dump its refs again with lakesweep lifecycle refs NAME, then plan again",
        )
    return repository


def describe_ages(ages: Ages) -> list[str]:
    """When the dumps were written."""
    return [f"{name} ({_dumped(age)})" for name, age in ages.items()]


def describe_stale(ages: Ages) -> list[str]:
    """The dumps after which something was written."""
    return [f"{name} ({_since(age)})" for name, age in ages.items() if age.written_since]


def _dumped(age: DumpAge) -> str:
    return f"dumped {age.dumped:%Y-%m-%dT%H:%M:%SZ}" if age.dumped else "dumped at an unknown time"


def _since(age: DumpAge) -> str:
    return f"{format_count(age.written_since, 'range')} or metaranges written since it was dumped"
