"""Google Cloud Storage as an object store. Every key is exact."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar
from urllib.parse import quote

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import (
    ChangedError,
    ExistsError,
    InexactKeyError,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from lakesweep.storage.conditional_deletes import DeleteRequests, Etags, delete_by_batch
from lakesweep.storage.cursor import PageToken, TokenListRequest
from lakesweep.storage.google.account import GoogleAccount, find_endpoint
from lakesweep.storage.google.errors import GoogleOperation, error_of, is_unmet, outcome_of
from lakesweep.storage.google.listing import list_page, time_of
from lakesweep.storage.http_transport import (
    DOCUMENT_BYTES,
    HttpConnections,
    HttpRequest,
    HttpResponse,
    batch_body,
    count_of,
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

_T = TypeVar("_T")
_BATCH = 100
_UNFIT = re.compile("[\r\n\ud800-\udfff]")
_STATE = "size,updated,generation"
#: What a copy keeps of its source. A copy without them gets the defaults of the bucket.
_KEPT = (
    *("cacheControl", "contentDisposition", "contentEncoding", "contentLanguage", "contentType"),
    *("customTime", "metadata", "storageClass"),
)
_CREATE_ONLY = {"ifGenerationMatch": "0"}
#: Large objects are copied in steps, of a gigabyte or more.
_MOST_STEPS = 10_000
_NOT_GZIPPED = (None, "", "identity")


class _Copy(msgspec.Struct, frozen=True, rename={"token": "rewriteToken"}):
    done: bool
    token: str = ""


class GoogleStore:
    """One bucket. Sends each request once; a wrapper retries.

    The etag of an object is its generation: a number that each write changes.
    """

    def __init__(self, bucket: str, options: StorageOptions) -> None:
        self._bucket = bucket
        self._options = options
        self._endpoint = find_endpoint(options)
        self.base = f"gs://{bucket}/"
        self._account = GoogleAccount(self.base, self._endpoint, options)
        self._http = HttpConnections(self._endpoint.origin, options)
        self._objects = f"/storage/v1/b/{quote(bucket, safe='')}/o"
        self._has_batches = options.delete_batch != 1
        self._deletes = DeleteRequests(
            self.base,
            _refusal,
            self.head,
            self._send_delete,
            self._send_batch,
            lambda key, answer: outcome_of(key, self.base + key, answer),
        )

    def __reduce__(self) -> tuple[type[GoogleStore], tuple[str, StorageOptions]]:
        return GoogleStore, (self._bucket, self._options)

    @property
    def capabilities(self) -> StorageCapabilities:
        return StorageCapabilities(
            delete_batch=min(self._options.delete_batch or _BATCH, _BATCH),
            ordered=True,
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
        return self._info(key, self._state(key, _STATE))

    def read(self, key: str) -> bytes:
        """The whole object."""
        answer = self._download(key, {})
        self._check_download(key, answer)
        stored = count_of(answer.headers.get("x-goog-stored-content-length"))
        if stored not in (None, len(answer.body)):
            reason = f"{len(answer.body)} bytes arrived, but {stored} are stored"
            raise UnavailableError(self.base + key, reason)
        return answer.body

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`, fewer only if the object ends earlier."""
        if length == 0:
            return b""
        answer = self._download(key, {"Range": f"bytes={start}-{start + length - 1}"})
        if answer.status == 416:
            return b""
        self._check_download(key, answer)
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
        """Delete distinct keys in one batch; one outcome each, compared by generation."""
        return delete_by_batch(
            self._deletes,
            keys,
            None if expected is None else [_by_generation(one) for one in expected],
            most=self.capabilities.delete_batch,
            # An emulator may take a conditional delete for a plain one.
            looks_first=not self._endpoint.is_google,
        )

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the bucket, replacing the target."""
        self._copy(source, target, self._state(source, ",".join(_KEPT)), {})

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        """Copy the object in its current state, verify the copy, and delete what was copied."""
        _check(self.base, target)
        state = self._state(source, f"{_STATE},{','.join(_KEPT)}")
        info = self._info(source, state)
        move_by_copy(
            self,
            info,
            target,
            _by_generation(expected),
            copy=partial(self._copy_new, info, target, state),
            remove=partial(self._deletes.delete_one, source, info.etag),
        )

    def keeps_versions(self) -> bool:
        """False: a bucket may delete its versions and soft-deleted objects at any time."""
        return False

    def undelete(self, key: str, expected: Expected | None = None) -> None:  # noqa: ARG002
        raise UnsupportedError(self.base + key, "versions of Google Cloud are not supported")

    def _state(self, key: str, fields: str) -> Mapping[str, object]:
        """Fields of the object as the service reports them, or MissingError."""
        answer = self._send("GET", key, query={"fields": fields})
        if not answer.is_success:
            raise error_of(GoogleOperation.READ, self.base + key, answer)
        return self._document(key, answer, dict[str, object])

    def _info(self, key: str, state: Mapping[str, object]) -> ObjectInfo:
        size_bytes = count_of(str(state.get("size")))
        generation = str(state.get("generation"))
        if size_bytes is None or count_of(generation) is None:
            raise UnavailableError(self.base + key, "the response has no size or generation")
        updated = state.get("updated")
        modified: datetime | None = time_of(updated if isinstance(updated, str) else None).as_py()
        return ObjectInfo(key, size_bytes, modified, generation)

    def _download(self, key: str, headers: Mapping[str, str]) -> HttpResponse:
        """The bytes as they are stored."""
        answer = self._send("GET", key, headers, {"alt": "media"})
        if answer.headers.get("x-goog-stored-content-encoding") in _NOT_GZIPPED:
            return answer
        # The service unpacked them, and did not heed a range, as the request did not accept gzip.
        return self._send("GET", key, {**headers, "Accept-Encoding": "gzip"}, {"alt": "media"})

    def _check_download(self, key: str, answer: HttpResponse) -> None:
        if not answer.is_success:
            raise error_of(GoogleOperation.READ, self.base + key, answer)

    def _write(self, key: str, data: bytes, conditions: Mapping[str, str]) -> None:
        _check(self.base, key)
        query = {"uploadType": "media", "name": key, **conditions}
        headers = {"Content-Type": "application/octet-stream"}
        answer = self._request("POST", f"/upload{self._objects}", key, query, headers, data)
        if is_unmet(answer):
            raise ExistsError(self.base + key, "already exists")
        if not answer.is_success:
            raise error_of(GoogleOperation.WRITE, self.base + key, answer)

    def _copy(
        self, source: str, target: str, state: Mapping[str, object], conditions: Mapping[str, str]
    ) -> None:
        """Copy in as many steps as the service needs; the target appears with the last one."""
        _check(self.base, target)
        path = f"{self._path(source)}/rewriteTo{self._path(target).removeprefix('/storage/v1')}"
        body = msgspec.json.encode({name: state[name] for name in _KEPT if name in state})
        query = dict(conditions)
        for _ in range(_MOST_STEPS):
            headers = {"Content-Type": "application/json"}
            answer = self._request("POST", path, target, query, headers, body)
            if is_unmet(answer):
                raise ChangedError(self.base + source, CHANGED)
            if not answer.is_success:
                # Of the two keys only the source can be missing.
                missing = source if answer.status == 404 else target
                raise error_of(GoogleOperation.WRITE, self.base + missing, answer)
            step = self._document(target, answer, _Copy)
            if step.done:
                return
            query["rewriteToken"] = step.token
        raise StorageError(self.base + target, "the copy does not end")

    def _copy_new(self, info: ObjectInfo, target: str, state: Mapping[str, object]) -> None:
        conditions = {**_CREATE_ONLY, "ifSourceGenerationMatch": info.etag or ""}
        try:
            self._copy(info.key, target, state, conditions)
        except ChangedError as error:
            if object_exists(self, target):
                raise ExistsError(self.base + target, "already exists") from error
            raise

    def _send_delete(self, key: str, etag: str | None) -> HttpResponse:
        return self._send("DELETE", key, query=_if_match(etag))

    def _send_batch(self, etags: Etags) -> HttpResponse | None:
        """The response to a batch of deletes; None if the server has no batches."""
        if not self._has_batches:
            return None
        parts = [
            HttpRequest("DELETE", self._target(self._path(key), _if_match(etag)), self.base)
            for key, etag in etags.items()
        ]
        kind, body = batch_body(parts)
        headers = {"Content-Type": kind}
        answer = self._request("POST", "/batch/storage/v1", "", {}, headers, body)
        if answer.status in (400, 404, 405, 501):
            # The same deletes one by one tell what is wrong, or work.
            self._has_batches = answer.status == 400
            return None
        if not answer.is_success:
            raise error_of(GoogleOperation.DELETE, self.base, answer)
        return answer

    def _ask_page(self, path: str, query: Mapping[str, str]) -> bytes:
        target = self._target(self._objects, query)
        request = HttpRequest("GET", target, path, self._account.headers(), b"", DOCUMENT_BYTES)
        answer = self._http.send(request)
        if not answer.is_success:
            raise error_of(GoogleOperation.LIST, path, answer)
        return answer.body

    def _send(
        self,
        method: str,
        key: str,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        _check(self.base, key)
        return self._request(method, self._path(key), key, query or {}, headers or {})

    def _request(
        self,
        method: str,
        path: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes = b"",
    ) -> HttpResponse:
        signed = {**self._account.headers(), **headers}
        target = self._target(path, query)
        return self._http.send(HttpRequest(method, target, self.base + key, signed, body))

    def _path(self, key: str) -> str:
        """The path of an object: its key is one segment, whatever it contains."""
        return f"{self._objects}/{quote(key, safe='')}"

    def _target(self, path: str, query: Mapping[str, str]) -> str:
        root = self._endpoint.root + path
        return f"{root}?{query_string(query)}" if query else root

    def _document(self, key: str, answer: HttpResponse, kind: type[_T]) -> _T:
        try:
            return typed_json(answer.body, kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            reason = f"the response is not what was asked for: {error}"
            raise UnavailableError(self.base + key, reason) from error


def _if_match(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"ifGenerationMatch": etag}


def _by_generation(expected: Expected | None) -> Expected | None:
    """What was listed, to be compared by its generation; an etag of an inventory is not one."""
    if expected is None or expected.etag is None or count_of(expected.etag) is not None:
        return expected
    return expected._replace(etag=None)


def _check(base: str, key: str) -> None:
    if (reason := _refusal(key)) is not None:
        raise InexactKeyError(base + key, reason)


def _refusal(key: str) -> str | None:
    """Why a key is not sent: Google Cloud has no such key. None if it may have."""
    if not key:
        return "an empty key names no object"
    if key in (".", ".."):
        return "Google Cloud takes this key for a step in a path"
    return "Google Cloud has no keys with line breaks" if _UNFIT.search(key) else None
