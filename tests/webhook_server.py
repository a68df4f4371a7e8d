"""An address for webhooks: a real HTTP server that may refuse first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class WebhookServer:
    """What came in. The first requests are answered with `refusals`, all others with 204."""

    refusals: list[int] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""
    came: threading.Event = field(default_factory=threading.Event)


@contextmanager
def webhook_server(*refusals: int) -> Iterator[WebhookServer]:
    """A server on a free port while the block runs."""
    state = WebhookServer([*refusals])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.requests.append((self.path, dict(self.headers.items()), body))
            status = state.refusals.pop(0) if state.refusals else 204
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", f"{state.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
            if status == 204:
                state.came.set()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
