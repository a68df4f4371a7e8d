"""Fence the tasks of a run that deletes, wherever they run.

Only the driver writes the control object, after each renewal of its lease: the run, the
fencing token, and until when the lease is good. Anyone may write a second object, `stop`, to
end the run. Tasks read both before each batch and, unless they just did, before each request. So if
the driver dies, loses its lease or is told to stop, its tasks end, even if they cannot reach the
database.

Others may be able to write there. The driver signs the control object with a key that only it and
its tasks know, so nobody else can make a run last longer. Whoever puts an earlier object back gains
no more than the time that the driver had granted with it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from lakesweep.clock import Clock, SystemClock, micros, moment
from lakesweep.decoding import typed_json
from lakesweep.errors import (
    LakesweepError,
    LeaseHeldError,
    MissingError,
    PausedError,
    StoppedError,
)
from lakesweep.storage.address import parse
from lakesweep.termination import stop_by
from lakesweep.untrusted.documents import JSON_ERRORS

if TYPE_CHECKING:
    from lakesweep.runs.leases import HeldLease
    from lakesweep.storage.object_store import ObjectStore, StoreOpener

CONTROL = "control.json"
STOP = "stop"
#: How long a reading of the token counts.
_FRESH = timedelta(seconds=1)


class FenceRecord(msgspec.Struct, frozen=True):
    """What the driver says; `good_until` are microseconds since 1970.

    Tasks of an earlier `round` stop, however late they check: their work was given out again.
    """

    run: str
    token: int
    good_until: int
    round: int = 0
    signature: str = ""

    def signed(self, key: bytes) -> FenceRecord:
        """The same with the signature that belongs to it."""
        content = msgspec.json.encode(msgspec.structs.replace(self, signature=""))
        digest = hmac.new(key, content, hashlib.sha256).hexdigest()
        return msgspec.structs.replace(self, signature=digest)


@dataclass(frozen=True)
class RunFence:
    """The two objects in the folder of one run. Can be pickled."""

    stores: StoreOpener
    folder: str
    run: str
    token: int
    clock: Clock = field(default_factory=SystemClock)
    round: int = 0
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def renew(self, lease: HeldLease) -> None:
        """Let the tasks go on for as long as the lease is good."""
        leash = FenceRecord(self.run, self.token, micros(lease.good_until), self.round)
        store, key = self._place(CONTROL)
        store.write(key, msgspec.json.encode(leash.signed(self.key)))

    def take_over(self, folder: str, lease: HeldLease) -> None:
        """Have what is left of an earlier run end, whatever its clocks say: its folder is ours."""
        replace(self, folder=folder).renew(lease)

    def check(self) -> None:
        """StoppedError or LeaseHeldError unless the run may go on."""
        self.verified_until()

    def verified_until(self) -> datetime:
        """Until when the run may go on, read again; the same errors."""
        store, key = self._place(CONTROL)
        try:
            leash = typed_json(store.read(key), FenceRecord)
        except MissingError as error:
            raise LeaseHeldError(f"{self.run}: its control object is gone") from error
        except JSON_ERRORS as error:
            raise LeaseHeldError(f"{self.run}: its control object is damaged") from error
        if (leash.run, leash.token) != (self.run, self.token):
            raise LeaseHeldError(f"{self.run}: {leash.run} has taken over")
        if not hmac.compare_digest(leash.signature, leash.signed(self.key).signature):
            raise LeaseHeldError(f"{self.run}: its control object was not written by this run")
        if micros(self.clock.now()) >= leash.good_until:
            raise LeaseHeldError(f"{self.run}: its lease has ended")
        if is_stopped(self.stores, self.folder):
            raise StoppedError(f"{self.run} was told to stop")
        if leash.round != self.round:
            raise PausedError(f"{self.run}: roots moved meanwhile")
        return moment(leash.good_until)

    @contextmanager
    def stopped_by_signal(self) -> Iterator[None]:
        """Have SIGTERM stop the tasks before their next batch, while the block runs."""

        def stop() -> None:
            with suppress(LakesweepError):  # a second signal interrupts
                request_stop(self.stores, self.folder)

        with stop_by(stop):
            yield

    def _place(self, name: str) -> tuple[ObjectStore, str]:
        return _place(self.stores, self.folder, name)


class RequestFence:
    """Checks a fence before each request of a task, which may be sent from many threads.

    The token is read again if the last reading is older than a second. A process that was stopped
    for longer, by a signal or with its whole machine, therefore reads it before it sends anything;
    one that was not spends no more than one reading a second. The end of the lease is compared
    with both clocks before each request: neither setting the time back nor a suspended machine
    makes it last longer. Once a check has failed, all later ones do.
    """

    def __init__(self, read: Callable[[], datetime], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: tuple[datetime, float] | None = None
        self._ends = 0.0
        self._until = moment(0)
        self.ended: LakesweepError | None = None

    def __call__(self) -> None:
        """StoppedError or LeaseHeldError if the run may not send another request."""
        with self._lock:
            if self.ended is None and not self._is_fresh():
                self._refresh()
            if self.ended is not None:
                raise self.ended

    def _is_fresh(self) -> bool:
        if self._seen is None:
            return False
        now, ticks = self._clock.now(), self._clock.monotonic()
        read_at, read_ticks = self._seen
        is_recent = abs(now - read_at) < _FRESH and ticks - read_ticks < _FRESH.total_seconds()
        return is_recent and now < self._until and ticks < self._ends

    def _refresh(self) -> None:
        # Clocks first: what the answer takes on its way only shortens the time that is left.
        now, ticks = self._clock.now(), self._clock.monotonic()
        try:
            self._until = self._read()
        except (LeaseHeldError, StoppedError) as error:
            self.ended = error
            return
        self._seen = now, ticks
        self._ends = ticks + (self._until - now).total_seconds()


class FenceWriter:
    """The driver's end of the leash. One thread renews it, and another one may pause the tasks."""

    def __init__(self, control: RunFence, lease: HeldLease) -> None:
        self.control = control
        self._lease = lease
        self._lock = threading.Lock()

    def renew(self, lease: HeldLease) -> None:
        """Let the tasks of this round go on."""
        with self._lock:
            self.control.renew(lease)

    def pause(self) -> None:
        """Have all tasks end before their next batch; the next ones are those of another round."""
        with self._lock:
            self.control = replace(self.control, round=self.control.round + 1)
            self.control.renew(self._lease)


def request_stop(stores: StoreOpener, folder: str) -> None:
    """Have the run of a folder end before its next batch."""
    store, key = _place(stores, folder, STOP)
    store.write(key, b"")


def is_stopped(stores: StoreOpener, folder: str) -> bool:
    """Whether the run of a folder was asked to stop."""
    store, key = _place(stores, folder, STOP)
    try:
        store.head(key)
    except MissingError:
        return False
    return True


def _place(stores: StoreOpener, folder: str, name: str) -> tuple[ObjectStore, str]:
    place = parse(f"{folder.rstrip('/')}/{name}")
    return stores.open(place), place.key
