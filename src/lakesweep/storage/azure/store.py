"""Azure Blob Storage as an object store. Every key is exact."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from functools import partial
from urllib.parse import quote

from lakesweep.errors import (
    ChangedError,
    ExistsError,
    InexactKeyError,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from lakesweep.storage.azure.account import AzureAccount, find_endpoint
from lakesweep.storage.azure.errors import AzureOperation, error_of, is_unmet, outcome_of
from lakesweep.storage.azure.listing import list_page
from lakesweep.storage.conditional_deletes import DeleteRequests, Etags, delete_by_batch
from lakesweep.storage.cursor import PageToken, TokenListRequest
from lakesweep.storage.http_transport import (
    DOCUMENT_BYTES,
    HttpConnections,
    HttpRequest,
    HttpResponse,
    batch_body,
    count_of,
    http_time,
    query_string,
)
from lakesweep.storage.moves import move_by_copy, object_exists
from lakesweep.storage.object_store import (
    CHANGED,
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    StorageCapabilities,
)
from lakesweep.storage.options import StorageOptions

#: The first version with containers' own batches and encoded names.
_VERSION = "2021-12-02"
_BATCH = 256
_CREATE_ONLY = {"If-None-Match": "*"}
_DOTS = re.compile(r"(?:^|/)\.{1,2}(?:/|\Z)")
_EMPTY = re.compile(r"(?:^|/)(?:/|\Z)")
_COPY_PAUSE_SECONDS = 0.5
_COPY_SECONDS = 3_600.0


class AzureStore:
    """One container. Sends each request once; a wrapper retries.

    Listings come in no promised order: accounts with real folders have another one.
    """

    def __init__(self, bucket: str, options: StorageOptions) -> None:
        container, _, host = bucket.partition("@")
        self._bucket = bucket
        self._options = options
        self._endpoint = find_endpoint(container, host, options)
        self._account = AzureAccount(self._endpoint, options)
        self._http = HttpConnections(self._endpoint.origin, options)
        self._has_batches = options.delete_batch != 1
        self._has_folders: bool | None = None
        self.base = f"abfss://{bucket}/"
        self._deletes = DeleteRequests(
            self.base,
            self._refusal,
            self.head,
            self._send_delete,
            self._send_batch,
            lambda key, answer: outcome_of(key, self.base + key, answer),
        )

    def __reduce__(self) -> tuple[type[AzureStore], tuple[str, StorageOptions]]:
        return AzureStore, (self._bucket, self._options)

    @property
    def capabilities(self) -> StorageCapabilities:
        return StorageCapabilities(
            delete_batch=min(self._options.delete_batch or _BATCH, _BATCH),
            reports_absent=True,
            verified_deletes=True,
            detects_rewrites=True,
        )

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        """One page of the objects below `prefix`."""
        assert cursor is None or isinstance(cursor, PageToken)
        request = TokenListRequest(self.base, prefix, one_level, after)
        return list_page(request, cursor, partial(self._ask_page, request.path))

    def head(self, key: str) -> ObjectInfo:
        """What the store reports about the object, or MissingError."""
        answer = self._ask(AzureOperation.READ, "HEAD", key)
        size_bytes = count_of(answer.headers.get("content-length"))
        if size_bytes is None:
            raise UnavailableError(self.base + key, "the response has no size")
        etag = answer.headers.get("etag")
        modified = http_time(answer.headers.get("last-modified"))
        return ObjectInfo(key, size_bytes, modified, etag.strip('"') if etag else None)

    def read(self, key: str) -> bytes:
        """The whole object."""
        return self._ask(AzureOperation.READ, "GET", key).body

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`, fewer only if the object ends earlier."""
        if length == 0:
            return b""
        headers = {"x-ms-range": f"bytes={start}-{start + length - 1}"}
        answer = self._send("GET", key, headers)
        if answer.status == 416:
            return b""
        if not answer.is_success:
            raise error_of(AzureOperation.READ, self.base + key, answer)
        if answer.status != 206 or len(answer.body) > length:
            raise UnavailableError(self.base + key, "the response is not the requested range")
        return answer.body

    def write(self, key: str, data: bytes) -> None:
        """Create or replace the object."""
        self._write(key, data, {})

    def write_new(self, key: str, data: bytes) -> None:
        """Create the object if it is absent, atomically; ExistsError if it exists."""
        self._write(key, data, _CREATE_ONLY)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        """Delete distinct keys in one batch; one outcome each, compared by etag."""
        return delete_by_batch(self._deletes, keys, expected, most=self.capabilities.delete_batch)

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the container, replacing the target."""
        self._copy(source, target, {})

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        """Copy the object in its current state, verify the copy, and delete what was copied."""
        info = self.head(source)
        move_by_copy(
            self,
            info,
            target,
            expected,
            copy=partial(self._copy_new, info, target),
            remove=partial(self._deletes.delete_one, source, info.etag),
        )

    def keeps_versions(self) -> bool:
        """False: an account may delete its versions and soft-deleted blobs at any time."""
        return False

    def undelete(self, key: str, expected: Expected | None = None) -> None:  # noqa: ARG002
        raise UnsupportedError(self.base + key, "versions of Azure are not supported")

    def _write(self, key: str, data: bytes, conditions: Mapping[str, str]) -> None:
        headers = {"x-ms-blob-type": "BlockBlob", **conditions}
        answer = self._send("PUT", key, headers, body=data)
        if conditions and is_unmet(answer):
            raise ExistsError(self.base + key, "already exists")
        if not answer.is_success:
            raise error_of(AzureOperation.WRITE, self.base + key, answer)

    def _copy(self, source: str, target: str, conditions: Mapping[str, str]) -> None:
        self._check(source)
        url = self._endpoint.origin + self._target(source, self._account.query)
        headers = {"x-ms-copy-source": url, **conditions}
        answer = self._send("PUT", target, headers)
        if is_unmet(answer):
            raise ChangedError(self.base + source, CHANGED)
        if not answer.is_success:
            # Of the two keys only the source can be missing.
            missing = source if answer.status == 404 else target
            raise error_of(AzureOperation.WRITE, self.base + missing, answer)
        self._await_copy(target, answer)

    def _await_copy(self, target: str, answer: HttpResponse) -> None:
        """Wait until the store has copied: large objects are copied in the background."""
        started = time.monotonic()
        while (status := answer.headers.get("x-ms-copy-status", "success")) == "pending":
            if time.monotonic() - started > _COPY_SECONDS:
                break
            time.sleep(_COPY_PAUSE_SECONDS)
            answer = self._ask(AzureOperation.READ, "HEAD", target)
        if status != "success":
            raise StorageError(self.base + target, f"the copy did not end: {status}")

    def _copy_new(self, info: ObjectInfo, target: str) -> None:
        conditions = {**_CREATE_ONLY, "x-ms-source-if-match": f'"{info.etag}"'}
        try:
            self._copy(info.key, target, conditions)
        except ChangedError as error:
            if object_exists(self, target):
                raise ExistsError(self.base + target, "already exists") from error
            raise

    def _send_batch(self, etags: Etags) -> HttpResponse | None:
        """The response to a batch of deletes; None if the account has no batches."""
        if not self._has_batches:
            return None
        requests = [self._request("DELETE", key, _if_match(etag)) for key, etag in etags.items()]
        # The version of the batch applies to all of its parts, which must not repeat it.
        parts = [self._signed(request, version=False) for request in requests]
        kind, body = batch_body(parts)
        query = {"restype": "container", "comp": "batch", **self._account.query}
        target = f"{self._endpoint.root}?{query_string(query)}"
        request = HttpRequest("POST", target, self.base, {"Content-Type": kind}, body)
        answer = self._http.send(self._signed(request))
        if answer.status in (400, 404, 405, 409, 501):
            # The same deletes one by one tell what is wrong, or work.
            self._has_batches = answer.status == 400
            return None
        if not answer.is_success:
            raise error_of(AzureOperation.DELETE, self.base, answer)
        return answer

    def _send_delete(self, key: str, etag: str | None) -> HttpResponse:
        return self._send("DELETE", key, _if_match(etag))

    def _ask_page(self, path: str, query: dict[str, str]) -> bytes:
        target = f"{self._endpoint.root}?{query_string({**query, **self._account.query})}"
        request = HttpRequest("GET", target, path, most_bytes=DOCUMENT_BYTES)
        answer = self._http.send(self._signed(request))
        if not answer.is_success:
            raise error_of(AzureOperation.LIST, path, answer)
        return answer.body

    def _ask(self, operation: AzureOperation, method: str, key: str) -> HttpResponse:
        answer = self._send(method, key, {})
        if not answer.is_success:
            raise error_of(operation, self.base + key, answer)
        return answer

    def _send(
        self, method: str, key: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpResponse:
        self._check(key)
        return self._http.send(self._signed(self._request(method, key, headers, body)))

    def _check(self, key: str) -> None:
        if (reason := self._refusal(key)) is not None:
            raise InexactKeyError(self.base + key, reason)

    def _request(
        self, method: str, key: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpRequest:
        target = self._target(key, self._account.query)
        return HttpRequest(method, target, self.base + key, headers, body)

    def _target(self, key: str, query: Mapping[str, str]) -> str:
        path = f"{self._endpoint.root}/{quote(key, safe='/~')}"
        return f"{path}?{query_string(query)}" if query else path

    def _signed(self, request: HttpRequest, *, version: bool = True) -> HttpRequest:
        headers = {
            "x-ms-date": formatdate(usegmt=True),
            **({"x-ms-version": _VERSION} if version else {}),
            **request.headers,
            "Content-Length": str(len(request.body)),
        }
        signed = self._account.authorise(request.method, request.target, headers)
        return HttpRequest(
            request.method, request.target, request.path, signed, request.body, request.most_bytes
        )

    def _refusal(self, key: str) -> str | None:
        """Why a key is not sent: Azure would take it for another one. None if it would not."""
        reason = None
        if not key:
            reason = "an empty key names no object"
        elif _DOTS.search(key):
            reason = "Azure takes a `.` or `..` segment for a step in a path"
        elif "\\" in key:
            reason = "Azure takes a backslash for a slash"
        elif any("\ud800" <= character <= "\udfff" for character in key):
            reason = "the key is not valid Unicode"
        elif _EMPTY.search(key) and self._joins_slashes():
            reason = "an account with real folders takes an empty segment for none"
        return reason

    def _joins_slashes(self) -> bool:
        """Whether the account has real folders, or may have: then `a//b` would be `a/b`."""
        if self._has_folders is None:
            query = {"restype": "account", "comp": "properties", **self._account.query}
            target = f"{self._endpoint.root}?{query_string(query)}"
            answer = self._http.send(self._signed(HttpRequest("HEAD", target, self.base)))
            flag = answer.headers.get("x-ms-is-hns-enabled", "").lower()
            self._has_folders = not (answer.is_success and flag == "false")
        return self._has_folders


def _if_match(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"If-Match": f'"{etag}"'}
