"""Access to parts of buckets for others: requests signed for them, and keys that end by themselves.

A signature is given only for what is understood completely: a known operation on keys below the
allowed prefixes of a bucket. Everything else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree as ET

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from lakesweep.errors import DeniedError, UnavailableError
from lakesweep.storage.address import Address
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.endpoint import S3Account

#: Query parameters of the operations that readers and writers of tables use.
_KNOWN_PARAMETERS = frozenset(
    {
        "delete", "uploads", "uploadId", "partNumber", "list-type", "prefix", "delimiter",
        "continuation-token", "start-after", "max-keys", "encoding-type", "fetch-owner", "x-id",
    }
)  # fmt: skip
_READS = frozenset({"GET", "HEAD"})
_WRITES = frozenset({"PUT", "POST", "DELETE"})
_UNSIGNED = "UNSIGNED-PAYLOAD"
_CONTENT_HASH, _COPY_SOURCE = "x-amz-content-sha256", "x-amz-copy-source"
#: Headers that open an object to others, or turn it into a web page.
_SHARING = ("x-amz-acl", "x-amz-grant-", "x-amz-website-")
_MOST_DELETED = 1_000
_DURATION_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class UnsignedRequest:
    """A request to S3 that its sender cannot sign. A body comes only with a deletion of many."""

    method: str
    uri: str
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: str | None = None


@dataclass(frozen=True, slots=True)
class VendedKeys:
    """Keys that end by themselves."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class S3Scope:
    """Folders of one bucket that others may use, and whether they may write there."""

    bucket: str
    prefixes: tuple[str, ...]
    options: StorageOptions
    may_write: bool = False

    def contains(self, key: str) -> bool:
        """Whether an object lies in one of the folders, however servers read its key."""
        parts = key.split("/")
        return ".." not in parts and any(key.startswith(prefix) for prefix in self.prefixes)


def scope_of(
    addresses: Sequence[Address], options: StorageOptions, *, may_write: bool
) -> S3Scope | None:
    """The folders of some addresses, if all of them lie in one bucket."""
    buckets = {address.bucket for address in addresses}
    prefixes = tuple(sorted({f"{address.key.rstrip('/')}/" for address in addresses}))
    if len(buckets) != 1 or "/" in prefixes:
        return None
    return S3Scope(buckets.pop(), prefixes, options, may_write)


def sign(request: UnsignedRequest, scope: S3Scope) -> Mapping[str, Sequence[str]]:
    """The headers to send a request with. DeniedError unless all of it lies in the scope."""
    account = S3Account(scope.bucket, scope.options)
    _check(request, scope, _key(request.uri, account, scope))
    endpoint = account.endpoint()
    headers = {name.lower(): ",".join(values) for name, values in request.headers.items()}
    content = headers.get(_CONTENT_HASH, _UNSIGNED)
    if request.body:
        # Else another body could be sent with the signature of this one.
        content = sha256(request.body.encode()).hexdigest()
    signed = AWSRequest(method=request.method, url=request.uri, headers=headers)
    _HashedAuth(account.credentials(), "s3", endpoint.region, content).add_auth(signed)
    return {name: [value] for name, value in signed.headers.items()}


class _HashedAuth(S3SigV4Auth):  # type: ignore[misc]
    """Signs requests whose body only their sender has; they say what its hash is."""

    def __init__(self, credentials: Any, service: str, region: str, content: str) -> None:
        super().__init__(credentials, service, region)
        self._content = content

    def payload(self, _request: AWSRequest) -> str:
        return self._content


def _key(uri: str, account: S3Account, scope: S3Scope) -> str:
    """The key that a request is about, in both ways to write buckets; empty for the bucket."""
    where, known = urlsplit(uri), urlsplit(account.endpoint().origin)
    host = known.netloc.removeprefix(f"{scope.bucket}.")
    if where.scheme != known.scheme or "\\" in uri:
        raise _denied(uri, scope)
    path = where.path.removeprefix("/")
    if where.netloc == host:
        bucket, _, path = path.partition("/")
        if unquote(bucket) != scope.bucket:
            raise _denied(uri, scope)
    elif where.netloc != f"{scope.bucket}.{host}":
        raise _denied(uri, scope)
    return unquote(path)


