"""Repositories as their server tells of them, through lakeFS' own client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from lakesweep.errors import (
    ConfigError,
    DamagedError,
    DeniedError,
    MissingError,
    StorageError,
    UnavailableError,
)
from lakesweep.lakefs.dumps import RefsDump

Answer = TypeVar("Answer")

_API = "/api/v1"
_KEY_NAMES = ("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY")
#: What a user needs, on the repository.
_RIGHTS = "fs:ReadRepository, fs:ListBranches, fs:ListTags, fs:ListCommits, fs:ReadCommit and \
fs:ListObjects"
_WHERE = "see that a lakeFS server answers there; LAKECTL_SERVER_ENDPOINT_URL, or the endpoint of \
the lakeFS root, says where it is"
_PAGE_ROWS = 1000
#: What a server says that may say something else a moment later.
_PASSING = (429, 500, 502, 503, 504)
#: For how long to wait for a connection, and then for each piece of an answer.
_TIMEOUT_SECONDS = (30, 120)
#: A dump of a large repository is written before the answer comes.
_DUMP_TIMEOUT_SECONDS = (30, 1800)


@dataclass(frozen=True, slots=True)
class Access:
    """Where a server is, and as whom it is asked."""

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)

    @property
    def url(self) -> str:
        """Where its API begins."""
        bare = self.endpoint.rstrip("/")
        return bare if bare.endswith(_API) else bare + _API


def access_from(environment: Mapping[str, str], endpoint: str | None = None) -> Access:
    """Take what is not said from where lakeFS' own tools have it; ConfigError where it is not."""
    endpoint = endpoint or environment.get("LAKECTL_SERVER_ENDPOINT_URL")
    if not endpoint:
        raise ConfigError(
            "no lakeFS server is configured",
            hint="set LAKECTL_SERVER_ENDPOINT_URL, or give the address of a storage namespace",
        )
    if urlsplit(endpoint).scheme not in {"http", "https"}:
        bare = endpoint.rpartition("://")[2]
        raise ConfigError(
            f"the endpoint {endpoint!r} is no http or https address",
            hint=f"write it as https://{bare}, or as http://{bare} where it has no certificate",
        )
    missing = [name for name in _KEY_NAMES if not environment.get(name)]
    if missing:
        raise ConfigError(
            f"the lakeFS server {endpoint} needs credentials",
            hint=f"set {' and '.join(missing)}",
        )
    return Access(endpoint, *(environment[name] for name in _KEY_NAMES))


class RepositoryRecord(msgspec.Struct, frozen=True):
    """What a server says of a repository."""

    id: str
    storage_namespace: str


class RefRecord(msgspec.Struct, frozen=True):
    """What a server says of a branch or a tag."""

    id: str
    commit_id: str


class CommitRecord(msgspec.Struct, frozen=True):
    """What is needed of a commit."""

    id: str
    meta_range_id: str


class ObjectRecord(msgspec.Struct, frozen=True):
    """What a server lists of an object."""

    path: str
    physical_address: str
    checksum: str
    mtime: int
    size_bytes: int = 0


class _Pagination(msgspec.Struct, frozen=True):
    has_more: bool
    next_offset: str


class _Refs(msgspec.Struct, frozen=True):
    pagination: _Pagination
    results: list[RefRecord]


class _Objects(msgspec.Struct, frozen=True):
    pagination: _Pagination
    results: list[ObjectRecord]


