"""A proxy in front of a server that counts: when requests came, and how many were in flight."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import urlsplit

from tests.servers import S3Server

_NOT_COPIED = {"transfer-encoding", "content-length", "connection", "date", "server"}


@dataclass
class Counts:
    """What went through. Requests are answered `delay` seconds late, so that they overlap."""

    delay: float = 0.0
    times: list[float] = field(default_factory=list)
    sent_bytes: int = 0
    most_in_flight: int = 0
    _in_flight: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def request(self) -> Iterator[None]:
        with self._lock:
            self.times.append(time.monotonic())
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            time.sleep(self.delay)
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def rate(self, burst: int = 1) -> float:
        """Requests a second, from the first to the last, less those that came at once."""
        return rate_of(self.times, burst)


def rate_of(times: list[float], burst: int = 1) -> float:
    """How many came a second, from the first to the last, less a burst at the start."""
    return max(0, len(times) - burst) / max(max(times) - min(times), 1e-9)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    counts: ClassVar[Counts]
    upstream: ClassVar[str]

    def log_message(self, *_: object) -> None:
        """Stay quiet."""

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with self.counts.request():
            connection = HTTPConnection(self.upstream)
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
        self.counts.sent_bytes += len(data)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _NOT_COPIED:
                self.send_header(name, value)
        length = answer.getheader("content-length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815


@contextmanager
def counting(server: S3Server, *, delay: float = 0.0) -> Iterator[tuple[S3Server, Counts]]:
    """The same server through a proxy, and what it counts."""
    counts = Counts(delay)
    upstream = urlsplit(server.endpoint).netloc
    handler = type("Handler", (_Handler,), {"counts": counts, "upstream": upstream})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        proxy.daemon_threads = True
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield replace(server, endpoint=f"http://127.0.0.1:{proxy.server_port}"), counts
        finally:
            proxy.shutdown()
            thread.join()
