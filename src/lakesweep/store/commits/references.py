"""The references of one realm: named pointers that move by compare-and-swap."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from lakesweep.clock import Clock, micros
from lakesweep.errors import (
    DamagedRowError,
    HeadMissingError,
    NewerRowError,
    ReferenceExistsError,
    ReferenceMissingError,
    RefusedError,
)
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import MAX_NAME_BYTES, ObjectRow, Reference
from lakesweep.store.reserved_names import standing_names

#: The number of previous pointers that a reference remembers.
RECENT_POINTERS = 20


class References:
    """Creates, reads, swaps and deletes the references of one realm.

    Names are any text of 1 to 1,000 bytes in UTF-8, compared by these bytes. `cached` may return
    references that are slightly out of date.
    """

    def __init__(
        self, backend: Backend, realm: str, clock: Clock, cached: Backend | None = None
    ) -> None:
        self._backend = backend
        self._cached = cached or backend
        self._clock = clock
        self.realm = realm

    def create(self, name: str, pointer: int | None = None) -> Reference:
        """Create a reference. ReferenceExistsError if the name is taken."""
        reference = self._new(name, pointer)
        if not self._backend.insert_reference(self.realm, reference):
            raise ReferenceExistsError(f"reference {name!r} of realm {self.realm} already exists")
        return reference

    def ensure(self, names: Collection[str]) -> None:
        """Create the references that do not exist yet, without a pointer."""
        new = [self._new(name, None) for name in dict.fromkeys(names)]
        self._backend.insert_references(self.realm, new)

    def fetch(self, name: str) -> Reference:
        """The reference, possibly slightly out of date. ReferenceMissingError if there was none."""
        return self._fetch(self._cached, name)

    def fetch_for_update(self, name: str) -> Reference:
        """The reference as the database has it now. ReferenceMissingError if there is none."""
        return self._fetch(self._backend, name)

    def list(self) -> Iterator[Reference]:
        """All references, in an order that depends on the database."""
        return self._backend.scan_references(self.realm)

    def swap(self, expected: Reference, pointer: int) -> Reference | None:
        """Move the reference to another pointer; None if it is no longer as expected.

        After UnknownOutcomeError, a later version tells whether it happened: each swap adds one to
        the version and remembers the previous pointer.
        """
        if pointer == expected.pointer:
            raise ValueError(f"reference {expected.name!r} already points to {pointer}")
        new = moved(expected, pointer)
        return new if self._backend.update_reference(self.realm, new, expected) else None

    def commit(
        self, rows: Collection[ObjectRow], expected: Reference, pointer: int
    ) -> Reference | None:
        """Write rows, then swap. The notes on `swap` apply here too.

        With `commits_are_atomic` the rows are written only if the swap happens.
        """
        new = moved(expected, pointer)
        return new if self._backend.commit(self.realm, rows, new, expected) else None

    @property
    def commits_are_atomic(self) -> bool:
        return self._backend.capabilities.atomic_commits

    def delete(self, expected: Reference) -> bool:
        """Delete the reference if it is as expected; RefusedError if the realm needs it."""
        # Without it, the next commit would find no reference, and the realm could not be used or
        # repaired.
        if expected.name in standing_names(self.realm):
            raise RefusedError(
                "standing-reference",
                f"realm {self.realm} needs its reference {expected.name!r}",
                hint="delete the whole realm instead",
            )
        return self._backend.delete_reference(self.realm, expected)

    def missing_head(self, reference: Reference) -> HeadMissingError:
        """The error for a reference whose head does not exist."""
        command = self.recovery(reference.name)
        return HeadMissingError(
            f"the head {reference.pointer} of reference {reference.name!r} is missing",
            hint=f"{command} resets it to a recent commit that still exists",
        )

    @contextmanager
    def reading_head(self, reference: Reference) -> Iterator[None]:
        """Add the recovery command to errors about a damaged head."""
        try:
            yield
        except NewerRowError:
            raise
        except DamagedRowError as error:
            raise self.damaged_head(reference, error.message) from error

    def damaged_head(self, reference: Reference, message: str) -> DamagedRowError:
        """The error for a reference whose head cannot be read."""
        command = self.recovery(reference.name)
        return DamagedRowError(
            message, hint=f"{command} resets it to a recent commit that can be read"
        )

    def recovery(self, name: str) -> str:
        """The command that recovers a reference."""
        return f"lakesweep store recover {shlex.quote(name)} --realm {self.realm}"

    def _fetch(self, backend: Backend, name: str) -> Reference:
        found = backend.fetch_references(self.realm, [_checked(name)])
        if name not in found:
            raise ReferenceMissingError(
                f"realm {self.realm} has no reference {name!r}",
                hint=f"lakesweep store log --realm {self.realm} lists its references",
            )
        return found[name]

    def _new(self, name: str, pointer: int | None) -> Reference:
        return Reference(_checked(name), pointer, 0, micros(self._clock.now()))


def moved(reference: Reference, pointer: int) -> Reference:
    """The reference after a swap to this pointer."""
    before = () if reference.pointer is None else (reference.pointer,)
    recent = (*before, *reference.recent)[:RECENT_POINTERS]
    version = reference.version + 1
    return Reference(reference.name, pointer, version, reference.created_at, recent)


def _checked(name: str) -> str:
    if not 1 <= len(name.encode()) <= MAX_NAME_BYTES:
        raise ValueError(f"a reference name must have 1 to {MAX_NAME_BYTES} bytes: {name[:50]!r}")
    return name
