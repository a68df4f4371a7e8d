"""Roots: whatever keeps files alive. What a root is, and the interface of what lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from lakesweep.errors import LakesweepError

if TYPE_CHECKING:
    from lakesweep.storage.options import StorageOptions


class RootKind(StrEnum):
    """What a root is."""

    ICEBERG_TABLE = "iceberg-table"
    ICEBERG_VIEW = "iceberg-view"
    PAIMON_TABLE = "paimon-table"
    LAKEFS = "lakefs"
    PINNED = "pinned"
    #: What other software keeps, in a format that this run cannot read.
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class RootRow:
    """One root. Two rows are equal if nothing changed between them.

    `pointer` is the address of its metadata file, or another token that changes whenever the root
    does; then `own_file` is the address of the file that reading begins with. `locations` are the
    folders that it is known to use before it is read; all that a pinned or foreign root says.
    `unless_known` is the id of a table, and makes the row void where another root is that table, as
    it is here or later. A row that does not keep anything is only reported.
    """

    name: str
    kind: RootKind
    pointer: str
    source: str
    locations: tuple[str, ...] = field(default=(), compare=False)
    unless_known: str | None = None
    keeps: bool = True
    access: StorageOptions | None = field(default=None, repr=False, compare=False)
    own_file: str | None = None

    @property
    def file(self) -> str:
        """The address of the root's own file."""
        return self.own_file or self.pointer


@dataclass(frozen=True, slots=True)
class RootProblem:
    """Something that may keep files alive, and cannot be listed.

    With a `name` it is one root, which holds on to `locations`, and to all that earlier runs saw it
    use. Without one it is a whole source: nothing is known of what it keeps.
    """

    source: str
    reason: str
    name: str | None = None
    kind: RootKind = RootKind.ICEBERG_TABLE
    locations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EmptyRootSource:
    """Who should list some, and lists none; `reason` is what may be wrong."""

    source: str
    reason: str


class MissingFileTolerance(Protocol):
    """Knows of what may be missing although somebody named it."""

    def excuse(self, path: str) -> bool:
        """Whether a file that is missing is no loss; never where that cannot be told."""
        ...


class RootSource(Protocol):
    """Lists roots of one origin, such as a catalog.

    `collect` gives every root that there is at some moment between its start and its end, or says
    what it cannot give; an error that it raises stands for a problem of the whole source. It may be
    called any number of times. Sources are asked after the listing of files is complete, so that a
    file which becomes referenced meanwhile is seen to be.
    """

    @property
    def name(self) -> str:
        """What the source is called in reports."""
        ...

    def collect(self) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
        """Every root, now."""
        ...

    def look(self, root: RootRow) -> RootRow | None:
        """The same root, now; None only if the source says that it is gone.

        Raises LakesweepError if that cannot be told.
        """
        ...


def collect_roots(
    sources: Iterable[RootSource],
) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
    """The roots of all sources. A source that fails is a problem, whatever it gave before."""
    for source in sources:
        try:
            yield from source.collect()
        except LakesweepError as error:
            yield RootProblem(source.name, error.message)
