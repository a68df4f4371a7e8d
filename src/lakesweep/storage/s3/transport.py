"""Signed HTTP requests to S3, sent byte for byte as they were signed.

The signed URL is the URL that is sent. Nothing between here and the socket may collapse `//`,
resolve `x/../y` or encode again, or a request would name another object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import urllib3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
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

from lakesweep.errors import ConfigError, InexactKeyError, UnavailableError
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.endpoint import Endpoint, S3Account
from lakesweep.storage.s3.keys import encode
from lakesweep.storage.s3.xml_bodies import parse_error
from lakesweep.version import __version__

_CONNECT_SECONDS = 10.0
_REGION_HEADER = "x-amz-bucket-region"
_REGION_STATUSES = frozenset({301, 307, 400})
_FIXED_HEADERS = {"User-Agent": f"lakesweep/{__version__}", "Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class S3Request:
    """One request. `path` is the full address for errors; `key` None means the bucket itself."""

    method: str
    path: str
    key: str | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class S3Response:
    """One response, read completely. Header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Connection:
    """An endpoint and the connections to it, which change together."""

    endpoint: Endpoint
    pool: Any


class S3Transport:
    """A pool of connections to one bucket. Safe to share between threads."""

    def __init__(self, bucket: str, options: StorageOptions) -> None:
        self._options = options
        self._account = S3Account(bucket, options)
        self._connection = self._open(self._account.endpoint())

    @property
    def is_amazon(self) -> bool:
        """Whether the server is Amazon S3, whose behaviour is known."""
        return self._connection.endpoint.is_amazon

    def send(self, request: S3Request) -> S3Response:
        """Send a request and read the whole response, whatever its status.

        A redirect to the bucket's region is followed once. UnavailableError if no complete response
        arrived.
        """
        connection = self._connection
        answer = self._send_once(request, connection)
        region = _redirect_region(answer)
        if region and region != connection.endpoint.region:
            self._connection = self._open(self._account.endpoint(region))
            # The first attempt was redirected before it did anything, so sending it again is safe
            # even for a conditional write.
            answer = self._send_once(request, self._connection)
        return answer

    def _open(self, endpoint: Endpoint) -> _Connection:
        return _Connection(endpoint, _open_pool(endpoint, self._account, self._options))

    def _send_once(self, request: S3Request, connection: _Connection) -> S3Response:
        target = _target(request, connection.endpoint)
        headers = self._headers(request, connection.endpoint, target)
        try:
            response = connection.pool.urlopen(
                request.method,
                target,
                body=request.body,
                headers=headers,
                # urllib3 must not retry or redirect: a repeated conditional write would conflict
                # with
                # itself, and a redirected request would carry a signature for another URL.
                retries=False,
                redirect=False,
                decode_content=False,
            )
        except HTTPError as error:
            raise _no_answer(request.path, connection.endpoint, error) from error
        _check_framing(request, response)
        return S3Response(response.status, response.headers, response.data)

    def _headers(self, request: S3Request, endpoint: Endpoint, target: str) -> dict[str, str]:
        if self._options.anonymous:
            return {**_FIXED_HEADERS, **request.headers}
        signed = AWSRequest(
            method=request.method,
            url=endpoint.origin + target,
            headers=dict(request.headers),
            data=request.body,
        )
        S3SigV4Auth(self._account.credentials(), "s3", endpoint.region).add_auth(signed)
        return {**_FIXED_HEADERS, **dict(signed.headers.items())}


def _target(request: S3Request, endpoint: Endpoint) -> str:
    try:
        path = _target_path(request, endpoint)
        return f"{path}?{_query(request.query)}" if request.query else path
    except UnicodeEncodeError:
        raise InexactKeyError(request.path, "the key is not valid Unicode") from None


def _target_path(request: S3Request, endpoint: Endpoint) -> str:
    if request.key is None:
        return endpoint.root or "/"
    if request.key == "":
        # An empty key would turn a request for an object into a request for the whole bucket.
        raise InexactKeyError(request.path, "an empty key names no object")
    return f"{endpoint.root}/{encode(request.key)}"


def _query(query: Mapping[str, str]) -> str:
    return "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(query.items()))


def _open_pool(endpoint: Endpoint, account: S3Account, options: StorageOptions) -> Any:
    parts = urlsplit(endpoint.origin)
    settings: dict[str, Any] = {
        "maxsize": options.max_connections,
        # A caller waits for a free connection instead of opening one beyond the limit.
        "block": True,
        "timeout": urllib3.Timeout(
            connect=min(_CONNECT_SECONDS, options.timeout_seconds), read=options.timeout_seconds
        ),
        "ca_certs": account.certificates() or bundled_certificates(),
    }
    proxy = get_environ_proxies(endpoint.origin).get(parts.scheme)
    if proxy is None:
        manager = urllib3.PoolManager(**settings)
    elif parts.scheme == "https":
        manager = urllib3.ProxyManager(proxy, **settings)
    else:
        raise ConfigError(
            f"{endpoint.origin} would be reached through the proxy {proxy}, which may alter keys",
            hint=f"add {parts.hostname} to NO_PROXY, or use an https endpoint",
        )
    return manager.connection_from_host(parts.hostname, parts.port, parts.scheme)


def _redirect_region(answer: S3Response) -> str | None:
    if answer.status not in _REGION_STATUSES:
        return None
    return answer.headers.get(_REGION_HEADER) or parse_error(answer.body).region or None


def _check_framing(request: S3Request, response: urllib3.BaseHTTPResponse) -> None:
    """Refuse a response that ends with the connection: it may have been cut short."""
    headers = response.headers
    framed = "transfer-encoding" in headers or headers.get("content-length", "").isdecimal()
    if request.method == "GET" and response.status < 300 and not framed:
        raise UnavailableError(request.path, "the response does not say how long it is")


def _no_answer(path: str, endpoint: Endpoint, error: HTTPError) -> UnavailableError:
    hint: str | None
    match error:
        case NameResolutionError():
            reason, hint = (
                f"{endpoint.origin} cannot be resolved",
                "check the endpoint and the region",
            )
        case ConnectTimeoutError() | NewConnectionError():
            reason = f"{endpoint.origin} does not accept connections"
            hint = "check the endpoint, and that the server is running and reachable"
        case SSLError():
            reason, hint = f"{endpoint.origin} is not trusted: {error}", "check AWS_CA_BUNDLE"
        case HTTPTimeoutError():
            reason, hint = f"{endpoint.origin} did not answer in time", "raise timeout_seconds"
        case _:
            reason, hint = f"the connection to {endpoint.origin} broke: {error}", None
    return UnavailableError(path, reason, hint=hint)
