"""A server that plays recorded answers over real sockets, one a connection, good or bad."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakesweep.storage.options import StorageOptions

#: An answer that never comes: the connection stays open and silent.
SILENCE = b"<silence>"

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


#: An answer, or how it is made from the request.
Script = bytes | Callable[[bytes], bytes]


@dataclass(slots=True)
class ScriptedServer:
    """What it will answer, in order, and what it was asked."""

    endpoint: str
    answers: list[Script] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)

    @property
    def targets(self) -> list[str]:
        """The request lines so far, without the version."""
        lines = [request.split(b"\r\n", 1)[0].decode() for request in self.requests]
        return [line.removesuffix(" HTTP/1.1") for line in lines]

    def play(self, *answers: Script) -> None:
        """Answer the next requests so."""
        self.answers.extend(answers)

    def options(self, **changes: object) -> StorageOptions:
        """Options that reach this server."""
        settings: dict[str, object] = {
            "endpoint": self.endpoint,
            "access_key_id": "id",
            "secret_access_key": "secret",
            "timeout_seconds": 5.0,
        }
        return StorageOptions(**(settings | changes))  # type: ignore[arg-type]


def http(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """A whole HTTP answer; its Content-Length is right unless `headers` say otherwise."""
    lines = {"Content-Length": str(len(body)), "Connection": "close", **(headers or {})}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Status\r\n{text}\r\n".encode() + body


def error(status: int, code: str, message: str = "", more: str = "") -> bytes:
    """An error answer of S3."""
    text = f"<Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"
    return http(status, text.encode())


def page(
    *keys: str, folders: tuple[str, ...] = (), encoded: bool = True, more: str = "", token: str = ""
) -> bytes:
    """A page of a listing with keys as they are to be spelled on the wire."""
    contents = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
        f"<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
        for key in keys
    )
    prefixes = "".join(f"<CommonPrefixes><Prefix>{f}</Prefix></CommonPrefixes>" for f in folders)
    next_token = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    text = (
        f'<ListBucketResult xmlns="{_NAMESPACE}">{contents}{prefixes}'
        f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>{next_token}"
        f"{'<EncodingType>url</EncodingType>' if encoded else ''}{more}</ListBucketResult>"
    )
    return http(200, text.encode())


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Run the server until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        server = ScriptedServer(f"http://{host}:{port}")
        ended = threading.Event()
        thread = threading.Thread(target=_serve, args=(listener, server, ended))
        thread.start()
        try:
            yield server
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, server: ScriptedServer, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            _answer(connection, server, ended)


def _answer(connection: socket.socket, server: ScriptedServer, ended: threading.Event) -> None:
    server.requests.append(_read_request(connection))
    answer = server.answers.pop(0) if server.answers else http(500, b"the script is over")
    if answer is SILENCE:
        ended.wait()
    else:
        connection.sendall(answer(server.requests[-1]) if callable(answer) else answer)


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    while found and len(body) < int(found[1]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
