"""All roots but the table that is purged: it must not keep its own files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lakesweep.marks.columns import RootFacts
from lakesweep.storage.address import identity
from lakesweep.sweep.mark.root_identity import has_superseded
from lakesweep.sweep.roots.iceberg import CatalogRoots, MetadataRoots
from lakesweep.sweep.roots.iceberg_scan import ScanRoots
from lakesweep.sweep.roots.root import EmptyRootSource, RootProblem, RootRow, RootSource


@dataclass(frozen=True)
class PurgeTarget:
    """The table or view to purge, by its name in a catalog or by its metadata file alone.

    `roots` are the sources and names under which it was found.
    """

    pointer: str
    facts: RootFacts
    catalog: str | None = None
    name: str | None = None
    roots: set[tuple[str, str]] = field(default_factory=set)

    @property
    def names(self) -> list[str]:
        """The names under which catalogs list it."""
        return sorted(name for _, name in self.roots if name != self.pointer)


@dataclass(frozen=True)
class RootsBeside:
    """A source without the root that is the target; newer versions of it are roots of their own."""

    source: RootSource
    target: PurgeTarget

    @property
    def name(self) -> str:
        return self.source.name

    def collect(self) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
        for found in self.source.collect():
            if not self._is_target(found):
                yield found

    def look(self, root: RootRow) -> RootRow | None:
        return self.source.look(root)

    def _is_target(self, found: RootRow | RootProblem | EmptyRootSource) -> bool:
        match found:
            case EmptyRootSource():
                return False
            case RootProblem():
                # A folder cannot be resolved any more once its version hint was purged.
                return (self.name, str(found.name)) in self.target.roots
            case RootRow() if self._matches(found):
                self.target.roots.add((self.name, found.name))
                return True
            case RootRow():
                return False

    def _matches(self, row: RootRow) -> bool:
        target = self.target
        is_same = identity(row.pointer) == identity(target.pointer)
        match self.source:
            case CatalogRoots() if target.catalog is not None:
                return self.name == target.catalog and row.name == target.name
            case ScanRoots():
                is_older = has_superseded(target.pointer, target.facts, row.pointer)
                return row.unless_known == target.facts.uuid and is_older
            case MetadataRoots():
                return is_same
            case _:
                return is_same and target.catalog is None
