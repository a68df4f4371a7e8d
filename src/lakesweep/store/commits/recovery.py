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
    """How it stands with a reference.

    `target` is the newest of its commits that can be read, None before the first commit. `lost` are
    those behind which it lies, newest first: none of them if the head can be read.
    """

    reference: Reference
    lost: tuple[UnreadableCommit, ...]
    target: Stored[Commit] | None


def recover(references: References, objects: Objects, name: str) -> Reference:
    """Let a reference whose head cannot be read point to the newest recent commit that can.

    What was committed after that one is lost. A reference whose head can be read stays as it is.
    """
    return reset_reference(references, diagnose(references, objects, name))


def _take(_: Reference) -> None:
    """Take every commit that can be read."""


def diagnose(
    references: References,
    objects: Objects,
    name: str,
    examine: Callable[[Reference], object] = _take,
) -> Diagnosis:
    """Find the newest commit that can be read; nothing is changed.

    `examine` may look further: it is given the reference with the commit as its head, and raises
    DamagedRowError where that is not good enough. HeadMissingError if there is no commit left. What
    somebody else can read is not lost: an object that is no commit is a WrongTypeError, a row of a
    newer format a NewerRowError.
    """
    reference = references.fetch_for_update(name)
    if reference.pointer is None:
        return Diagnosis(reference, (), None)
    lost: list[UnreadableCommit] = []
    for number in _line((reference.pointer, *reference.recent)):
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


def _line(pointers: Sequence[int]) -> Iterator[int]:
    """Each pointer once, without those that the reference went back from."""
    last = {number: place for place, number in enumerate(pointers)}
    place = 0
    while place < len(pointers):
        yield pointers[place]
        place = last[pointers[place]] + 1


def reset_reference(references: References, diagnosis: Diagnosis) -> Reference:
    """Let the reference point to the commit that was found; ContendedError if it moved since."""
    reference, target = diagnosis.reference, diagnosis.target
    if target is None or not diagnosis.lost:
        return reference
    swapped = references.swap(reference, target.id)
    if swapped is None:
        raise ContendedError(f"reference {reference.name!r} moved while it was recovered")
    return swapped


def _read(objects: Objects, number: int) -> Stored[Commit]:
    # Rows whose checksum is right are not lost, even if their type makes no sense here.
    [commit] = fetch_commits(objects.undecoded(), [number])
    if commit is None:
        raise DamagedRowError(f"object {number}: it is missing")
    return commit
