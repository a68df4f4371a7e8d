"""The interfaces through which packages tell maintenance what to retain in a realm.

Index stripes, linked objects and earlier commits need not be named: whatever a retained
reference or object leads to is found in its bytes, whatever its type. An identifier only names
the starting points.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lakesweep.store import Commit, Realm, Stored
from lakesweep.store.realms.payloads import Payload


class Collector(Protocol):
    """Receives what is retained of one realm."""

    @property
    def realm(self) -> Realm:
        """The realm, for identifiers that read in it. Reading alone retains nothing."""
        ...

    @property
    def cut_off(self) -> datetime:
        """Everything written later than this is retained in any case."""
        ...

    def retain_reference(self, name: str) -> None:
        """Retain a reference, and everything that its retained log references.

        It need not exist.
        """
        ...

    def retain_objects(self, ids: Collection[int]) -> None:
        """Retain objects with everything they reference. Missing ones are no error."""
        ...

    def commits(self, reference: str) -> Iterator[Stored[Commit]]:
        """The commits of a reference that are kept if it is retained, newest first.

        Every commit is among them that was the head at any moment since the cut-off. None if there
        is no such reference, or no commit yet.
        """
        ...


class RealmIdentifier(Protocol):
    """Names what is retained of a realm.

    If it raises an error, nothing in the realm is deleted.
    """

    def owns(self, reference: str) -> bool:
        """Whether a reference of this name is deleted unless this identifier retains it.

        References that no identifier owns are always retained.
        """
        ...

    def identify(self, collector: Collector) -> bool:
        """Name what is retained; returns whether this identifier knows the realm.

        Nothing is deleted from a realm that no identifier knows.
        """
        ...


class TypeIdentifier(Protocol):
    """Names what objects of one type retain without linking to it.

    `type` is the name under which the type is registered with the store.
    """

    @property
    def type(self) -> str: ...

    def identify(self, collector: Collector, found: Payload) -> None:
        """Called once for each retained object of the type; errors count as for a realm."""
        ...


class Tidier(Protocol):
    """Removes, by commits, entries of a realm whose target no longer exists.

    It runs before anything is identified, in active realms. For each batch it reads the entries
    first and their targets second: so entries that were created together with their targets are
    never taken for stale.
    """

    def tidy(self, realm: Realm, *, dry_run: bool) -> Mapping[str, int]:
        """Remove or only count stale entries, by kind. Commits nothing if there are none."""
        ...


@dataclass(frozen=True, slots=True)
class Plugin:
    """What one package adds to maintenance.

    Other packages offer theirs, ready made, as an entry point of the group `lakesweep.maintenance`.
    """

    name: str
    realms: Sequence[RealmIdentifier] = ()
    types: Sequence[TypeIdentifier] = ()
    tidiers: Sequence[Tidier] = ()
