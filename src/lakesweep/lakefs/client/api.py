"""The calls of a lakeFS server that Lakesweep uses, through lakefs-sdk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import Any, TypeVar

import msgspec

from lakesweep.decoding import typed_json
from lakesweep.errors import (
    ConfigError,
    DamagedError,
    DeniedError,
    MissingError,
    StorageError,
    UnavailableError,
)
from lakesweep.lakefs.client.access import CREDENTIAL_VARIABLES, ServerAccess
from lakesweep.lakefs.refs.dumps import RefsDump
from lakesweep.paging import PageTrail
from lakesweep.redaction import masked
from lakesweep.untrusted.documents import JSON_ERRORS

Answer = TypeVar("Answer")


#: The permissions that a user needs on the repository.
_RIGHTS = "fs:ReadRepository, fs:ListBranches, fs:ListTags, fs:ListCommits, fs:ReadCommit and \
fs:ListObjects"
_WHERE = (
    "check that a lakeFS server answers there; LAKECTL_SERVER_ENDPOINT_URL, or the endpoint of \
the lakeFS root, says where it is"
)
_PAGE_ROWS = 1000
#: Retryable status codes.
_PASSING = (429, 500, 502, 503, 504)
#: Timeouts for connecting, and for each part of a response.
_TIMEOUT_SECONDS = (30, 120)
#: The server dumps a large repository, or commits many changes, before it responds.
_LONG_TIMEOUT_SECONDS = (30, 1800)

#: The most paths that one call may delete.
MOST_PATHS = 1000


class RepositoryRecord(msgspec.Struct, frozen=True):
    """A repository, as a server describes it."""

    id: str
    storage_namespace: str


class RefRecord(msgspec.Struct, frozen=True):
    """A branch or a tag, as a server describes it."""

    id: str
    commit_id: str


class CommitRecord(msgspec.Struct, frozen=True):
    """The fields of a commit that are used."""

    id: str
    meta_range_id: str
    parents: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}


class PathError(msgspec.Struct, frozen=True):
    """Why a path was not deleted."""

    status_code: int
    message: str
    path: str = ""


class _PathErrors(msgspec.Struct, frozen=True):
    errors: tuple[PathError, ...] = ()


class _Merged(msgspec.Struct, frozen=True):
    reference: str


class _Diff(msgspec.Struct, frozen=True):
    results: list[Any]


class ObjectRecord(msgspec.Struct, frozen=True):
    """An object, as a server lists it."""

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


class _Repositories(msgspec.Struct, frozen=True):
    pagination: _Pagination
    results: list[RepositoryRecord]


class _Objects(msgspec.Struct, frozen=True):
    pagination: _Pagination
    results: list[ObjectRecord]


class Server:
    """The calls of a lakeFS server that are used here. Can be pickled and shared.

    Most of them only read. A dump of refs makes the server write files that describe its present
    state. The calls that change branches come last; `branch_editor` makes them in the safe order.
    """

    def __init__(self, access: ServerAccess) -> None:
        self.access = access

    def __getstate__(self) -> ServerAccess:
        return self.access

    def __setstate__(self, access: ServerAccess) -> None:
        self.access = access

    @cached_property
    def _client(self) -> Any:
        return self._connect(_retries())

    @cached_property
    def _writer(self) -> Any:
        return self._connect(_write_retries())

    def _connect(self, retries: Any) -> Any:
        settings = _sdk("configuration").Configuration(
            host=self.access.url,
            username=self.access.access_key_id,
            password=self.access.secret_access_key,
        )
        settings.retries = retries
        return _sdk("client").LakeFSClient(settings)

    def repository(self, name: str) -> RepositoryRecord:
        """One repository."""
        return self._ask(
            RepositoryRecord,
            f"repository {name}",
            lambda: self._client.repositories_api.get_repository_with_http_info(name, **_RAW),
        )

    def repositories(self) -> Iterator[RepositoryRecord]:
        """All repositories of the server."""
        call = self._client.repositories_api.list_repositories_with_http_info

        def ask(after: str) -> _Repositories:
            wanted = {"after": after, "amount": _PAGE_ROWS}
            return self._ask(_Repositories, "repositories", lambda: call(**wanted, **_RAW))

        return (each for page in _pages("repositories", ask) for each in page.results)

    def branches(self, repository: str, *, hidden: bool) -> Iterator[RefRecord]:
        """All branches, without or with those that are hidden."""
        call = self._client.branches_api.list_branches_with_http_info
        return self._all_refs(f"branches of {repository}", call, repository, show_hidden=hidden)

    def branch(self, repository: str, name: str) -> RefRecord:
        """One branch."""
        call = self._client.branches_api.get_branch_with_http_info
        return self._ask(RefRecord, f"branch {name}", lambda: call(repository, name, **_RAW))

    def has_changes(self, repository: str, branch: str) -> bool:
        """Whether anything is staged on a branch."""
        call = self._client.branches_api.diff_branch_with_http_info
        what = f"changes of {repository}/{branch}"
        found = self._ask(_Diff, what, lambda: call(repository, branch, amount=1, **_RAW))
        return bool(found.results)

    def dump_refs(self, repository: str) -> RefsDump:
        """Dump all current refs: tags, branches, then commits.

        A dump in the background starts with commits, and may lack those of its HEADs.
        """
        return self._ask(
            RefsDump,
            f"refs of {repository}",
            lambda: self._client.internal_api.dump_refs_with_http_info(repository, **_RAW_LONG),
        )

    def commit(self, repository: str, id_: str) -> CommitRecord:
        """One commit."""
        call = self._client.commits_api.get_commit_with_http_info
        return self._ask(CommitRecord, f"commit {id_}", lambda: call(repository, id_, **_RAW))

    def objects(self, repository: str, ref: str) -> Iterator[list[ObjectRecord]]:
        """What a branch, with staged changes, or a commit shows, page by page in order."""
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

    def create_hidden_branch(self, repository: str, name: str, commit: str) -> None:
        """Create a branch on a commit; listings omit it unless asked."""
        said = _model("BranchCreation")(name=name, source=commit, hidden=True)
        call = self._writer.branches_api.create_branch_with_http_info
        self._bytes(f"branch {name}", lambda: call(repository, said, **_RAW))

    def delete_branch(self, repository: str, name: str) -> None:
        """Delete a branch and its staged changes; MissingError if there is none."""
        call = self._writer.branches_api.delete_branch_with_http_info
        self._bytes(f"branch {name}", lambda: call(repository, name, **_RAW))

    def delete_objects(
        self, repository: str, branch: str, paths: Sequence[str]
    ) -> tuple[PathError, ...]:
        """Stage deletes of at most MOST_PATHS paths; returns those that failed.

        Retries are safe: what does not exist counts as deleted.
        """
        said = _model("PathList")(paths=list(paths))
        call = self._client.objects_api.delete_objects_with_http_info
        what = f"objects of {repository}/{branch}"
        answered = self._ask(_PathErrors, what, lambda: call(repository, branch, said, **_RAW))
        return answered.errors

    def commit_changes(
        self, repository: str, branch: str, message: str, metadata: Mapping[str, str]
    ) -> CommitRecord:
        """Commit all staged changes of a branch. UnavailableError may mean that it was done."""
        said = _model("CommitCreation")(message=message, metadata=dict(metadata))
        call = self._writer.commits_api.commit_with_http_info
        what = f"commit on {repository}/{branch}"
        return self._ask(CommitRecord, what, lambda: call(repository, branch, said, **_RAW_LONG))

    def merge(
        self, repository: str, source: str, branch: str, message: str, metadata: Mapping[str, str]
    ) -> str:
        """Merge a commit into a branch; returns the new commit. Conflicts are refused.

        UnavailableError may mean that it was done.
        """
        said = _model("Merge")(message=message, metadata=dict(metadata))
        call = self._writer.refs_api.merge_into_branch_with_http_info
        what = f"merge into {repository}/{branch}"
        ask = partial(call, repository, source, branch, said, **_RAW_LONG)
        return self._ask(_Merged, what, ask).reference

    def revert_merge(self, repository: str, branch: str, commit: str) -> None:
        """Revert a merge on a branch, by another commit."""
        said = _model("RevertCreation")(ref=commit, parent_number=1)
        call = self._writer.branches_api.revert_branch_with_http_info
        self._bytes(f"revert of {commit}", lambda: call(repository, branch, said, **_RAW_LONG))

    def _all_refs(
        self, what: str, call: Callable[..., Any], repository: str, **asked: Any
    ) -> Iterator[RefRecord]:
        def ask(after: str) -> _Refs:
            wanted = {"after": after, "amount": _PAGE_ROWS, **asked}
            return self._ask(_Refs, what, lambda: call(repository, **wanted, **_RAW))

        return (ref for page in _pages(what, ask) for ref in page.results)

    def _ask(self, kind: type[Answer], what: str, call: Callable[[], Any]) -> Answer:
        try:
            return typed_json(self._bytes(what, call), kind)
        except JSON_ERRORS as error:
            raise DamagedError(
                f"{masked(self.access.endpoint)} {what}", f"no such answer: {error}", hint=_WHERE
            ) from None

    def _bytes(self, what: str, call: Callable[[], Any]) -> bytes:
        from urllib3.exceptions import HTTPError

        refusal = _sdk("exceptions").ApiException

        path = f"{masked(self.access.endpoint)} {what}"
        self.access.pace()
        try:
            return bytes(call().raw_data)
        except refusal as error:
            raise _translated(path, error) from error
        except HTTPError as error:
            cause = getattr(error, "reason", None) or error
            raise UnavailableError(path, str(cause), hint=_WHERE) from error


def _sdk(name: str) -> Any:
    """A module of lakeFS' own client, which is an optional dependency."""
    try:
        return import_module(f"lakefs_sdk.{name}")
    except ImportError as error:
        raise ConfigError(
            "lakeFS servers need the package lakefs-sdk, which is not installed",
            hint="pip install 'lakesweep[lakefs]'",
        ) from error


