"""Roots: everything that keeps files alive. What a root is, and the interface of root sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from lakesweep.untrusted.limits import read_failure

if TYPE_CHECKING:
    from lakesweep.storage.options import StorageOptions


class RootKind(StrEnum):
    """The kinds of roots."""

    ICEBERG_TABLE = "iceberg-table"
    ICEBERG_VIEW = "iceberg-view"
    PAIMON_TABLE = "paimon-table"
    LAKEFS = "lakefs"
    PINNED = "pinned"
    #: Files of other software, in a format that this run cannot read.
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class RootRow:
    """One root. Two rows are equal if nothing changed between them.

    `pointer` is the address of its metadata file, or another token that changes whenever the root
    does; then `own_file` is the address of the file that reading starts with. `locations` are the
    folders that it is known to use before it is read; for pinned and foreign roots, that is all.
    `unless_known` is the id of a table, and makes the row void if another root is that table, in
    this or a later version. A row without `keeps` is only reported.
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
    """Something that may keep files alive but cannot be listed.

    With a `name` it is one root, which keeps `locations` and everything that earlier runs saw it
    use. Without one it is a whole source: what it keeps is unknown.
    """

    source: str
    reason: str
    name: str | None = None
    kind: RootKind = RootKind.ICEBERG_TABLE
    locations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EmptyRootSource:
    """A source that should list roots but lists none; `reason` says what may be wrong."""

    source: str
    reason: str


class MissingFileTolerance(Protocol):
    """Decides whether a referenced file may be missing."""

    def excuse(self, path: str) -> bool:
        """Whether a missing file is not a loss; False if that is unknown."""
        ...


class RootSource(Protocol):
    """Lists the roots of one origin, such as a catalog.

    `collect` returns every root that exists at some time between its start and its end, or reports
    what it cannot list; if it raises, the whole source counts as unreadable. It may be called any
    number of times. Sources are asked after the listing of files is complete, so that a file that
    becomes referenced in the meantime is seen as referenced.
    """

    @property
    def name(self) -> str:
        """The name of the source in reports."""
        ...

    def collect(self) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
        """Every current root."""
        ...

    def look(self, root: RootRow) -> RootRow | None:
        """The current state of the same root; None only if the source says that it is gone.

        Raises LakesweepError if that is unknown.
        """
        ...


def is_catalog(origin: str) -> bool:
    """Whether a source of this name is a catalog, which lists a table until it is dropped.

    Of other sources, a table disappears with a line of the configuration, or with its files.
    """
    return origin.startswith(("catalog ", "realm "))


def collect_roots(
    sources: Iterable[RootSource],
) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
    """The roots of all sources. A source that fails is a problem, whatever it returned before.

    Whatever a catalog's client raises, only this source is unreadable: the plan continues.
    """
    for source in sources:
        try:
            yield from source.collect()
        except Exception as error:
            yield RootProblem(source.name, read_failure(source.name, error).message)
