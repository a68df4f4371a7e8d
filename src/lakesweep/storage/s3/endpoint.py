"""Endpoints, regions and credentials of a bucket, resolved by botocore, and requests to it.

The signed URL is the URL that is sent, byte for byte.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import (
    BotoCoreError,
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
)
from botocore.loaders import create_loader
from botocore.regions import EndpointResolver
from botocore.session import Session

from lakesweep.errors import ConfigError, InexactKeyError, UnavailableError, UnsupportedError
from lakesweep.storage.http_transport import (
    HttpConnections,
    HttpRequest,
    HttpResponse,
    query_string,
)
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.keys import encode
from lakesweep.storage.s3.xml_bodies import parse_error

DIRECTORY_BUCKET_SUFFIX = "--x-s3"
_FALLBACK_REGION = "us-east-1"
_HOST_SAFE_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_AMAZON_HOST = re.compile(r"(^|\.)amazonaws\.com(\.cn)?(:\d+)?$")
_NO_CREDENTIALS_HINT = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, "
    "or anonymous = true for a public bucket"
)
_REGION_HEADER = "x-amz-bucket-region"
_REGION_STATUSES = frozenset({301, 307, 400})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one bucket is reached: `origin` is scheme and host, `root` precedes the key."""

    origin: str
    root: str
    region: str
    is_amazon: bool


@lru_cache(maxsize=4)
def _regions(data_path: str | None) -> EndpointResolver:
    """The regions of S3, loaded once: opening a store for each table would load them again."""
    return EndpointResolver(create_loader(data_path).load_data("endpoints"))


def _session(profile: str | None) -> Session:
    """A session that honours AWS_REGION, as every SDK but botocore does."""
    session = Session(profile=profile)
    if region := os.environ.get("AWS_REGION"):
        session.set_config_variable("region", region)
    return session


class S3Account:
    """The settings that the AWS SDKs would use, with our own options first."""

    def __init__(self, bucket: str, options: StorageOptions) -> None:
        self._bucket = bucket
        self._options = options
        self._session = _session(options.profile)
        self._credentials: Any = None
        self._finding = threading.Lock()
        self._configured = self._checked(self._find_configured_endpoint)

    def endpoint(self, region: str | None = None) -> Endpoint:
        """The bucket's endpoint; in `region` if the store has redirected there."""
        region = region or self._options.region or self._setting("region") or _FALLBACK_REGION
        address = self._configured or self._amazon_address(region)
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(
                f"{address!r} is not a valid endpoint",
                hint="write endpoint = 'https://host:port'",
            )
        is_amazon = _AMAZON_HOST.search(parts.netloc) is not None
        base = parts.path.rstrip("/")
        if self._is_virtual():
            host = f"{self._bucket}.{parts.netloc}"
            return Endpoint(f"{parts.scheme}://{host}", base, region, is_amazon)
        root = f"{base}/{self._bucket}"
        return Endpoint(f"{parts.scheme}://{parts.netloc}", root, region, is_amazon)

    def credentials(self) -> Any:
        """The credentials for one request, refreshed before they expire."""
        with self._finding:
            if self._credentials is None:
                self._credentials = self._checked(self._find_credentials)
        return self._checked(self._credentials.get_frozen_credentials)

    def certificates(self) -> str | None:
        """The configured file of trusted certificates, if any."""
        found: str | None = self._setting("ca_bundle")
        return found

    def _is_virtual(self) -> bool:
        if self._options.addressing is not None:
            return self._options.addressing == "virtual"
        return self._configured is None and _HOST_SAFE_BUCKET.fullmatch(self._bucket) is not None

    def _amazon_address(self, region: str) -> str:
        if self._bucket.endswith(DIRECTORY_BUCKET_SUFFIX):
            raise UnsupportedError(
                f"s3://{self._bucket}/",
                "directory buckets of S3 Express need session credentials, which are unsupported",
            )
        found = _regions(self._setting("data_path")).construct_endpoint(
            "s3",
            region,
            use_dualstack_endpoint=bool(self._setting("use_dualstack_endpoint")),
            use_fips_endpoint=bool(self._setting("use_fips_endpoint")),
        )
        if found is None:
            raise ConfigError(
                f"{region!r} is not an S3 region",
                hint="set region, or set endpoint for another store",
            )
        return f"https://{found['hostname']}"

    def _find_configured_endpoint(self) -> str | None:
        if self._options.endpoint:
            return self._options.endpoint
        if self._setting("ignore_configured_endpoint_urls"):
            return None
        profile = self._session.get_scoped_config()
        services = self._session.full_config.get("services", {}).get(profile.get("services"), {})
        return (
            os.environ.get("AWS_ENDPOINT_URL_S3")
            or os.environ.get("AWS_ENDPOINT_URL")
            or services.get("s3", {}).get("endpoint_url")
            or profile.get("endpoint_url")
        )

    def _find_credentials(self) -> Any:
        options = self._options
        if options.access_key_id and options.secret_access_key:
            return Credentials(
                options.access_key_id, options.secret_access_key, options.session_token
            )
        if options.access_key_id or options.secret_access_key:
            raise ConfigError("an access key needs both its id and its secret")
        found = self._session.get_credentials()
        if found is None:
            raise ConfigError(
                f"no credentials were found for s3://{self._bucket}/", hint=_NO_CREDENTIALS_HINT
            )
        return found

    def _setting(self, name: str) -> Any:
        return self._checked(lambda: self._session.get_config_variable(name))

    def _checked(self, find: Any) -> Any:
        """What botocore returns, with its errors translated."""
        try:
            return find()
        except (CredentialRetrievalError, MetadataRetrievalError, HTTPClientError) as error:
            raise UnavailableError(
                f"s3://{self._bucket}/", f"credentials could not be fetched: {error}"
            ) from error
        except BotoCoreError as error:
            raise ConfigError(str(error), hint=_NO_CREDENTIALS_HINT) from error


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
