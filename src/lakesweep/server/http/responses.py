"""What every answer gets: security headers, a line in the log, and a count."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakesweep.redaction import masked
from lakesweep.untrusted.text import printable

_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
}
#: Where mounted applications find the watch of their answer, to say who asked for what.
WATCH = "lakesweep.watch"
_STRICT = "max-age=31536000"
_LONGEST_PATH = 500


@dataclass
class AnswerWatch:
    """Watches one answer on its way out; parts of the service that set a header keep theirs.

    `route` is the template of the path, `caller` who asked.
    """

    send: Send
    method: str
    path: str
    address: str
    is_secure: bool
    route: str = "unknown"
    caller: str = "-"
    status: int = 0
    began: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.seconds = time.perf_counter() - self.began
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if self.is_secure:
                headers.setdefault("strict-transport-security", _STRICT)
        await self.send(message)

    def line(self) -> str:
        """The request for people. Queries are left out: they may name anything."""
        path, took = masked(self.path)[:_LONGEST_PATH], f"{self.seconds * 1000:.0f} ms"
        words = f"{self.address} {self.method} {path} {self.status} {took} {self.caller}"
        # All of it: an issuer names callers, and proxies name addresses.
        return printable(words)

    def document(self, now: str) -> str:
        """The request for programs, as one line of JSON."""
        fields: dict[str, Any] = {
            "time": now,
            "address": self.address,
            "method": self.method,
            "path": masked(self.path)[:_LONGEST_PATH],
            "route": self.route,
            "status": self.status,
            "seconds": round(self.seconds, 6),
            "caller": self.caller,
        }
        return json.dumps(fields)


class _SpelledName(bytes):
    """A header's name that stays as it is spelled; uvicorn writes all others in lower case."""

    __slots__ = ()

    def lower(self) -> bytes:
        return self


_SPELLED = {name.lower(): _SpelledName(name) for name in (b"ETag", b"Cache-Control")}


def with_spelled_names(app: ASGIApp) -> ASGIApp:
    """The same application for uvicorn, with the usual spelling of some headers.

    Iceberg's Java client before 1.12 looks for these by that spelling only.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def spell(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message["headers"]
                message["headers"] = [(_SPELLED.get(name, name), value) for name, value in given]
            await send(message)

        await app(scope, receive, spell)

    return serve


#: Where lines of the log go.
Log = Callable[[str], object]
