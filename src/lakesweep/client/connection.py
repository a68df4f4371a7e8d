"""Requests to a service, and its problem documents turned back into our errors.

Nothing is redirected and nothing is retried: a token goes to the service that was named, and what
changes something is sent once.
"""

from __future__ import annotations

import io
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    SSLError,
)
from urllib3.exceptions import TimeoutError as HTTPTimeoutError

from lakesweep import errors
from lakesweep.decoding import typed_json
from lakesweep.errors import (
    IncompleteError,
    LakesweepError,
    RefusedError,
    ServiceAccessError,
    ServiceUnreachableError,
    UsageError,
)
from lakesweep.version import __version__

_API = "/api/v1"
_CONNECT_SECONDS = 10.0
#: Services answer within their own limits, and streams show signs of life.
_READ_SECONDS = 120.0
#: Documents are views and pages; lists of files are streamed.
_MOST_BYTES = 64 << 20
_PIECE_BYTES = 1 << 16
_PROBLEM = "urn:lakesweep:problem:"
_JSON = "application/json"

Answer = TypeVar("Answer")
Query = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where a service is, and how it is reached. `certificates` is a file of trusted issuers."""

    url: str
    token: str | None = None
    certificates: str | None = None


class _Problem(msgspec.Struct, frozen=True):
    """What an answer says that is not a success; see RFC 9457."""

    type: str = ""
    detail: str = ""
    hint: str | None = None
    exit_code: int | None = None
    guard: str | None = None
    overrides: tuple[str, ...] = ()


class ServiceConnection:
    """Connections to one service. UsageError if its address is not one."""

    def __init__(self, address: ServiceAddress) -> None:
        parts = urlsplit(address.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise UsageError(
                f"{address.url} is not the address of a service",
                hint="lakesweep --server https://HOST:8080, and the token in LAKESWEEP_TOKEN",
            )
        self.url = address.url.rstrip("/")
        self._base = parts.path.rstrip("/")
        self._headers = {"user-agent": f"lakesweep/{__version__}"}
        if address.token:
            self._headers["authorization"] = f"Bearer {address.token}"
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
            ssl_context=_tls(address.certificates) if parts.scheme == "https" else None,
            retries=False,
        ).connection_from_host(parts.hostname, parts.port, parts.scheme)

    def get(self, path: str, kind: type[Answer], query: Query | None = None) -> Answer:
        """The answer to a GET, as what it is."""
        return self.decoded(self._read("GET", path, query), kind)

    def send(
        self,
        method: str,
        path: str,
        kind: type[Answer],
        body: Mapping[str, object] | None = None,
        query: Query | None = None,
    ) -> Answer:
        """The answer to a request that changes something."""
        return self.decoded(self._read(method, path, query, body), kind)

    def delete(self, path: str) -> None:
        """Remove something; there is nothing in the answer."""
        self._read("DELETE", path, None)

    def decoded(self, data: bytes | msgspec.Raw, kind: type[Answer]) -> Answer:
        """What the service says, as one of our types."""
        try:
            return typed_json(data, kind)
        except msgspec.MsgspecError as error:
            raise IncompleteError(
                f"{self.url} answers what this version does not understand: {error}",
                hint="use the version of lakesweep that the service has; GET /health/live tells it",
            ) from error

    @contextmanager
    def stream(self, path: str, accept: str, query: Query | None = None) -> Iterator[ServiceStream]:
        """The answer to a GET while it comes, however long it is."""
        response = self._begin("GET", path, query, None, accept)
        try:
            yield ServiceStream(self, response)
        finally:
            # Closed, not drained: there may be more of it than anyone wants.
            response.close()

    def unreachable(self, error: Exception) -> ServiceUnreachableError:
        """Why there was no answer."""
        match error:
            case NameResolutionError():
                why = "its name cannot be resolved"
            case ConnectTimeoutError() | NewConnectionError():
                why = "nothing accepts connections there"
            case SSLError():
                return ServiceUnreachableError(
                    f"the service at {self.url} is not trusted: {error}",
                    hint="name the file of its issuer in LAKESWEEP_CA_FILE",
                )
            case HTTPTimeoutError():
                why = f"no answer within {_READ_SECONDS:.0f} seconds"
            case _:
                why = f"the connection broke: {error}"
        return ServiceUnreachableError(f"the service at {self.url} does not answer: {why}")

    def _read(
        self, method: str, path: str, query: Query | None, body: Mapping[str, object] | None = None
    ) -> bytes:
        response = self._begin(method, path, query, body, _JSON)
        try:
            return _whole(response)
        except HTTPError as error:
            raise self.unreachable(error) from error

    def _begin(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Mapping[str, object] | None,
        accept: str,
    ) -> urllib3.BaseHTTPResponse:
        """The response to a request; an error if it is not a success."""
        headers = {**self._headers, "accept": accept}
        if method in ("POST", "PUT"):
            headers["content-type"] = _JSON
        try:
            response = self._pool.urlopen(
                method,
                f"{self._base}{_API}{path}{_query(query)}",
                body=msgspec.json.encode(body or {}) if method in ("POST", "PUT") else None,
                headers=headers,
                redirect=False,
                retries=False,
                preload_content=False,
            )
            if 200 <= response.status < 300:
                return response
            data = _whole(response)
        except HTTPError as error:
            raise self.unreachable(error) from error
        raise self._error(response.status, data)

    def _error(self, status: int, data: bytes) -> LakesweepError:
        try:
            problem = typed_json(data, _Problem)
        except msgspec.MsgspecError:
            problem = _Problem()
        if not problem.type.startswith(_PROBLEM):
            return ServiceUnreachableError(
                f"{self.url} answers with {status}, and not as a service of lakesweep",
                hint="check the address: lakesweep --server https://HOST:8080",
            )
        if problem.exit_code is not None:
            name = problem.type.removeprefix(_PROBLEM)
            error = error_of(name, problem.detail, problem.hint, problem.exit_code)
            if isinstance(error, RefusedError):
                error.guard, error.overrides = problem.guard or "", problem.overrides
            return error
        return _refusal(status, problem)


def _refusal(status: int, problem: _Problem) -> LakesweepError:
    """An error of the request itself."""
    if status == 401:
        hint = "put a token into LAKESWEEP_TOKEN; lakesweep token create makes one at the service"
        return ServiceAccessError(problem.detail, hint=hint)
    if status == 403:
        return ServiceAccessError(problem.detail, hint=problem.hint)
    if status >= 500:
        return ServiceUnreachableError(problem.detail, hint=problem.hint)
    return UsageError(problem.detail, hint=problem.hint)


def error_of(name: str, message: str, hint: str | None, exit_code: int) -> LakesweepError:
    """One of our errors by its name; one that this version does not know has its exit code."""
    found = getattr(errors, name, None)
    kind: type[LakesweepError] = type(name, (LakesweepError,), {"exit_code": exit_code})
    if isinstance(found, type) and issubclass(found, LakesweepError):
        kind = found
    # Made without its own parameters, such as a path: the message has them already.
    error = kind.__new__(kind)
    LakesweepError.__init__(error, message.split("\n"), hint=hint)
    if isinstance(error, RefusedError):
        error.guard, error.overrides = "", ()
    return error


class ServiceStream(io.RawIOBase):
    """The body of an answer as a file. An answer that is cut short is an error, never an end."""

    def __init__(self, connection: ServiceConnection, response: urllib3.BaseHTTPResponse) -> None:
        super().__init__()
        self._connection = connection
        self._response = response

    def readable(self) -> bool:
        """It can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer only at the end."""
        try:
            return self._response.read(None if size < 0 else size)
        except HTTPError as error:
            raise self._connection.unreachable(error) from error

    def lines(self) -> Iterator[bytes]:
        """The lines as they come, without their ends."""
        rest = b""
        try:
            for piece in self._response.stream(_PIECE_BYTES):
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
        except HTTPError as error:
            raise self._connection.unreachable(error) from error
        if rest:
            yield rest


def segment(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def _query(query: Query | None) -> str:
    """The parameters that are given; several values of one name stay several."""
    given = [
        f"{name}={quote(_text(value), safe='')}"
        for name, value in (query or {}).items()
        if value is not None and value is not False
    ]
    return f"?{'&'.join(given)}" if given else ""


def _text(value: object) -> str:
    if value is True:
        return "true"
    return str(msgspec.to_builtins(value))


def _whole(response: urllib3.BaseHTTPResponse) -> bytes:
    data = response.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        response.close()
        raise IncompleteError(f"the answer has more than {_MOST_BYTES:,} bytes")
    response.release_conn()
    return data


def _tls(certificates: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        if certificates is not None:
            context.load_verify_locations(certificates)
        return context
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the certificates in {certificates} cannot be read: {error}",
            hint="LAKESWEEP_CA_FILE names a PEM file",
        ) from error


def pages(
    connection: ServiceConnection, path: str, kind: type[Any], query: Query | None = None
) -> Iterator[Any]:
    """All pages of a list, one after the other. `kind` has the cursor of the next one."""
    cursor: str | None = None
    while True:
        page = connection.get(path, kind, {"limit": 1_000, **(query or {}), "cursor": cursor})
        yield page
        cursor = page.next
        if cursor is None:
            return
