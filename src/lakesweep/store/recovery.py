"""Going back to a commit that is still there."""

from __future__ import annotations

from lakesweep.errors import ContendedError, DamagedRowError, HeadMissingError
from lakesweep.store.backend import Reference
from lakesweep.store.commit import Commit
from lakesweep.store.objects import Objects, Stored
from lakesweep.store.references import References


def recover(references: References, objects: Objects, name: str) -> Reference:
    """Let a reference whose head cannot be read point to the newest recent commit that can.

    What was committed after that one is lost. A reference whose head can be read stays as it is.
    """
    reference = references.fetch_for_update(name)
    if reference.pointer is None:
        return reference
    for number in (reference.pointer, *reference.recent):
        if _read(objects, number) is not None:
            return _point(references, reference, number)
    raise HeadMissingError(
        f"neither the head of reference {name!r} nor any of its {len(reference.recent)} recent "
        "commits can be read",
        hint="restore the database from a backup",
    )


def _read(objects: Objects, number: int) -> Stored[Commit] | None:
    try:
        return objects.fetch(number, Commit)
    except DamagedRowError:
        return None


def _point(references: References, reference: Reference, number: int) -> Reference:
    if number == reference.pointer:
        return reference
    swapped = references.swap(reference, number)
    if swapped is None:
        raise ContendedError(f"reference {reference.name!r} moved while it was recovered")
    return swapped
