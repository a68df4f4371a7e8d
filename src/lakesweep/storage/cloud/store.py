"""Google Cloud Storage and memory as object stores, through obstore."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from lakesweep.errors import (
    ConfigError,
    InexactKeyError,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from lakesweep.storage.cursor import Cursor, page_at
from lakesweep.storage.moves import move_by_copy
from lakesweep.storage.object_store import (
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    Outcome,
    StorageCapabilities,
    check_expected,
    check_keys,
)
from lakesweep.storage.options import StorageOptions

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError
    from obstore.store import GCSStore, MemoryStore
    from obstore.store import ObjectStore as Client

    from lakesweep.storage.cloud.errors import CLIENT_ERRORS, failed_deletion, reason_of, translated
    from lakesweep.storage.cloud.listing import CloudListRequest, OneLevel, Stream, inexactness
except ImportError as error:
    raise ConfigError(
        "Google Cloud and memory stores need the packages obstore and arro3-core",
        hint="pip install 'lakesweep[cloud]'",
    ) from error

_DELETING_THREADS = 16
_MEMORIES: dict[str, MemoryStore] = {}


@dataclass(frozen=True, slots=True)
class Clients:
    """Two clients of one bucket.

    A listing is one stream that cannot be resumed, so `lister` retries failed requests itself.
    Everything else uses `direct`, which never retries: a conditional write retried behind our back
    would find its own object and report that it already exists.
    """

    direct: Client
    lister: Client


class CloudStore:
    """A bucket through obstore.

    obstore cannot represent every key: keys with empty, `.` or `..` segments or control characters
    are refused before they are sent, and a listing that contains one stops (see `cloud.listing`).

    Keys are deleted one per request, several requests at a time: obstore's bulk call stops at the
    first key that fails and does not report the others.

    `reopen` opens the same store in another process.
    """

    def __init__(
        self,
        clients: Clients,
        base: str,
        capabilities: StorageCapabilities,
        reopen: tuple[Callable[..., CloudStore], tuple[Any, ...]],
    ) -> None:
        self._client = clients.direct
        self._lister = clients.lister
        self.base = base
        self.capabilities = capabilities
        self._reopen = reopen

    def __reduce__(self) -> tuple[Callable[..., CloudStore], tuple[Any, ...]]:
        return self._reopen

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        if cursor is not None:
            return page_at(cursor)
        if prefix:
            self._check(prefix.removesuffix("/"))
        request = CloudListRequest(
            self._lister, self.base, prefix, after, self.capabilities.ordered
        )
        steps = OneLevel(request) if one_level else Stream(request)
        return Cursor(steps).page()

    def head(self, key: str) -> ObjectInfo:
        with self._asking(key):
            found = obstore.head(self._client, key)
        etag = found["e_tag"]
        return ObjectInfo(
            key, found["size"], found["last_modified"], etag.strip('"') if etag else None
        )

    def read(self, key: str) -> bytes:
        with self._asking(key):
            answer = obstore.get(self._client, key)
            data = bytes(answer.bytes())
            size = answer.meta["size"]
        if len(data) != size:
            raise UnavailableError(self.base + key, f"only {len(data)} of {size} bytes arrived")
        return data

    def read_range(self, key: str, start: int, length: int) -> bytes:
        if length == 0:
            return b""
        try:
            with self._asking(key):
                return bytes(obstore.get_range(self._client, key, start=start, length=length))
        except StorageError:
            # HTTP reports a range beyond the end as an error; for us it is empty.
            if start < self.head(key).size_bytes:
                raise
            return b""

    def write(self, key: str, data: bytes) -> None:
        with self._asking(key):
            obstore.put(self._client, key, data)

    def write_new(self, key: str, data: bytes) -> None:
        with self._asking(key):
            obstore.put(self._client, key, data, mode="create")

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        """Delete keys. obstore has no conditional delete, so nothing is compared."""
        check_keys(keys, self.capabilities.delete_batch)
        check_expected(keys, expected)
        # Each outcome comes from its own request, so one failure says nothing about the others.
        with ThreadPoolExecutor(_DELETING_THREADS) as pool:
            return tuple(pool.map(self._delete_one, keys))

    def copy(self, source: str, target: str) -> None:
        self._check(target)
        with self._asking(source):
            obstore.copy(self._client, source, target)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        self._check(target)
        move_by_copy(
            self,
            self.head(source),
            target,
            expected,
            copy=partial(self._copy_new, source, target),
            remove=partial(self._delete_one, source),
        )

    def keeps_versions(self) -> bool:
        """False: obstore cannot reach the versions that Google keeps."""
        return False

    def undelete(self, key: str, expected: Expected | None = None) -> None:  # noqa: ARG002
        raise UnsupportedError(self.base + key, "this client does not support versions")

    def _copy_new(self, source: str, target: str) -> None:
        try:
            obstore.copy(self._client, source, target, overwrite=False)
        except CLIENT_ERRORS as error:
            key = target if isinstance(error, AlreadyExistsError) else source
            raise translated(self.base, key, error) from error

    def _delete_one(self, key: str) -> Deletion:
        if (inexact := inexactness(key)) is not None:
            return Deletion(key, Outcome.FAILED, inexact)
        try:
            obstore.delete(self._client, key)
        except CLIENT_ERRORS as error:
            return failed_deletion(self.base, key, error)
        return Deletion(key, Outcome.DELETED)

    def _check(self, key: str) -> None:
        if (inexact := inexactness(key)) is not None:
            raise InexactKeyError(self.base + key, inexact)

    @contextmanager
    def _asking(self, key: str) -> Iterator[None]:
        self._check(key)
        try:
            yield
        except CLIENT_ERRORS as error:
            raise translated(self.base, key, error) from error


def open_gcs(bucket: str, options: StorageOptions) -> CloudStore:
    """A bucket of Google Cloud Storage."""
    config = {
        "base_url": options.endpoint,
        "service_account": options.service_account,
        **(_anonymous(options) if options.anonymous else {}),
    }
    capabilities = StorageCapabilities(
        _delete_batch(options, 100), ordered=True, reports_absent=True
    )
    clients = _clients(partial(GCSStore, bucket), options, config)
    return CloudStore(clients, f"gs://{bucket}/", capabilities, (open_gcs, (bucket, options)))


def open_memory(name: str) -> CloudStore:
    """Objects in this process, for tests and demos; the same name gives the same objects."""
    client = _MEMORIES.setdefault(name, MemoryStore())
    capabilities = StorageCapabilities(delete_batch=1000, ordered=True)
    clients = Clients(client, client)
    return CloudStore(clients, f"memory://{name}/", capabilities, (open_memory, (name,)))


def _anonymous(options: StorageOptions) -> dict[str, object]:
    """Settings that request no token: without an account, obstore would still look for one."""
    account = {
        "gcs_base_url": options.endpoint or "https://storage.googleapis.com",
        "disable_oauth": True,
        **dict.fromkeys(("client_email", "private_key", "private_key_id"), ""),
    }
    return {"skip_signature": True, "service_account_key": json.dumps(account)}


def _delete_batch(options: StorageOptions, limit: int) -> int:
    return min(options.delete_batch or limit, limit)


def _clients(
    make: Callable[..., Client], options: StorageOptions, config: Mapping[str, object]
) -> Clients:
    given = {name: value for name, value in config.items() if value is not None}
    client_options = {
        "timeout": timedelta(seconds=options.timeout_seconds),
        "pool_max_idle_per_host": str(options.max_connections),
        "allow_http": (options.endpoint or "").startswith("http:"),
    }
    try:
        return Clients(
            *(
                make(
                    config=given,
                    client_options=client_options,
                    retry_config={"max_retries": retries},
                )
                for retries in (0, options.retries)
            )
        )
    except CLIENT_ERRORS as error:
        raise ConfigError(f"the store cannot be opened: {reason_of(error)}") from error
