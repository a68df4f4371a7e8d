"""Leases: one run at a time per lake, or per store.

A lease is one row, written conditionally. It expires unless its holder renews it, so a dead
run does not block others for long. The fencing token grows with each holder. Whatever a run
leaves for others to act on carries the token, so a run that was taken for dead and wakes up
is recognised.

The holder stops some time before the lease expires, and the next holder waits some time
after. Clocks may therefore differ by twice that margin.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from lakesweep.clock import Clock, micros, moment
from lakesweep.errors import LakesweepError, LeaseHeldError, StoreError, UnknownOutcomeError
from lakesweep.runs.records import LeaseRecord
from lakesweep.store import Realm, Stored

LEASE_TERM = timedelta(seconds=90)
CLOCK_MARGIN = timedelta(seconds=15)
RENEW_SECONDS = 20.0


@dataclass(slots=True)
class HeldLease:
    """The lease of a lake, or of the store, held by this run. Another thread may `renew` it."""

    realm: Realm
    clock: Clock
    #: What the run works on, for people.
    subject: str
    stored: Stored[LeaseRecord]
    #: The run that held it before and did not give it back.
    dead: str | None = None
    #: Who wants to know when the lease was renewed.
    listeners: list[Callable[[HeldLease], None]] = field(default_factory=list)
    #: Another run took it before it ended.
    is_lost: bool = False
    #: Left to end by itself, so that the next holder takes this run for dead.
    is_abandoned: bool = False

    @property
    def token(self) -> int:
        return self.stored.value.token

    @property
    def good_until(self) -> datetime:
        """Nothing that needs the lease may begin after this moment."""
        return moment(self.stored.value.expires_at) - CLOCK_MARGIN

    def check(self) -> None:
        """LeaseHeldError unless this run still holds the lease for a while."""
        if self.is_lost or self.clock.now() >= self.good_until:
            raise _lost(self.subject)

    def verify(self) -> None:
        """LeaseHeldError if another run has the lease now, even if it had not ended."""
        if _own(self.realm, self.stored) is None:
            self.is_lost = True
        self.check()

    def verified_until(self) -> datetime:
        """Until when the lease is good, read again; LeaseHeldError if another run has it."""
        self.verify()
        return self.good_until

    def renew(self) -> None:
        """Hold it for another term. LeaseHeldError if another run has it now."""
        # By compare-and-swap: a lease that another run took is never taken back, however late we
        # are.
        wanted = msgspec.structs.replace(self.stored.value, expires_at=_end(self.clock))
        try:
            renewed = self.realm.objects.update(self.stored, wanted)
        except UnknownOutcomeError:
            renewed = _own(self.realm, self.stored)
        if renewed is None:
            found = _own(self.realm, self.stored)
            if found is None:
                self.is_lost = True
                raise _lost(self.subject)
            renewed = found
        self.stored = renewed
        for listener in [*self.listeners]:
            listener(self)

    @contextmanager
    def telling(self, listener: Callable[[HeldLease], None]) -> Iterator[None]:
        """Call a function after each renewal of the lease, while the block runs."""
        self.listeners.append(listener)
        try:
            yield
        finally:
            self.listeners.remove(listener)

    def release(self) -> None:
        """Let others begin at once."""
        ended = msgspec.structs.replace(self.stored.value, expires_at=0)
        self.realm.objects.update(self.stored, ended)


def take_lease(
    realm: Realm,
    clock: Clock,
    subject: str,
    lease: int,
    run: str,
    holder: str,
    *,
    superseded: str | None = None,
) -> HeldLease:
    """Take the lease, the object `lease`, for a run. LeaseHeldError while another run has it.

    From a run that is `superseded` it is taken at once.
    """
    stored = realm.objects.fetch(lease, LeaseRecord)
    if stored is None:
        raise StoreError(f"the lease of {subject} is missing", hint="lakesweep store recover")
    end = moment(stored.value.expires_at)
    is_held = stored.value.expires_at and clock.now() < end + CLOCK_MARGIN
    if is_held and stored.value.run != superseded:
        raise LeaseHeldError(
            f"{subject} is being worked on by {stored.value.run} ({stored.value.holder})",
            hint=f"wait for it; if it is dead, its lease is free at {end + CLOCK_MARGIN:%H:%M:%S}Z",
        )
    # The token grows with every holder, also when the clock goes back. Whatever the last holder
    # still has under way carries the smaller number, and is refused.
    wanted = LeaseRecord(
        token=stored.value.token + 1, run=run, holder=holder, expires_at=_end(clock)
    )
    try:
        taken = realm.objects.update(stored, wanted)
    except UnknownOutcomeError:
        taken = None
    # A lost swap and a lost answer look alike. The record tells them apart: it names the run.
    if taken is None:
        found = realm.objects.fetch(lease, LeaseRecord)
        if found is None or found.value != wanted:
            raise LeaseHeldError(f"another run took the lease of {subject} just now")
        taken = found
    return HeldLease(
        realm, clock, subject, taken, dead=stored.value.run if stored.value.expires_at else None
    )


@contextmanager
def keep_renewing(lease: HeldLease, every_seconds: float = RENEW_SECONDS) -> Iterator[HeldLease]:
    """Renew the lease in the background while the block runs, and give it back at the end."""
    done = threading.Event()
    thread = threading.Thread(
        target=_renew_until, args=(lease, done, every_seconds), daemon=True, name="lease"
    )
    thread.start()
    try:
        yield lease
    finally:
        done.set()
        thread.join()
        if not lease.is_abandoned:
            with suppress(LakesweepError):
                lease.release()  # or else it ends by itself


def _renew_until(lease: HeldLease, done: threading.Event, every_seconds: float) -> None:
    while not done.wait(every_seconds):
        try:
            lease.renew()
        except LeaseHeldError:
            return  # the work under it checks the lease before its next step
        except LakesweepError:
            continue  # the lease lasts for some more beats


def _own(realm: Realm, before: Stored[LeaseRecord]) -> Stored[LeaseRecord] | None:
    """The lease as it is now, if this run still holds it: the answer to a renewal may be lost."""
    found = realm.objects.fetch(before.id, LeaseRecord)
    if found is None or found.value.token != before.value.token or not found.value.expires_at:
        return None
    return found


def _end(clock: Clock) -> int:
    return micros(clock.now() + LEASE_TERM)


def _lost(subject: str) -> LeaseHeldError:
    return LeaseHeldError(
        f"this run no longer holds the lease of {subject}",
        hint="another run may have taken it; lakesweep runs shows them",
    )
