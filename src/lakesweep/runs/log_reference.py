"""What all run logs share: a reference whose head holds the index of runs, and leases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar

import msgspec

from lakesweep.errors import NotFoundError, ReferenceMissingError
from lakesweep.runs.records import LeaseRecord
from lakesweep.store import Attempt, Commit, Link, Realm

_PAGE_RUNS = 100
_NO_LEASE = LeaseRecord(token=0, run="", holder="", expires_at=0)


class NamedRun(Protocol):
    """A stored run of any kind."""

    @property
    def run(self) -> str:
        """Its name."""
        ...


Head = TypeVar("Head", bound=Commit)
Record = TypeVar("Record", bound=msgspec.Struct)
Run = TypeVar("Run", bound=NamedRun)


@dataclass(frozen=True, slots=True)
class LogReference(Generic[Head]):
    """One reference of a realm with heads of one type. Each change is one commit."""

    realm: Realm
    name: str
    head_type: type[Head]

    def head(self) -> Head:
        """The newest head; an empty one before the first commit."""
        try:
            head = self.realm.head(self.name, self.head_type, fresh=True)
        except ReferenceMissingError:
            return self.head_type()
        return head.value if head else self.head_type()

    def commit(self, change: Callable[[Attempt[Head], Head], Head | None], message: str) -> bool:
        """Replace the head by what `change` returns. False if it returned None.

        `change` gets the attempt and its head, and may run several times.
        """

        def attempt_change(attempt: Attempt[Head]) -> Head | None:
            return change(attempt, attempt.head or self.head_type())

        self.realm.references.ensure([self.name])
        return self.realm.commit(self.name, attempt_change, self.head_type, message=message).changed

    def fetch(self, links: Iterable[Link], kind: type[Record]) -> Iterator[Record]:
        """The objects behind links, in their order, read in pages as they are asked for."""
        rest = iter(links)
        while page := list(islice(rest, _PAGE_RUNS)):
            found = self.realm.objects.fetch_many(page, kind)
            yield from (each.value for each in found if each is not None)

    def add_lease(
        self, link: Callable[[Attempt[Head], Head, Link], Head | None], message: str
    ) -> Link | None:
        """A new lease that `link` adds to the head; None if there is one already."""
        # The lease is written before anything links to it, so no link is ever dangling.
        lease = self.realm.objects.insert(self.realm.new_id(), _NO_LEASE)
        assert lease is not None  # the id is new
        number = Link(lease.id)
        if self.commit(lambda attempt, head: link(attempt, head, number), message):
            return number
        self.realm.objects.remove(lease)
        return None


def find_run(runs: Iterable[Run], name: str) -> Run:
    """The run with this name. NotFoundError if there is none."""
    for run in runs:
        if run.run == name:
            return run
    raise NotFoundError(f"there is no run {name}", hint="lakesweep runs lists them")
