"""Slow down who fails to log in, by address, in bounded memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus

from lakesweep.clock import Clock
from lakesweep.server.http.problems import HttpError

#: So many failures are free: a typing error or two, or a token that has just ended.
_FREE = 5
_FIRST_PAUSE = timedelta(seconds=1)
_LONGEST_PAUSE = timedelta(minutes=5)
#: After this long without a failure an address starts afresh.
_FORGOTTEN = timedelta(minutes=15)
_MOST_ADDRESSES = 10_000
_LONGEST_ADDRESS = 64


@dataclass(slots=True)
class _Failures:
    count: int
    last: datetime


@dataclass
class LoginThrottle:
    """Failed logins of the last minutes. The address that failed longest ago is forgotten first."""

    clock: Clock
    _failures: OrderedDict[str, _Failures] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, address: str) -> None:
        """HttpError (429) while an address has to wait."""
        left = self.pause(address)
        if left > timedelta():
            seconds = str(int(left.total_seconds()) + 1)
            raise HttpError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many failed logins from this address",
                hint=f"wait {seconds} s",
                headers={"retry-after": seconds},
            )

    def pause(self, address: str) -> timedelta:
        """How long an address has to wait from now on."""
        with self._lock:
            found = self._failures.get(address[:_LONGEST_ADDRESS])
            if found is None or found.count < _FREE:
                return timedelta()
            longer: int = 2 ** min(found.count - _FREE, 20)
            ends = found.last + min(_FIRST_PAUSE * longer, _LONGEST_PAUSE)
            return max(ends - self.clock.now(), timedelta())

    def failed(self, address: str) -> None:
        """Count a failure."""
        now, name = self.clock.now(), address[:_LONGEST_ADDRESS]
        with self._lock:
            found = self._failures.pop(name, None)
            is_recent = found is not None and now - found.last < _FORGOTTEN
            count = found.count + 1 if found is not None and is_recent else 1
            self._failures[name] = _Failures(count, now)
            while len(self._failures) > _MOST_ADDRESSES:
                self._failures.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """Forget the failures of an address."""
        with self._lock:
            self._failures.pop(address[:_LONGEST_ADDRESS], None)
