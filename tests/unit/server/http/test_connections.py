"""Connections of a real server that misbehave, beside one that does not."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lakesweep.server.http.connections import BoundedHttpProtocol, connection_limit

_HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"
_LARGE = b"x" * 20_000_000


class _Impatient(BoundedHttpProtocol):
    head_seconds = 0.2
    stall_seconds = 0.2
    most_connections = 4
    ended = threading.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.ended.set()


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    response = Response(_LARGE if scope["path"] == "/large" else b"hello")
    await response(scope, receive, send)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(_answer, http=_Impatient, lifespan="off", log_config=None)
    running = uvicorn.Server(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(running.serve([listener])), name="server", daemon=True
    )
    thread.start()
    yield listener.getsockname()[:2]
    running.should_exit = True
    thread.join()
    listener.close()


def _sent(server: tuple[str, int], *parts: bytes) -> bytes:
    """All that is answered until the server closes the connection."""
    with closing(socket.create_connection(server, timeout=30)) as connection:
        answer = b""
        try:
            for part in parts:
                connection.sendall(part)
            while piece := connection.recv(65_536):
                answer += piece
        except OSError:
            pass  # the server did not wait for the rest
        return answer


def _is_fine(server: tuple[str, int]) -> bool:
    return _sent(server, _HEAD + b"Connection: close\r\n\r\n").endswith(b"hello")


def test_requests_are_answered_one_after_the_other(server: tuple[str, int]) -> None:
    again = _HEAD + b"\r\n" + _HEAD + b"Connection: close\r\n\r\n"
    assert _sent(server, again).count(b"hello") == 2


@pytest.mark.parametrize(
    "parts",
    [
        [_HEAD, b"X: ", *[b"a" * 10_000] * 10],
        [_HEAD, *[b"X: y\r\n" * 1_000] * 20],
        [b"GET /", *[b"a" * 10_000] * 10],
        [_HEAD + b"X: " + b"a" * 40_000 + b"\r\n\r\n"],
    ],
    ids=["one header", "many headers", "path", "at once"],
)
def test_a_large_head_is_refused(server: tuple[str, int], parts: list[bytes]) -> None:
    answer = _sent(server, *parts)
    assert not answer or answer.split()[1] in (b"400", b"431")
    assert _is_fine(server)


@pytest.mark.parametrize("part", [b"", b"GET / HT", _HEAD, b"\r\n", _HEAD + b"\r\n\r\n"])
def test_a_connection_that_sends_no_more_is_closed(server: tuple[str, int], part: bytes) -> None:
    assert _sent(server, part).count(b"hello") == part.count(b"\r\n\r\n")


def test_an_answer_that_nobody_reads_is_given_up(server: tuple[str, int]) -> None:
    with closing(socket.create_connection(server, timeout=30)) as connection:
        _Impatient.ended.clear()
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: here\r\n\r\n")
        assert _Impatient.ended.wait(30)


def test_connections_beyond_the_limit_are_turned_away(server: tuple[str, int]) -> None:
    held = [socket.create_connection(server, timeout=30) for _ in range(4)]
    assert b"503" in _sent(server, b"")
    for connection in held:
        connection.close()


def test_the_limit_leaves_descriptors_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1_024, 4_096))
    assert connection_limit(2_000) == 512
    assert connection_limit(100) == 100
