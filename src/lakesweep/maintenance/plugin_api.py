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
    """Takes what shall stay of one realm."""

    @property
    def realm(self) -> Realm:
        """The realm, for whoever has to read in it. Nothing stays only because it was read."""
        ...

    @property
    def cut_off(self) -> datetime:
        """Whatever was written later than this stays in any case."""
        ...

    def retain_reference(self, name: str) -> None:
        """Keep a reference, and all that its log leads to, as far back as its history is kept.

        There need be none of that name.
        """
        ...

    def retain_objects(self, ids: Collection[int]) -> None:
        """Keep objects with all that they lead to. Those that are not there are no error."""
        ...

    def commits(self, reference: str) -> Iterator[Stored[Commit]]:
        """The commits of a reference that are kept if it is retained, newest first.

        Every commit is among them that was the head at any moment since the cut-off. None if there
        is no such reference, or no commit yet.
        """
        ...


class RealmIdentifier(Protocol):
    """Names what stays of a realm.

    An error that it raises ends the work on the realm, of which nothing is deleted then.
    """

    def owns(self, reference: str) -> bool:
        """Whether a reference of this name goes unless this identifier retains it.

        References that no identifier owns always stay.
        """
        ...

    def identify(self, collector: Collector) -> bool:
        """Name what stays; whether this identifier knows what the realm is.

        Of a realm that no identifier knows nothing is deleted.
        """
        ...


class TypeIdentifier(Protocol):
    """Names what objects of one type keep alive without a link to it.

    `type` is the name under which the type is registered with the store.
    """

    @property
    def type(self) -> str: ...

    def identify(self, collector: Collector, found: Payload) -> None:
        """Called once for each object of the type that stays; errors count as in a realm's."""
        ...


class Tidier(Protocol):
    """Removes, by commits, what a realm still names although its target is gone.

    It runs before anything is identified, in realms that are active. For each batch it reads what
    may be stale first, and only then what there is: so what was created together is never taken
    for stale.
    """

    def tidy(self, realm: Realm, *, dry_run: bool) -> Mapping[str, int]:
        """Remove it, or only count it; how many of each kind. No more than needed is committed."""
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
