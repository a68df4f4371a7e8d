"""HTTP connections to one server: each request is sent once, byte for byte, or fails by name.

Nothing between here and the socket may collapse `//`, resolve `x/../y` or encode again, or a
request would name another object.

Azure and Google Cloud take several requests in one, as multipart/mixed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.message import Message
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import urllib3
from botocore.httpsession import where as bundled_certificates
from botocore.utils import get_environ_proxies
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    SSLError,
)
from urllib3.exceptions import (
    TimeoutError as HTTPTimeoutError,
)

from lakesweep.errors import ConfigError, NoServerError, StorageError, UnavailableError
from lakesweep.storage.options import StorageOptions
from lakesweep.version import __version__

#: Documents of a store are pages of at most 5,000 keys, each of at most 1 kB and its fields.
DOCUMENT_BYTES = 64 << 20
FIXED_HEADERS = {"User-Agent": f"lakesweep/{__version__}", "Accept-Encoding": "identity"}
_CONNECT_SECONDS = 10.0
_PIECE_BYTES = 1 << 20
_LONGEST_PAUSE = 300.0
#: After the first seconds, a body that comes more slowly than this is given up.
_SLOW_SECONDS = 60.0
_LEAST_BYTES_A_SECOND = 1_000
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_NUMBER = re.compile(r"(\d{1,6})>?$")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request: `target` is the path and query as sent, `path` the full address for errors.

    The body of the response may have `most_bytes`, those of errors never more than a document.
    """

    method: str
    target: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    most_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One response, read completely. Header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class HttpConnections:
    """A pool of connections to one server. Safe to share between threads."""

    def __init__(
        self, origin: str, options: StorageOptions, certificates: str | None = None
    ) -> None:
        self.origin = origin
        self._pool = _open_pool(origin, options, certificates or bundled_certificates())

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and read the whole response, whatever its status.

        UnavailableError if no complete response arrived, NoServerError if none could.
        """
        try:
            response = self._pool.urlopen(
                request.method,
                request.target,
                body=request.body,
                headers={**FIXED_HEADERS, **request.headers},
                # urllib3 must not retry or redirect: a repeated conditional write would conflict
                # with itself, and a redirected request would carry a signature for another URL.
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            _check_framing(request, response)
            return HttpResponse(response.status, response.headers, _body(request, response))
        except HTTPError as error:
            raise _no_answer(request.path, self.origin, error) from error


def query_string(query: Mapping[str, str]) -> str:
    """The parameters in the order in which signatures need them."""
    return "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(query.items()))


def count_of(text: str | None) -> int | None:
    """A count of bytes in a header or document; None unless it is one that can be."""
    is_count = text is not None and text.isascii() and text.isdecimal() and len(text) < 19
    return int(text) if is_count and text else None


def http_time(text: str | None) -> datetime | None:
    """A time in a header; None if there is none, or none that can be read."""
    try:
        moment = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    # A time without a zone is not one of HTTP; the age of such an object is unknown.
    return moment if moment is not None and moment.tzinfo is not None else None


def pause_asked(response: HttpResponse) -> float | None:
    """The pause in seconds that a throttling store asks for."""
    seconds = count_of(response.headers.get("retry-after"))
    return None if seconds is None else min(float(seconds), _LONGEST_PAUSE)


def _body(request: HttpRequest, response: urllib3.BaseHTTPResponse) -> bytes:
    """The whole body. Closed, not drained, if it is too long or too slow: it may never end."""
    most = request.most_bytes if response.status < 300 else DOCUMENT_BYTES
    pieces: list[bytes] = []
    size_bytes, began = 0, time.monotonic()
    # Piece by piece as they come: a server that sends a byte a minute keeps every timeout.
    while piece := response.read1(_PIECE_BYTES):
        pieces.append(piece)
        size_bytes += len(piece)
        if most is not None and size_bytes > most:
            response.close()
            raise StorageError(request.path, f"the response has more than {most:,} bytes")
        if size_bytes < (time.monotonic() - began - _SLOW_SECONDS) * _LEAST_BYTES_A_SECOND:
            response.close()
            raise UnavailableError(request.path, f"only {size_bytes:,} bytes came, too slowly")
    return b"".join(pieces)


def _open_pool(origin: str, options: StorageOptions, certificates: str) -> Any:
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"{origin!r} is not a valid endpoint", hint="write endpoint = 'https://host:port'"
        )
    settings: dict[str, Any] = {
        "maxsize": options.pool_size,
        # A caller waits for a free connection instead of opening one beyond the limit.
        "block": True,
        "timeout": urllib3.Timeout(
            connect=min(_CONNECT_SECONDS, options.timeout_seconds), read=options.timeout_seconds
        ),
        "ca_certs": certificates,
    }
    proxy = get_environ_proxies(origin).get(parts.scheme)
    if proxy is None:
        manager = urllib3.PoolManager(**settings)
    elif parts.scheme == "https":
        manager = urllib3.ProxyManager(proxy, **settings)
    else:
        raise ConfigError(
            f"{origin} would be reached through the proxy {proxy}, which may alter keys",
            hint=f"add {parts.hostname} to NO_PROXY, or use an https endpoint",
        )
    return manager.connection_from_host(parts.hostname, parts.port, parts.scheme)


def _check_framing(request: HttpRequest, response: urllib3.BaseHTTPResponse) -> None:
    """Refuse a response that ends with the connection: it may have been cut short."""
    headers = response.headers
    framed = "transfer-encoding" in headers or count_of(headers.get("content-length")) is not None
    if request.method == "GET" and response.status < 300 and not framed:
        response.close()
        raise UnavailableError(request.path, "the response does not say how long it is")


def _no_answer(path: str, origin: str, error: HTTPError) -> UnavailableError:
    match error:
        case NameResolutionError():
            hint = "check the endpoint and the region"
            return NoServerError(path, f"{origin} cannot be resolved", hint=hint)
        case ConnectTimeoutError() | NewConnectionError():
            hint = "check the endpoint, and that the server is running and reachable"
            return NoServerError(path, f"{origin} does not accept connections", hint=hint)
        case SSLError():
            hint = "check AWS_CA_BUNDLE" if path.startswith("s3") else "check the certificate"
            return NoServerError(path, f"{origin} is not trusted: {error}", hint=hint)
        case HTTPTimeoutError():
            hint = "raise timeout_seconds"
            return UnavailableError(path, f"{origin} did not answer in time", hint=hint)
        case _:
            return UnavailableError(path, f"the connection to {origin} broke: {error}")


class BadBatchError(ValueError):
    """A response that is not a batch of responses."""


def batch_body(requests: Sequence[HttpRequest]) -> tuple[str, bytes]:
    """The content type and body of a request that contains these, numbered from 0."""
    boundary = f"batch_{uuid4()}"
    parts = [_part(boundary, number, request) for number, request in enumerate(requests)]
    return f"multipart/mixed; boundary={boundary}", b"".join(parts) + f"--{boundary}--\r\n".encode()


def parse_batch(response: HttpResponse) -> Mapping[int, HttpResponse]:
    """The responses in a response, by number. Those that a server left out are missing."""
    kind = response.headers.get("content-type", "")
    head = f"Content-Type: {kind}\r\nMIME-Version: 1.0\r\n\r\n".encode()
    message = BytesParser().parsebytes(head + response.body)
    if not message.is_multipart():
        raise BadBatchError("the response is not a batch of responses")
    return dict(_responses(message.get_payload()))  # type: ignore[arg-type]


def _part(boundary: str, number: int, request: HttpRequest) -> bytes:
    lines = [
        f"--{boundary}",
        "Content-Type: application/http",
        "Content-Transfer-Encoding: binary",
        f"Content-ID: {number}",
        "",
        f"{request.method} {request.target} HTTP/1.1",
        *(f"{name}: {value}" for name, value in request.headers.items()),
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + request.body + b"\r\n"


def _responses(parts: Iterable[Message]) -> Iterable[tuple[int, HttpResponse]]:
    for part in parts:
        payload = bytes(part.get_payload(decode=True) or b"")
        number = _NUMBER.search(str(part.get("Content-ID", "")))
        status = _STATUS.match(payload)
        # A response without a number cannot be matched with its request: its outcome is unknown.
        if number is None or status is None:
            continue
        _, _, rest = payload.partition(b"\n")
        inner = BytesParser().parsebytes(rest)
        body = inner.get_payload(decode=True)
        headers = {name.lower(): str(value) for name, value in inner.items()}
        yield int(number[1]), HttpResponse(int(status[1]), headers, bytes(body or b""))
