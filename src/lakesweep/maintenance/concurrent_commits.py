"""Check that commits made during a run are recognised as new.

A run retains what it found in use and what was written after the cut-off. A commit made after
the run read the references is retained by its timestamp alone, which comes from the writer's
clock. A clock that is far behind, a process that was suspended in the middle of a commit, or a
reference that is reset to an old commit could make rows in use look old and unused. So before
each delete, the commits made meanwhile are checked; one that is not newer than the cut-off
is an error, and nothing more is deleted in that realm.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from lakesweep.errors import ReferenceMissingError, StoreError
from lakesweep.store import Realm
from lakesweep.store.backends.rows import Reference

#: Where each reference of a realm pointed before anything was identified.
SeenPointers = Mapping[str, int | None]

_HINT = "set the clocks of all machines that use the store right, then run it again"


def read_pointers(realm: Realm) -> SeenPointers:
    """Where the references of a realm point now."""
    return {reference.name: reference.pointer for reference in realm.references.list()}


class ConcurrentCommits:
    """The commits of a realm that came since its references were seen. Threads may share it."""

    def __init__(self, realm: Realm, seen: SeenPointers, cut_off_at: int) -> None:
        self._realm = realm
        self._seen = dict(seen)
        self._cut_off_at = cut_off_at

    @property
    def seen(self) -> SeenPointers:
        """Where the references pointed when they were looked at last."""
        return dict(self._seen)

    def check(self) -> None:
        """StoreError if one of them is not newer than the cut-off.

        Rows that were read before may then be deleted: a commit that comes later leads to none of
        them but those that the one before it led to. That holds wherever the objects of a commit
        are seen no earlier than its reference moves; elsewhere it narrows the gap.
        """
        for reference in self._realm.references.list():
            if reference.name not in self._seen:
                self._check(reference.name, reference.created_at)
            if reference.pointer != self._seen.get(reference.name):
                with suppress(ReferenceMissingError):  # it went meanwhile
                    self._check_log(reference)
                self._seen[reference.name] = reference.pointer

    def _check_log(self, reference: Reference) -> None:
        before = self._seen.get(reference.name)
        for commit in self._realm.log(reference.name):
            if commit.id == before:
                return
            self._check(reference.name, commit.created_at)

    def _check(self, name: str, moment: int) -> None:
        if moment <= self._cut_off_at:
            raise StoreError(
                f"reference {name!r} was moved during the run to what is older than the grace time:"
                " a clock is wrong, or an old commit was brought back",
                hint=_HINT,
            )
