"""Stores for tests: one injects faults deterministically, one records its calls.

Faults are errors, lost responses, delays and damaged bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from lakesweep.clock import Clock
from lakesweep.errors import LakesweepError, UnavailableError
from lakesweep.storage.object_store import (
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    ObjectStore,
    Outcome,
)
from lakesweep.storage.wrappers.base import StoreWrapper

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class InterceptedCall:
    """A call on its way to the store; `proceed` lets it through and returns the result."""

    store: ObjectStore
    method: str
    keys: tuple[str, ...]
    proceed: Callable[[], Any]

    @property
    def path(self) -> str:
        """The address that an error of this call names."""
        return self.store.base + (self.keys[0] if self.keys else "")


#: What a fault does with a call; returns what the caller gets.
Effect = Callable[[InterceptedCall], Any]


@dataclass(frozen=True, slots=True)
class StorageFault:
    """An effect, and the calls that it applies to.

    A call matches if its method is among `methods` (empty for all) and one of its keys satisfies
    `key`. The first `skip` matching calls pass; then the effect applies to `times` of them, None
    for all. For `list` the key is the prefix.
    """

    effect: Effect
    methods: frozenset[str] = frozenset()
    key: Callable[[str], bool] = lambda _: True
    skip: int = 0
    times: int | None = None

    def matches(self, call: InterceptedCall) -> bool:
        wanted = not self.methods or call.method in self.methods
        return wanted and any(self.key(key) for key in call.keys)

    def applies_to(self, number: int) -> bool:
        """Whether the effect applies to the matching call with this number, from 0."""
        return number >= self.skip and (self.times is None or number < self.skip + self.times)


class Faulty(StoreWrapper):
    """Passes each call through the first fault of the plan that applies to it."""

    def __init__(self, store: ObjectStore, plan: Sequence[StorageFault]) -> None:
        super().__init__(store)
        self._plan = tuple(plan)
        self._matched = [0] * len(self._plan)
        self._lock = threading.Lock()

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        proceed = partial(self.store.list, prefix, one_level=one_level, after=after, cursor=cursor)
        return self._pass("list", (prefix,), proceed)

    def head(self, key: str) -> ObjectInfo:
        return self._pass("head", (key,), partial(self.store.head, key))

    def read(self, key: str) -> bytes:
        return self._pass("read", (key,), partial(self.store.read, key))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        proceed = partial(self.store.read_range, key, start, length)
        return self._pass("read_range", (key,), proceed)

    def write(self, key: str, data: bytes) -> None:
        self._pass("write", (key,), partial(self.store.write, key, data))

    def write_new(self, key: str, data: bytes) -> None:
        self._pass("write_new", (key,), partial(self.store.write_new, key, data))

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        return self._pass("delete", tuple(keys), partial(self.store.delete, keys, expected))

    def copy(self, source: str, target: str) -> None:
        self._pass("copy", (source, target), partial(self.store.copy, source, target))

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        proceed = partial(self.store.move, source, target, expected)
        self._pass("move", (source, target), proceed)

    def keeps_versions(self) -> bool:
        return self._pass("keeps_versions", ("",), self.store.keeps_versions)

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        self._pass("undelete", (key,), partial(self.store.undelete, key, expected))

    def _pass(self, method: str, keys: tuple[str, ...], proceed: Callable[[], Answer]) -> Answer:
        call = InterceptedCall(self.store, method, keys, proceed)
        fault = self._fault(call)
        answer: Answer = proceed() if fault is None else fault.effect(call)
        return answer

    def _fault(self, call: InterceptedCall) -> StorageFault | None:
        chosen = None
        with self._lock:
            for index, fault in enumerate(self._plan):
                if fault.matches(call):
                    if chosen is None and fault.applies_to(self._matched[index]):
                        chosen = fault
                    self._matched[index] += 1
        return chosen


def fail(error: Callable[[str, str], LakesweepError], reason: str = "injected fault") -> Effect:
    """The call does not reach the store; `error` is a class such as DeniedError."""

    def effect(call: InterceptedCall) -> Any:
        raise error(call.path, reason)

    return effect


def lose(call: InterceptedCall) -> Any:
    """The store carries out the call, but its response is lost."""
    call.proceed()
    raise UnavailableError(call.path, "the response was lost")


def delay(clock: Clock, seconds: float) -> Effect:
    """The response is late."""

    def effect(call: InterceptedCall) -> Any:
        clock.sleep(seconds)
        return call.proceed()

    return effect


def truncate(keep: int) -> Effect:
    """A read returns only the first bytes."""

    def effect(call: InterceptedCall) -> Any:
        return call.proceed()[:keep]

    return effect


def damage(position: int) -> Effect:
    """A read returns one byte with all bits flipped; counted from the end if negative."""

    def effect(call: InterceptedCall) -> Any:
        data = bytearray(call.proceed())
        data[position] ^= 0xFF
        return bytes(data)

    return effect


def refuse(outcome: Outcome, key: Callable[[str], bool], *, may_retry: bool = False) -> Effect:
    """The store deletes all but some keys, and reports this outcome for those."""

    def effect(call: InterceptedCall) -> Any:
        refused = {
            k: Deletion(k, outcome, "injected fault", may_retry) for k in call.keys if key(k)
        }
        others = [k for k in call.keys if k not in refused]
        answers = {d.key: d for d in call.store.delete(others)} | refused
        return [answers[k] for k in call.keys]

    return effect


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call: the method and its keys (for `list`, the prefix)."""

    method: str
    keys: tuple[str, ...]


class Recording(StoreWrapper):
    """Appends each call to `calls` before it is passed on."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.calls: list[RecordedCall] = []

    def keys(self, *methods: str) -> Sequence[str]:
        """All keys that these methods were called with, in order."""
        return [key for call in self.calls if call.method in methods for key in call.keys]

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        self._record("list", prefix)
        return self.store.list(prefix, one_level=one_level, after=after, cursor=cursor)

    def head(self, key: str) -> ObjectInfo:
        self._record("head", key)
        return self.store.head(key)

    def read(self, key: str) -> bytes:
        self._record("read", key)
        return self.store.read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self._record("read_range", key)
        return self.store.read_range(key, start, length)

    def write(self, key: str, data: bytes) -> None:
        self._record("write", key)
        self.store.write(key, data)

    def write_new(self, key: str, data: bytes) -> None:
        self._record("write_new", key)
        self.store.write_new(key, data)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        self._record("delete", *keys)
        return self.store.delete(keys, expected)

    def copy(self, source: str, target: str) -> None:
        self._record("copy", source, target)
        self.store.copy(source, target)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        self._record("move", source, target)
        self.store.move(source, target, expected)

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        self._record("undelete", key)
        self.store.undelete(key, expected)

    def _record(self, method: str, *keys: str) -> None:
        self.calls.append(RecordedCall(method, keys))
