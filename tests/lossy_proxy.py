"""A proxy that loses answers: the server does what it was asked, and the client never hears."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import ClassVar


@dataclass
class LostAnswers:
    """How many answers are still to be lost, to requests that contain some bytes."""

    port: int
    request: bytes
    left: int = 0


class _Handler(BaseRequestHandler):
    lost: ClassVar[LostAnswers]
    upstream: ClassVar[int]

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.upstream)) as server:
            threading.Thread(target=self._answer, args=(server,), daemon=True).start()
            with suppress(OSError):
                while data := self.request.recv(65536):
                    if self.lost.left and self.lost.request in data:
                        self.lost.left -= 1
                        self.is_lost = True
                    server.sendall(data)

    def _answer(self, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if getattr(self, "is_lost", False):
                    break
                self.request.sendall(data)
        with suppress(OSError):
            self.request.shutdown(socket.SHUT_RDWR)


@contextmanager
def losing_answers(port: int, request: bytes) -> Iterator[LostAnswers]:
    """The server of a port through a proxy on another port."""
    lost = LostAnswers(0, request)
    handler = type("Handler", (_Handler,), {"lost": lost, "upstream": port})
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as proxy:
        proxy.daemon_threads = True
        lost.port = proxy.server_address[1]
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield lost
        finally:
            proxy.shutdown()
            thread.join()
