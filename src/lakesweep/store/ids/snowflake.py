"""Snowflake ids: one unused bit, 41 of milliseconds, 10 of the node, 12 of a sequence.

`SnowflakeIds` never generates an id outside the lease of its node.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from lakesweep.clock import Clock
from lakesweep.errors import LeaseHeldError, StoreError

EPOCH = datetime(2025, 3, 1, tzinfo=UTC)
NODE_COUNT = 1024
SEQUENCE_COUNT = 4096
LAST_MILLISECOND = 2**41 - 1

_MILLISECOND = timedelta(milliseconds=1)
_SEQUENCE_BITS = 12
_NODE_BITS = 10


class IdParts(NamedTuple):
    """The components of an id; milliseconds count from the epoch."""

    millisecond: int
    node: int
    sequence: int


def compose(millisecond: int, node: int, sequence: int) -> int:
    """The id with these components."""
    if not 0 <= millisecond <= LAST_MILLISECOND:
        raise ValueError(f"millisecond {millisecond} does not fit into an id")
    if not 0 <= node < NODE_COUNT:
        raise ValueError(f"node {node} is not between 0 and {NODE_COUNT - 1}")
    if not 0 <= sequence < SEQUENCE_COUNT:
        raise ValueError(f"sequence number {sequence} is out of range")
    return (millisecond << _NODE_BITS | node) << _SEQUENCE_BITS | sequence


def decompose(id_: int) -> IdParts:
    """The components of an id."""
    if not 0 <= id_ < 2**63:
        raise ValueError(f"{id_} is not an id: ids have 63 bits and no sign")
    rest, sequence = divmod(id_, SEQUENCE_COUNT)
    return IdParts(*divmod(rest, NODE_COUNT), sequence)


def describe(id_: int) -> str:
    """An id in readable form."""
    parts = decompose(id_)
    moment = moment_of(parts.millisecond).isoformat(timespec="milliseconds")
    return f"{id_}: {moment}, node {parts.node}, number {parts.sequence}"


def millisecond_of(moment: datetime) -> int:
    """The whole milliseconds from the epoch to a time."""
    return (moment - EPOCH) // _MILLISECOND


def moment_of(millisecond: int) -> datetime:
    """When a millisecond starts."""
    return EPOCH + millisecond * _MILLISECOND


@dataclass(frozen=True, slots=True)
class LeasedNode:
    """A node for the milliseconds from `start` up to, but not including, `end`.

    No one else ever gets the same node for any of them, whatever the clocks say: an id with a
    millisecond inside is unique.
    """

    node: int
    start: int
    end: int

    def covers(self, millisecond: int) -> bool:
        return self.start <= millisecond < self.end


class LeaseHolder(Protocol):
    """Holds one lease at a time for one source of ids."""

    def lease_at(self, millisecond: int) -> LeasedNode:
        """A lease that covers the millisecond.

        Raises LeaseHeldError, or the database's error, if there is none.
        """
        ...

    def release(self, end: int) -> None:
        """Release the node. No id was issued for the millisecond `end` or later."""
        ...


class SnowflakeIds:
    """A source of ids, which threads may share but processes may not.

    Its time never moves back: it follows the clock forward, and a monotonic clock when the clock
    jumps back. So the ids of one source only grow.
    """

    def __init__(self, clock: Clock, leasing: LeaseHolder) -> None:
        self._clock = clock
        self._leasing = leasing
        self._lock = threading.Lock()
        self._is_open = True
        self._millisecond = -1
        self._base = 0
        self._used = SEQUENCE_COUNT
        # The time of the source, in milliseconds, when the monotonic clock showed `_steady`.
        self._time = 0.0
        self._steady = clock.monotonic()
        self._next_tick = self._steady
        _sources.add(self)

    def next(self) -> int:
        """An id that was never issued before."""
        with self._lock:
            if self._used >= SEQUENCE_COUNT or self._clock.monotonic() >= self._next_tick:
                self._tick()
            id_ = self._base + self._used
            self._used += 1
            return id_

    def take(self, count: int) -> list[int]:
        """Several ids at once."""
        ids: list[int] = []
        with self._lock:
            while len(ids) < count:
                if self._used >= SEQUENCE_COUNT or self._clock.monotonic() >= self._next_tick:
                    self._tick()
                used = min(SEQUENCE_COUNT, self._used + count - len(ids))
                ids.extend(range(self._base + self._used, self._base + used))
                self._used = used
        return ids

    def close(self) -> None:
        """Stop issuing ids, and release the node."""
        with self._lock:
            if self._is_open:
                self._stop()
                # The next holder starts after the last millisecond used here.
                self._leasing.release(self._millisecond + 1)

    def _tick(self) -> None:
        """Start a millisecond that was not used before."""
        if not self._is_open:
            raise LeaseHeldError("this source of ids is closed", hint="open the store again")
        millisecond = self._advance()
        while millisecond <= self._millisecond:
            # A shorter sleep might be lost to rounding.
            self._clock.sleep(max(1e-6, self._next_tick - self._clock.monotonic()))
            millisecond = self._advance()
        _check_fits(millisecond)
        lease = self._leasing.lease_at(millisecond)
        # The response may have taken long, but the id is bound to the requested millisecond.
        if not lease.covers(millisecond):
            raise LeaseHeldError(f"the lease of node {lease.node} has ended")
        self._base = compose(millisecond, lease.node, 0)
        self._millisecond, self._used = millisecond, 0

    def _advance(self) -> int:
        """Advance the time of the source; returns its millisecond."""
        steady = self._clock.monotonic()
        self._time += max(0.0, steady - self._steady) * 1000
        self._steady = steady
        self._time = max(self._time, float(millisecond_of(self._clock.now())))
        millisecond = math.floor(self._time)
        self._next_tick = steady + (millisecond + 1 - self._time) / 1000
        return millisecond

    def _stop(self) -> None:
        self._is_open = False
        self._used = SEQUENCE_COUNT

    def after_fork(self) -> None:
        """Stop the copy: the lease is the parent's, and a copy would issue the same ids."""
        self._lock = threading.Lock()
        self._stop()


def _check_fits(millisecond: int) -> None:
    """StoreError for a time that ids cannot represent, before a node is leased up to it."""
    if millisecond >= LAST_MILLISECOND:
        raise StoreError(
            f"the clock of this machine is past {moment_of(LAST_MILLISECOND):%B %Y}, where ids end",
            hint="correct the clock, then run the command again",
        )


_sources: weakref.WeakSet[SnowflakeIds] = weakref.WeakSet()


def _stop_copies() -> None:
    for source in _sources:
        source.after_fork()


os.register_at_fork(after_in_child=_stop_copies)
