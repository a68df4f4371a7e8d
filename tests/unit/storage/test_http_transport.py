"""Servers that do not answer, or without end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import NoServerError, StorageError, UnavailableError
from lakesweep.storage import http_transport
from lakesweep.storage.http_transport import HttpConnections, HttpRequest, count_of, http_time
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.stores import Stores
from tests.unit.storage.wrappers.test_retry import START

OPTIONS = StorageOptions(timeout_seconds=5)


class _Endless(BaseHTTPRequestHandler):
    """Sends chunks until the client closes the connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        with suppress(OSError):
            while True:
                self.wfile.write(piece)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def endless() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Endless) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_response_without_end_is_cut_and_named(
    endless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_transport, "DOCUMENT_BYTES", 1 << 20)
    request = HttpRequest("GET", "/", "s3://lake/t/", most_bytes=1 << 20)
    with pytest.raises(StorageError, match=r"^s3://lake/t/: the response has more than 1,048,576"):
        HttpConnections(endless, OPTIONS).send(request)


def test_a_response_that_hardly_comes_is_given_up(
    endless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece takes a minute by the clock that counts, and no read takes too long."""
    minutes = count()
    monkeypatch.setattr(http_transport, "_LEAST_BYTES_A_SECOND", 10**9)
    monkeypatch.setattr("time.monotonic", lambda: 60.0 * next(minutes))
    request = HttpRequest("GET", "/", "s3://lake/t/")
    with pytest.raises(UnavailableError, match=r"^s3://lake/t/: only [\d,]+ bytes came"):
        HttpConnections(endless, OPTIONS).send(request)


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_dead_endpoint_is_told_from_a_broken_connection(host: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        origin = f"http://{host}:{free.getsockname()[1]}"
    with pytest.raises(NoServerError) as caught:
        HttpConnections(origin, OPTIONS).send(HttpRequest("GET", "/", "s3://lake/"))
    assert isinstance(caught.value, UnavailableError)


@pytest.mark.parametrize("call", ["list", "delete"])
def test_a_store_at_a_dead_endpoint_fails_within_seconds(call: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    options = StorageOptions(endpoint=endpoint, access_key_id="a", secret_access_key="b")
    clock = ManualClock(START)
    store = Stores({"s3://": options}, clock=clock).open("s3://lake/")
    with pytest.raises(NoServerError):
        store.list("") if call == "list" else store.delete(["a"])
    assert (clock.now() - START).total_seconds() < 5


@pytest.mark.parametrize("text", ["", "-1", "1.5", "9" * 5_000, "٣", None])
def test_what_is_no_count_is_none(text: str | None) -> None:
    assert count_of(text) is None


@pytest.mark.parametrize("text", ["", "yesterday", "Mon, 99 Foo 2024 00:00:00 GMT", None])
def test_what_is_no_time_is_none(text: str | None) -> None:
    assert http_time(text) is None
