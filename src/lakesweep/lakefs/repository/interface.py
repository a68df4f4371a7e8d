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
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pyarrow as pa

from lakesweep.errors import IncompleteError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.ranges.reader import RangeFiles
from lakesweep.lakefs.refs.commit_graph import Refs
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.lakefs.server.branch_editor import BranchEditor


class StagingUnknownError(IncompleteError):
    """Nobody can be asked what is staged. Whoever was asked and failed says something else."""


@dataclass(frozen=True, slots=True)
class DumpAge:
    """Of when refs are that were dumped, and how many ranges and metaranges were written since.

    `dumped` is None where the store does not say. What made nothing new, as a branch or a tag on an
    old commit, leaves no trace: none written since does not mean that nothing happened.
    """

    dumped: datetime | None
    written_since: int = 0

    def is_overtaken(self, before: DumpAge | None) -> bool:
        """Whether more was written since this dump than before; anything, if it is another one."""
        is_known = before is not None and before.dumped == self.dumped
        return self.written_since > (before.written_since if before and is_known else 0)


class Repository(Protocol):
    """One repository, read only but for its `editor`.

    Nothing is answered in part: what cannot be read to its end raises an error of
    `lakesweep.errors`. Two calls are two moments; call `staged` before `read_refs`, since a commit
    moves entries from the one to the other.
    """

    @property
    def name(self) -> str:
        """What people call it: its name on the server, or its address."""
        ...

    @property
    def namespace(self) -> StorageNamespace:
        """Where it stores its objects, and how entries may spell that."""
        ...

    @property
    def files(self) -> RangeFiles: ...

    @property
    def editor(self) -> BranchEditor | None:
        """Who takes paths off its branches; None where nobody can commit."""
        ...

    def read_refs(self) -> Refs:
        """All tags, then all branches, hidden ones too, then all commits, dangling ones too.

        In this order a commit that is made meanwhile is known, if not as a HEAD.
        """
        ...

    def dump_age(self) -> DumpAge | None:
        """How old the refs are that `read_refs` gives; None where they are those of now."""
        ...

    def staged(self) -> Iterator[pa.RecordBatch]:
        """Rows of STAGED: what each branch shows that its HEAD does not have so.

        It is found by listing both, as a new upload of equal content is in no diff. What is
        committed meanwhile may be among it. StagingUnknownError where nobody can tell, at once and
        not with the first row.
        """
        ...


RepositoryOpener = Callable[[], "Repository"]
Ages = Mapping[str, DumpAge]


def find_ages(openers: Mapping[str, RepositoryOpener]) -> dict[str, DumpAge]:
    """The ages of the dumps of repositories, of those that no server tells of."""
    ages = {name: opener().dump_age() for name, opener in openers.items()}
    return {name: age for name, age in ages.items() if age is not None}


def check_age(opener: RepositoryOpener, name: str, before: DumpAge | None) -> RepositoryOpener:
    """Opens a repository; IncompleteError where its dump was overtaken since it had that age."""
    return partial(_open, opener, name, before)


def _open(opener: RepositoryOpener, name: str, before: DumpAge | None) -> Repository:
    repository = opener()
    age = repository.dump_age()
    if age is not None and age.is_overtaken(before):
        raise IncompleteError(
            f"{name}: {_since(age)}, so that its refs are not those of its last dump",
            hint="dump its refs again: lakesweep lifecycle refs NAME has its server do so; then"
            " plan again",
        )
    return repository


def describe_ages(ages: Ages) -> list[str]:
    """Of when the dumps are."""
    return [f"{name} ({_dumped(age)})" for name, age in ages.items()]


def describe_stale(ages: Ages) -> list[str]:
    """Those after which something was written."""
    return [f"{name} ({_since(age)})" for name, age in ages.items() if age.written_since]


def _dumped(age: DumpAge) -> str:
    return f"dumped {age.dumped:%Y-%m-%dT%H:%M:%SZ}" if age.dumped else "dumped nobody knows when"


def _since(age: DumpAge) -> str:
    return f"{format_count(age.written_since, 'range')} or metaranges written since it was dumped"


def store_ages(ages: Ages) -> dict[str, Any]:
    """Ages as a plan has them."""
    return {name: msgspec.to_builtins(age) for name, age in ages.items()}


def load_ages(stored: Mapping[str, Any]) -> dict[str, DumpAge]:
    """The ages that a plan has."""
    return {name: msgspec.convert(age, DumpAge) for name, age in stored.items()}
