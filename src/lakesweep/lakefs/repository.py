"""The one interface of repositories, whether a server tells of them or their bucket alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lakesweep.errors import IncompleteError
from lakesweep.lakefs.addresses import Namespace
from lakesweep.lakefs.refs import Refs

if TYPE_CHECKING:
    from lakesweep.lakefs.editing import Editor


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


class RangeFiles(Protocol):
    """The files of a repository that name objects and ranges. Can be pickled, and shared.

    They never change: an id is a hash of what its file says. So what was read of one may be kept
    for ever.
    """

    def read(self, id_: str, *, meta: bool) -> bytes:
        """The file of a range, or with `meta` of a metarange, as it is stored.

        MissingError where it is not there. Whoever parses it compares it with the id.
        """
        ...


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
    def namespace(self) -> Namespace:
        """Where it stores its objects, and how entries may spell that."""
        ...

    @property
    def files(self) -> RangeFiles: ...

    @property
    def editor(self) -> Editor | None:
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
