"""Connections with bounds: on the size of a request's head, on its time, and on their number.

The parser itself has none. A client that sends one endless header, or one byte a minute, or that
reads nothing of its answer, would hold memory, a file descriptor and the loop of all others. Bodies
have bounds of their own where they are read.
"""

from __future__ import annotations

import asyncio
import resource
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_HEAD_BYTES = 32_768
_HEAD_SECONDS = 20.0
#: How long an answer may wait without the client reading any of it.
_STALL_SECONDS = 60.0
_MOST_CONNECTIONS = 2_000


class HeadTooLargeError(Exception):
    """The first line and the headers of a request have too many bytes."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. Bounds that are not kept end it."""

    head_bytes = _HEAD_BYTES
    head_seconds = _HEAD_SECONDS
    stall_seconds = _STALL_SECONDS
    most_connections = _MOST_CONNECTIONS

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._is_in_head = True
        self._received = 0  # bytes that came while a head was not complete
        self._parsed = 0  # bytes of the present head
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > connection_limit(self.most_connections):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head_timer()
        self._forget_stall_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._is_in_head:
            self._received += len(data)
            self._expect_head()
        super().data_received(data)
        if self._is_in_head and self._received > self.head_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._parsed = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name, value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._forget_head_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head = True
        self._received = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._forget_stall_timer()
        self._stall_timer = self.loop.call_later(self.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_stall_timer()
        super().resume_writing()

    def _count(self, *parts: bytes) -> None:
        """The parser answers a head that is too large with 400."""
        self._parsed += sum(map(len, parts))
        if self._parsed > self.head_bytes:
            raise HeadTooLargeError

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self._end_slow_head)

    def _end_slow_head(self) -> None:
        self._head_timer = None
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self._expect_head()  # the next request waits until this one is answered
        else:
            self.transport.abort()

    def _forget_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _forget_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _refuse(self, status: HTTPStatus) -> None:
        if self.transport.is_closing():
            return
        line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        self.transport.write(f"{line}content-length: 0\r\nconnection: close\r\n\r\n".encode())
        self.transport.close()


def connection_limit(most: int) -> int:
    """How many connections are served: files and databases need descriptors, too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else min(most, soft // 2)
