"""Fence the tasks of a run that deletes, wherever they run.

Only the driver writes the control object, after each renewal of its lease: the run, the
fencing token, and until when the lease is good. Anybody may write a second object, `stop`, to
end the run. Tasks read both before each batch. So if the driver dies, loses its lease or is
told to stop, its tasks end within one batch, even if they cannot reach the database.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import LeaseHeldError, MissingError, PausedError, StoppedError
from lakesweep.storage.address import parse
from lakesweep.timestamps import micros

if TYPE_CHECKING:
    from lakesweep.runs.leases import HeldLease
    from lakesweep.storage.object_store import ObjectStore, StoreOpener

CONTROL = "control.json"
STOP = "stop"


class FenceRecord(msgspec.Struct, frozen=True):
    """What the driver says; `good_until` are microseconds since 1970.

    Tasks of an earlier `round` end, however late they look: what they were given is settled anew.
    """

    run: str
    token: int
    good_until: int
    round: int = 0


@dataclass(frozen=True)
class RunFence:
    """The two objects in the folder of one run. Can be pickled."""

    stores: StoreOpener
    folder: str
    run: str
    token: int
    clock: Clock = field(default_factory=SystemClock)
    round: int = 0

    def renew(self, lease: HeldLease) -> None:
        """Let the tasks go on for as long as the lease is good."""
        leash = FenceRecord(self.run, self.token, micros(lease.good_until), self.round)
        store, key = self._place(CONTROL)
        store.write(key, msgspec.json.encode(leash))

    def take_over(self, folder: str, lease: HeldLease) -> None:
        """Have what is left of an earlier run end, whatever its clocks say: its folder is ours."""
        replace(self, folder=folder).renew(lease)

    def check(self) -> None:
        """StoppedError or LeaseHeldError unless the run may go on with its next batch."""
        store, key = self._place(CONTROL)
        try:
            leash = msgspec.json.decode(store.read(key), type=FenceRecord)
        except MissingError as error:
            raise LeaseHeldError(f"{self.run}: its control object is gone") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LeaseHeldError(f"{self.run}: its control object is damaged") from error
        if (leash.run, leash.token) != (self.run, self.token):
            raise LeaseHeldError(f"{self.run}: {leash.run} has taken over")
        if micros(self.clock.now()) >= leash.good_until:
            raise LeaseHeldError(f"{self.run}: its lease has ended")
        if is_stopped(self.stores, self.folder):
            raise StoppedError(f"{self.run} was told to stop")
        if leash.round != self.round:
            raise PausedError(f"{self.run}: roots moved meanwhile")

    def _place(self, name: str) -> tuple[ObjectStore, str]:
        return _place(self.stores, self.folder, name)


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
    """Whether somebody asked the run of a folder to end."""
    store, key = _place(stores, folder, STOP)
    try:
        store.head(key)
    except MissingError:
        return False
    return True


def _place(stores: StoreOpener, folder: str, name: str) -> tuple[ObjectStore, str]:
    place = parse(f"{folder.rstrip('/')}/{name}")
    return stores.open(place), place.key
