"""DynamoDB clients: the table that a URL names, the connection, and the meaning of errors."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    ParamValidationError,
    ProxyConnectionError,
)
from botocore.session import Session

from lakesweep.errors import (
    ConfigError,
    SchemaError,
    StoreError,
    UnknownOutcomeError,
    UnreachableError,
    UsageError,
)

#: Everything that a request can raise.
CLIENT_ERRORS = (ClientError, BotoCoreError)

_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 30
_CREDENTIALS_HINT = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or add ?profile=name"
)
_REGION_HINT = "set AWS_REGION, or add ?region=eu-central-1 to the URL"
_RIGHTS_HINT = "check the credentials, and that they may use the table"

# The table was too busy to start.
_BUSY = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TransactionConflictException",
    }
)
_DENIED = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)
# The request was never sent.
_NOT_SENT = (
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    ProxyConnectionError,
)


class ForeignResponseError(BotoCoreError):  # type: ignore[misc]
    """A response with status 200 that is not from DynamoDB, such as a proxy's page.

    The client itself would take it for a success.
    """

    fmt = "the response is not from DynamoDB"


def find_account(address: DynamoAddress) -> Session:
    """The settings of the AWS SDKs. ConfigError if they contain no credentials."""
    session = Session(profile=address.profile)
    try:
        credentials = session.get_credentials()
    except _NOT_SENT as error:
        raise UnreachableError(f"{address}: credentials could not be fetched: {error}") from error
    except BotoCoreError as error:
        raise ConfigError(f"{address}: {error}", hint=_CREDENTIALS_HINT) from error
    if credentials is None:
        raise ConfigError(f"{address}: no credentials were found", hint=_CREDENTIALS_HINT)
    return session


def make_client(session: Session, address: DynamoAddress, *, tries: int, connections: int) -> Any:
    """A client that sends each request at most `tries` times. ConfigError without a region."""
    try:
        client = session.create_client(
            "dynamodb",
            region_name=address.region or os.environ.get("AWS_REGION") or None,
            endpoint_url=address.endpoint,
            config=Config(
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_ANSWER_SECONDS,
                retries={"mode": "standard", "total_max_attempts": tries},
                max_pool_connections=connections,
                user_agent_extra="lakesweep",
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"{address}: {error}", hint=_REGION_HINT) from error
    client.meta.events.register("after-call.dynamodb", _check_response)
    return client


def code_of(error: Exception) -> str:
    """The error code of DynamoDB; empty for other errors."""
    response = error.response if isinstance(error, ClientError) else {}
    return str(response.get("Error", {}).get("Code", ""))


def translated(error: Exception, address: DynamoAddress) -> StoreError:
    """The meaning of an error for a write: UnknownOutcomeError unless surely nothing changed."""
    if not isinstance(error, ClientError):
        return _failure(error)(f"{address}: {error}")
    if code_of(error) == "ResourceNotFoundException":
        return SchemaError(f"{address}: the table does not exist")
    message = error.response.get("Error", {}).get("Message") or code_of(error)
    hint = _RIGHTS_HINT if code_of(error) in _DENIED else None
    return _refusal(error)(f"{address}: {message}", hint=hint)


def _check_response(parsed: Mapping[str, Any], **_: object) -> None:
    if "RequestId" not in parsed.get("ResponseMetadata", {}):
        raise ForeignResponseError


def _refusal(error: ClientError) -> type[StoreError]:
    if code_of(error) in _BUSY:
        return UnreachableError
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return StoreError if 400 <= status < 500 and status != 408 else UnknownOutcomeError


def _failure(error: Exception) -> type[StoreError]:
    if isinstance(error, _NOT_SENT):
        return UnreachableError
    return StoreError if isinstance(error, ParamValidationError) else UnknownOutcomeError


DEFAULT_TABLE = "lakesweep"

_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_OPTIONS = ("region", "endpoint", "profile")
_EXAMPLE = "dynamodb://lakesweep?region=eu-central-1"


@dataclass(frozen=True, slots=True)
class DynamoAddress:
    """A table and its location; None means the setting of the AWS SDKs."""

    table: str
    region: str | None = None
    endpoint: str | None = None
    profile: str | None = None

    def __str__(self) -> str:
        return f"dynamodb://{self.table}"


def parse_address(url: str) -> DynamoAddress:
    """`dynamodb://table?region=…&endpoint=…&profile=…`; every part is optional."""
    place, _, query = url.partition("?")
    if "@" in url:
        raise UsageError(
            "dynamodb: credentials do not belong in the URL",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or add ?profile=name",
        )
    table = place.partition("://")[2].rstrip("/") or DEFAULT_TABLE
    if not _TABLE.fullmatch(table):
        raise UsageError(
            f"dynamodb: {table!r} is not a valid table name",
            hint=f"use 3 to 255 letters, digits, dots, hyphens or underscores: {_EXAMPLE}",
        )
    return DynamoAddress(table, **_options(query))


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name not in _OPTIONS:
            raise UsageError(f"dynamodb: unknown option {name!r}", hint=f"as in {_EXAMPLE}")
        if not value:
            raise UsageError(f"dynamodb: option {name} is empty", hint=f"as in {_EXAMPLE}")
    endpoint = options.get("endpoint", "http://localhost")
    if not _is_web_address(endpoint):
        raise ConfigError(
            f"dynamodb: the endpoint {endpoint} is not an http or https address",
            hint="as in endpoint=http://127.0.0.1:8000",
        )
    return options


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False  # a port or an IPv6 address that is none
