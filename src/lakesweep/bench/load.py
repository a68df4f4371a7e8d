"""The load of a benchmark, and what one writer does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lakesweep.clock import Clock
from lakesweep.errors import LakesweepError
from lakesweep.store.commits.commit import Change, Commit
from lakesweep.store.commits.committer import Attempt
from lakesweep.store.index.keys import key
from lakesweep.store.objects.links import Link
from lakesweep.store.realms.realm import Realm

#: What a commit writes besides its head.
_DATA = bytes(range(200))
#: So many errors are kept to be shown.
_SHOWN_ERRORS = 5


class BenchObject(msgspec.Struct, frozen=True):
    """What comes with each commit."""

    data: bytes


class BenchHead(Commit, frozen=True, kw_only=True):
    """The head of a reference that is written to."""

    newest: Link


BENCH_TYPES: Mapping[str, type[msgspec.Struct]] = {
    "bench-object": BenchObject,
    "bench-head": BenchHead,
}


@dataclass(frozen=True, slots=True)
class CommitLoad:
    """The number of writers, commits per writer, and references to spread them over."""

    writers: int = 8
    commits: int = 500
    references: int = 1

    def __post_init__(self) -> None:
        if min(self.writers, self.commits, self.references) < 1:
            raise ValueError("a load has at least one writer, one commit and one reference")

    @property
    def total(self) -> int:
        return self.writers * self.commits

    def reference(self, writer: int) -> str:
        """The reference that a writer commits to."""
        return f"bench/{writer % self.references}"


@dataclass(slots=True)
class WriterResult:
    """What became of the commits of one writer: the seconds of each that was done."""

    writer: int
    seconds: list[float] = field(default_factory=list)
    attempts: int = 0
    errors: list[str] = field(default_factory=list)

    def note_error(self, message: str) -> None:
        if len(self.errors) < _SHOWN_ERRORS:
            self.errors.append(message)


def warm_up(realm: Realm, writer: int) -> None:
    """Connect, and lease a node for ids, so that no commit that is measured has to."""
    name = f"warm-up/{writer}"
    realm.references.ensure([name])
    realm.commit(name, _commit_as(writer, 0), BenchHead)


def run_writer(
    realm: Realm, load: CommitLoad, writer: int, clock: Clock, report: Callable[[], None]
) -> WriterResult:
    """Commit as often as the load says; `report` is called after each."""
    done, reference = WriterResult(writer), load.reference(writer)
    for number in range(1, load.commits + 1):
        began = clock.monotonic()
        try:
            committed = realm.commit(reference, _commit_as(writer, number), BenchHead)
        except LakesweepError as error:
            done.note_error(error.message)
        else:
            done.seconds.append(clock.monotonic() - began)
            done.attempts += committed.attempts
        report()
    return done


def _commit_as(writer: int, number: int) -> Callable[[Attempt[Any]], BenchHead]:
    def change(attempt: Attempt[Any]) -> BenchHead:
        attempt.record(Change("add", key(writer, number)))
        return BenchHead(newest=attempt.write(BenchObject(_DATA)))

    return change