class Server:
    """The few calls of a lakeFS server that are of use here. Can be pickled, and shared.

    All of them only read, but for the dump of refs, which lets the server write files that say
    what is so already.
    """

    def __init__(self, access: Access) -> None:
        self.access = access

    def __getstate__(self) -> Access:
        return self.access

    def __setstate__(self, access: Access) -> None:
        self.access = access

    @cached_property
    def _client(self) -> Any:
        settings = _sdk("configuration").Configuration(
            host=self.access.url,
            username=self.access.access_key_id,
            password=self.access.secret_access_key,
        )
        settings.retries = _retries()
        return _sdk("client").LakeFSClient(settings)

    def repository(self, name: str) -> RepositoryRecord:
        """One repository."""
        return self._ask(
            RepositoryRecord,
            f"repository {name}",
            lambda: self._client.repositories_api.get_repository_with_http_info(name, **_RAW),
        )

    def branches(self, repository: str, *, hidden: bool) -> Iterator[RefRecord]:
        """All branches, without or with those that are hidden."""
        call = self._client.branches_api.list_branches_with_http_info
        return self._all_refs(f"branches of {repository}", call, repository, show_hidden=hidden)

    def dump_refs(self, repository: str) -> RefsDump:
        """Have all refs written down as they are now: tags, branches, then commits.

        A dump in the background would have commits first, and may lack those of its HEADs.
        """
        return self._ask(
            RefsDump,
            f"refs of {repository}",
            lambda: self._client.internal_api.dump_refs_with_http_info(repository, **_RAW_DUMP),
        )

    def commit(self, repository: str, id_: str) -> CommitRecord:
        """One commit."""
        call = self._client.commits_api.get_commit_with_http_info
        return self._ask(CommitRecord, f"commit {id_}", lambda: call(repository, id_, **_RAW))

    def objects(self, repository: str, ref: str) -> Iterator[list[ObjectRecord]]:
        """What a branch or a commit shows, staged changes included, page by page in order."""
        call = self._client.objects_api.list_objects_with_http_info
        what = f"objects of {repository}/{ref}"

        def ask(after: str) -> _Objects:
            asked = {"after": after, "amount": _PAGE_ROWS, "presign": False, "user_metadata": False}
            return self._ask(_Objects, what, lambda: call(repository, ref, **asked, **_RAW))

        return (page.results for page in _pages(what, ask))

    def metadata(self, repository: str, id_: str, kind: str) -> bytes:
        """The file of a `range` or a `meta_range`."""
        call = self._client.internal_api.get_metadata_object_with_http_info
        return self._bytes(f"{kind} {id_}", lambda: call(repository, id_, kind, **_RAW))

    def _all_refs(
        self, what: str, call: Callable[..., Any], repository: str, **asked: Any
    ) -> Iterator[RefRecord]:
        def ask(after: str) -> _Refs:
            wanted = {"after": after, "amount": _PAGE_ROWS, **asked}
            return self._ask(_Refs, what, lambda: call(repository, **wanted, **_RAW))

        return (ref for page in _pages(what, ask) for ref in page.results)

    def _ask(self, kind: type[Answer], what: str, call: Callable[[], Any]) -> Answer:
        try:
            return msgspec.json.decode(self._bytes(what, call), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DamagedError(
                f"{self.access.endpoint} {what}", f"no such answer: {error}", hint=_WHERE
            ) from None

    def _bytes(self, what: str, call: Callable[[], Any]) -> bytes:
        from urllib3.exceptions import HTTPError

        refusal = _sdk("exceptions").ApiException

        path = f"{self.access.endpoint} {what}"
        try:
            return bytes(call().raw_data)
        except refusal as error:
            raise _translated(path, error) from error
        except HTTPError as error:
            cause = getattr(error, "reason", None) or error
            raise UnavailableError(path, str(cause), hint=_WHERE) from error


def _sdk(name: str) -> Any:
    """A module of lakeFS' own client, which not everybody needs."""
    try:
        return import_module(f"lakefs_sdk.{name}")
    except ImportError as error:
        raise ConfigError(
            "lakeFS servers are asked through lakefs-sdk, which is not installed",
            hint="pip install 'lakesweep[lakefs]'",
        ) from error


def _retries() -> Any:
    """All calls may be repeated: they read, or have written what is so already."""
    from urllib3 import Retry

    return Retry(
        total=4,
        backoff_factor=0.1,
        status_forcelist=_PASSING,
        allowed_methods=None,
        raise_on_status=False,
    )


#: What servers put in place of bytes that are no text: there the next page would not begin.
_NO_TEXT = "\N{REPLACEMENT CHARACTER}"

#: Answers come as they are: lakeFS' own client would make objects of each row.
_RAW: Mapping[str, Any] = {"_preload_content": False, "_request_timeout": _TIMEOUT_SECONDS}
_RAW_DUMP: Mapping[str, Any] = {**_RAW, "_request_timeout": _DUMP_TIMEOUT_SECONDS}


def _pages(what: str, ask: Callable[[str], Any]) -> Iterator[Any]:
    after = ""
    while True:
        page = ask(after)
        yield page
        if not page.pagination.has_more:
            return
        if page.pagination.next_offset <= after:
            raise DamagedError(what, "the server goes round in circles")
        after = page.pagination.next_offset
        if _NO_TEXT in after:
            raise DamagedError(
                what,
                f"a page ends with {after!r}, which is no text: what follows cannot be asked for",
                hint="delete that path on the branch, or give it another name",
            )


def _translated(path: str, error: Any) -> Exception:
    reason = f"{error.status} {error.reason}: {_message(error.body)}"
    match error.status:
        case 404:
            return MissingError(path, reason)
        case 401:
            return DeniedError(path, reason, hint=f"set {' and '.join(_KEY_NAMES)} to a key of it")
        case 403:
            return DeniedError(
                path, reason, hint=f"grant {_RIGHTS}, or use the key of another user"
            )
        case status if status == 0 or status >= 500:
            return UnavailableError(path, reason)
    return StorageError(path, reason)


def _message(body: Any) -> str:
    try:
        return str(msgspec.json.decode(body or "{}").get("message", ""))
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return "no answer of a lakeFS server"
