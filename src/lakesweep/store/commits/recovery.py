"""Recover a reference whose head cannot be read: go back to the newest commit that can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lakesweep.errors import ContendedError, DamagedRowError, HeadMissingError, NewerRowError
from lakesweep.store.backends.rows import Reference
from lakesweep.store.commits.commit import Commit, fetch_commits
from lakesweep.store.commits.references import References
from lakesweep.store.objects.objects import Objects, Stored


@dataclass(frozen=True, slots=True)
class UnreadableCommit:
    """A commit that cannot be read, and why."""

    id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The state of a reference.

    `target` is the newest of its commits that can be read, None before the first commit. `lost` are
    the unreadable commits after it, newest first: none if the head can be read.
    """

    reference: Reference
    lost: tuple[UnreadableCommit, ...]
    target: Stored[Commit] | None


def recover(references: References, objects: Objects, name: str) -> Reference:
    """Reset a reference with an unreadable head to its newest readable recent commit.

    Everything committed after that one is lost. A reference with a readable head stays unchanged.
    """
    return reset_reference(references, diagnose(references, objects, name))


def _accept_any(_: Reference) -> None:
    """Accept every readable commit."""


def diagnose(
    references: References,
    objects: Objects,
    name: str,
    examine: Callable[[Reference], object] = _accept_any,
) -> Diagnosis:
    """Find the newest readable commit; changes nothing.

    `examine` may check further: it is given the reference with the commit as its head, and raises
    DamagedRowError to reject it. HeadMissingError if no commit is left. What another program could
    read is not lost: an object that is not a commit is a WrongTypeError, a row of a newer format a
    NewerRowError.
    """
    reference = references.fetch_for_update(name)
    if reference.pointer is None:
        return Diagnosis(reference, (), None)
    lost: list[UnreadableCommit] = []
    for number in _distinct_pointers((reference.pointer, *reference.recent)):
        try:
            commit = _read(objects, number)
            examine(replace(reference, pointer=number))
        except NewerRowError:
            raise
        except DamagedRowError as error:
            lost.append(UnreadableCommit(number, error.message))
        else:
            return Diagnosis(reference, tuple(lost), commit)
    raise HeadMissingError(
        f"neither the head of reference {name!r} nor any of its {len(lost) - 1} recent "
        f"commits can be read; {lost[0].reason}",
        hint="restore the database from a backup",
    )


def _distinct_pointers(pointers: Sequence[int]) -> Iterator[int]:
    """Each pointer once, without those that an earlier recovery went back from."""
    last = {number: position for position, number in enumerate(pointers)}
    position = 0
    while position < len(pointers):
        yield pointers[position]
        position = last[pointers[position]] + 1


def reset_reference(references: References, diagnosis: Diagnosis) -> Reference:
    """Point the reference at the commit that was found; ContendedError if it has moved."""
    reference, target = diagnosis.reference, diagnosis.target
    if target is None or not diagnosis.lost:
        return reference
    swapped = references.swap(reference, target.id)
    if swapped is None:
        raise ContendedError(f"reference {reference.name!r} moved during its recovery")
    return swapped


def _read(objects: Objects, number: int) -> Stored[Commit]:
    # Rows with a correct checksum are not lost, even if their type is unknown here.
    [commit] = fetch_commits(objects.undecoded(), [number])
    if commit is None:
        raise DamagedRowError(f"object {number}: missing")
    return commit