def _model(name: str) -> Any:
    """A request body, as lakeFS' own client has it."""
    return getattr(_sdk("models"), name)


def _write_retries() -> Any:
    """Retry only what never reached the server: nothing may be done twice."""
    from urllib3 import Retry

    return Retry(total=4, connect=4, read=0, redirect=0, status=0, other=0, backoff_factor=0.1)


def _retries() -> Any:
    """Retries for idempotent calls."""
    from urllib3 import Retry

    return Retry(
        total=4,
        backoff_factor=0.1,
        status_forcelist=_PASSING,
        allowed_methods=None,
        raise_on_status=False,
    )


#: What servers put in place of invalid text; the next page cannot start there.
_NO_TEXT = "\N{REPLACEMENT CHARACTER}"

#: Raw responses: lakeFS' own client would create an object per row.
_RAW: Mapping[str, Any] = {"_preload_content": False, "_request_timeout": _TIMEOUT_SECONDS}
_RAW_LONG: Mapping[str, Any] = {**_RAW, "_request_timeout": _LONG_TIMEOUT_SECONDS}


def _pages(what: str, ask: Callable[[str], Any]) -> Iterator[Any]:
    after, trail = "", PageTrail()
    while True:
        page = ask(after)
        yield page
        if not page.pagination.has_more:
            return
        if page.pagination.next_offset <= after:
            raise DamagedError(what, "the server returns the same page again")
        after = page.pagination.next_offset
        # A branch may have any number of entries, and so of pages.
        trail = trail.follow(after, found=bool(page.results), most_pages=None)
        if trail.problem:
            raise DamagedError(what, trail.problem)
        if _NO_TEXT in after:
            raise DamagedError(
                what,
                f"a page ends with {after!r}, which is not valid text, so the next page cannot"
                " be requested",
                hint="delete or rename that path on the branch",
            )


def _translated(path: str, error: Any) -> Exception:
    reason = f"{error.status} {error.reason}: {_message(error.body)}"
    match error.status:
        case 404:
            return MissingError(path, reason)
        case 401:
            return DeniedError(
                path, reason, hint=f"set {' and '.join(CREDENTIAL_VARIABLES)} to a key of it"
            )
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
    except (*JSON_ERRORS, AttributeError):
        return "not an answer of a lakeFS server"
