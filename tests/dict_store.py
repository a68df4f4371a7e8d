"""A store in memory that holds any key, keeps versions if told to, and dies when told to."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lakesweep.errors import ChangedError, ExistsError, MissingError
from lakesweep.storage.object_store import (
    CHANGED,
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    Outcome,
    StorageCapabilities,
    check_is_expected,
    is_expected,
)
from lakesweep.storage.wrappers.base import StoreWrapper
from tests.moments import NOON


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of an object."""

    data: bytes
    number: int

    def info(self, key: str) -> ObjectInfo:
        etag = hashlib.md5(self.data).hexdigest()
        return ObjectInfo(key, len(self.data), NOON + timedelta(seconds=self.number), etag)


class DictStore:
    """Objects by their exact keys; with `versioned`, a delete puts a marker on top."""

    base = "memory://bucket/"

    def __init__(self, *, versioned: bool = False, renames: bool = False) -> None:
        self._versioned = versioned
        self._stacks: dict[str, list[Stored | None]] = {}
        self._lock = threading.Lock()
        self._written = 0
        self.capabilities = StorageCapabilities(
            delete_batch=3, reports_absent=True, verified_deletes=True, renames=renames
        )

    def current(self) -> dict[str, bytes]:
        """What a listing would show."""
        tops = ((key, stack[-1]) for key, stack in self._stacks.items() if stack)
        return {key: top.data for key, top in tops if top is not None}

    def versions(self) -> Iterator[tuple[str, bytes]]:
        """All that is kept, also below markers and newer versions."""
        for key, stack in self._stacks.items():
            yield from ((key, one.data) for one in stack if one is not None)

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        raise NotImplementedError

    def head(self, key: str) -> ObjectInfo:
        return self._top(key).info(key)

    def read(self, key: str) -> bytes:
        return self._top(key).data

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self.read(key)[start : start + length]

    def write(self, key: str, data: bytes) -> None:
        with self._lock:
            self._written += 1
            stack = self._stacks.setdefault(key, [])
            if not self._versioned:
                stack.clear()
            stack.append(Stored(data, self._written))

    def write_new(self, key: str, data: bytes) -> None:
        if key in self.current():
            raise ExistsError(self.base + key, "is already there")
        self.write(key, data)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        pairs = zip(keys, expected or [None] * len(keys), strict=True)
        return [self._delete(key, one) for key, one in pairs]

    def copy(self, source: str, target: str) -> None:
        self.write(target, self.read(source))

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        check_is_expected(self.base + source, self.head(source), expected)
        self.write_new(target, self.read(source))
        with self._lock:
            self._stacks.pop(source)

    def keeps_versions(self) -> bool:
        return self._versioned

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        with self._lock:
            stack = self._stacks.get(key, [])
            versions = [one for one in stack if one is not None]
            if not versions or stack[-1] is not None:
                raise MissingError(self.base + key, "is not deleted")
            if not is_expected(versions[-1].info(key), expected):
                raise ChangedError(self.base + key, CHANGED)
            while stack[-1] is None:
                stack.pop()

    def _top(self, key: str) -> Stored:
        stack = self._stacks.get(key)
        if not stack or stack[-1] is None:
            raise MissingError(self.base + key)
        return stack[-1]

    def _delete(self, key: str, expected: Expected | None) -> Deletion:
        with self._lock:
            try:
                info = self._top(key).info(key)
            except MissingError:
                return Deletion(key, Outcome.ABSENT)
            if not is_expected(info, expected):
                return Deletion(key, Outcome.CHANGED, CHANGED)
            if self._versioned:
                self._stacks[key].append(None)
            else:
                del self._stacks[key]
            return Deletion(key, Outcome.DELETED)


class Death(BaseException):
    """The process is gone; nothing catches this."""


class Mortal(StoreWrapper):
    """Passes on so many calls and then dies, before the last of them or right after it.

    Once dead it answers nobody: whatever runs on other threads dies with it.
    """

    def __init__(self, store: Any, calls: int | None, *, after: bool = False) -> None:
        super().__init__(store)
        self._left = calls
        self._after = after

    def __getattribute__(self, name: str) -> Any:
        if name in _CALLS:
            return lambda *arguments: self._pass(getattr(self.store, name), arguments)
        return super().__getattribute__(name)

    def _pass(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                if self._left == -1 and self._after:
                    call(*arguments)
                raise Death
        return call(*arguments)


_CALLS = frozenset({"head", "read", "read_range", "write", "copy", "delete", "move", "undelete"})
