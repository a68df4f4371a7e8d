"""Signed HTTP requests to S3. The signed URL is the URL that is sent, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest

from lakesweep.errors import InexactKeyError
from lakesweep.storage.http_transport import (
    HttpConnections,
    HttpRequest,
    HttpResponse,
    query_string,
)
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.endpoint import Endpoint, S3Account
from lakesweep.storage.s3.keys import encode
from lakesweep.storage.s3.xml_bodies import parse_error

_REGION_HEADER = "x-amz-bucket-region"
_REGION_STATUSES = frozenset({301, 307, 400})


@dataclass(frozen=True, slots=True)
class S3Request:
    """One request. `path` is the full address for errors; `key` None means the bucket itself."""

    method: str
    path: str
    key: str | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    most_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Connection:
    """An endpoint and the connections to it, which change together."""

    endpoint: Endpoint
    pool: HttpConnections


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

    def send(self, request: S3Request) -> HttpResponse:
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
        certificates = self._account.certificates()
        return _Connection(endpoint, HttpConnections(endpoint.origin, self._options, certificates))

    def _send_once(self, request: S3Request, connection: _Connection) -> HttpResponse:
        target = _target(request, connection.endpoint)
        headers = self._headers(request, connection.endpoint, target)
        return connection.pool.send(
            HttpRequest(
                request.method, target, request.path, headers, request.body, request.most_bytes
            )
        )

    def _headers(self, request: S3Request, endpoint: Endpoint, target: str) -> dict[str, str]:
        if self._options.anonymous:
            return dict(request.headers)
        signed = AWSRequest(
            method=request.method,
            url=endpoint.origin + target,
            headers=dict(request.headers),
            data=request.body,
        )
        S3SigV4Auth(self._account.credentials(), "s3", endpoint.region).add_auth(signed)
        return dict(signed.headers.items())


def _target(request: S3Request, endpoint: Endpoint) -> str:
    try:
        path = _target_path(request, endpoint)
        return f"{path}?{query_string(request.query)}" if request.query else path
    except UnicodeEncodeError:
        raise InexactKeyError(request.path, "the key is not valid Unicode") from None


def _target_path(request: S3Request, endpoint: Endpoint) -> str:
    if request.key is None:
        return endpoint.root or "/"
    if request.key == "":
        # An empty key would turn a request for an object into a request for the whole bucket.
        raise InexactKeyError(request.path, "an empty key names no object")
    return f"{endpoint.root}/{encode(request.key)}"


def _redirect_region(answer: HttpResponse) -> str | None:
    if answer.status not in _REGION_STATUSES:
        return None
    return answer.headers.get(_REGION_HEADER) or parse_error(answer.body).region or None