def _check(request: UnsignedRequest, scope: S3Scope, key: str) -> None:
    query = dict(parse_qsl(urlsplit(request.uri).query, keep_blank_values=True))
    if not query.keys() <= _KNOWN_PARAMETERS or request.method not in _READS | _WRITES:
        raise _denied(request.uri, scope)
    if request.method in _WRITES and not scope.may_write:
        raise _denied(request.uri, scope)
    given = {name.lower() for name in request.headers}
    if any(name.startswith(_SHARING) for name in given):
        raise _denied("a request that lets others in", scope)
    copied = [
        unquote(value).removeprefix("/")
        for name, values in request.headers.items()
        if name.lower() == _COPY_SOURCE
        for value in values
    ]
    for source in copied:
        bucket, _, copied_key = source.partition("?")[0].partition("/")
        if bucket != scope.bucket or not scope.contains(copied_key):
            raise _denied(source, scope)
    for each in _keys(request, key, query, scope):
        if not scope.contains(each):
            raise _denied(each, scope)


def _keys(
    request: UnsignedRequest, key: str, query: Mapping[str, str], scope: S3Scope
) -> Sequence[str]:
    """All keys that a request touches; of a listing, the prefix."""
    if key:
        return [key]
    if request.method == "GET" and query.get("list-type") == "2":
        return [query.get("prefix", "")]
    if request.method == "POST" and query.keys() == {"delete"}:
        return _deleted(request.body or "", scope)
    raise _denied(request.uri, scope)


def _deleted(body: str, scope: S3Scope) -> Sequence[str]:
    """The keys that the body of a deletion names."""
    try:
        # Without declarations there are no entities to expand.
        root = None if "<!" in body else ET.fromstring(body)  # noqa: S314
    except ET.ParseError:
        root = None
    if root is None:
        raise _denied("a deletion that cannot be read", scope)
    found = [each.text or "" for each in root.iter() if _name(each) == "Key"]
    if not 1 <= len(found) <= _MOST_DELETED:
        raise _denied("a deletion without keys, or with too many", scope)
    return found


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _denied(what: str, scope: S3Scope) -> DeniedError:
    return DeniedError(f"s3://{scope.bucket}/", f"{what[:200]} is not signed: outside of the table")


def assume_role(role: str, scope: S3Scope, name: str) -> VendedKeys:
    """Keys of a role, cut down to a scope. UnavailableError if the store gives none."""
    account = S3Account(scope.bucket, scope.options)
    keys, endpoint = account.credentials(), account.endpoint()
    session = Session()
    client = session.create_client(
        "sts",
        region_name=endpoint.region,
        endpoint_url=scope.options.endpoint,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        aws_session_token=keys.token,
    )
    try:
        answer = client.assume_role(
            RoleArn=role,
            RoleSessionName=name,
            Policy=json.dumps(policy_of(scope)),
            DurationSeconds=_DURATION_SECONDS,
        )
    except (BotoCoreError, ClientError) as error:
        raise UnavailableError(f"s3://{scope.bucket}/", f"no keys were vended: {error}") from error
    found = answer["Credentials"]
    return VendedKeys(
        found["AccessKeyId"],
        found["SecretAccessKey"],
        found["SessionToken"],
        int(found["Expiration"].timestamp() * 1000),
    )


def policy_of(scope: S3Scope) -> Mapping[str, Any]:
    """What the keys of a scope may do, as IAM and its relatives write it."""
    bucket = f"arn:aws:s3:::{scope.bucket}"
    actions = ["s3:GetObject", "s3:GetObjectVersion"]
    if scope.may_write:
        actions += ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    objects = [f"{bucket}/{prefix}*" for prefix in scope.prefixes]
    listed = {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in scope.prefixes]}}
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": actions, "Resource": objects},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": bucket, "Condition": listed},
            {"Effect": "Allow", "Action": "s3:GetBucketLocation", "Resource": bucket},
        ],
    }
