"""The calls of a lakeFS server that Lakesweep uses, through lakefs-sdk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import Any, TypeVar

import msgspec

from lakesweep.errors import (
    ConfigError,
    DamagedError,
    DeniedError,
    MissingError,
    StorageError,
    UnavailableError,
)
from lakesweep.lakefs.refs.dumps import RefsDump
from lakesweep.lakefs.server.access import CREDENTIAL_VARIABLES, ServerAccess

Answer = TypeVar("Answer")


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
#: A dump of a large repository, or a commit of many changes, is written before the answer comes.
_LONG_TIMEOUT_SECONDS = (30, 1800)

#: So many paths may be deleted by one call.
MOST_PATHS = 1000


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


class _Repositories(msgspec.Struct, frozen=True):
    pagination: _Pagination
    results: list[RepositoryRecord]


class _Objects(msgspec.Struct, frozen=True):
    pagination: _Pagination
    results: list[ObjectRecord]


class Server:
    """The few calls of a lakeFS server that are of use here. Can be pickled, and shared.

    Most of them only read. The dump of refs lets the server write files that say what is so
    already. Those that change branches stand last; `editing` has them in the order that is safe.
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
        """Whether anything is staged on a branch that its HEAD does not say."""
        call = self._client.branches_api.diff_branch_with_http_info
        what = f"changes of {repository}/{branch}"
        found = self._ask(_Diff, what, lambda: call(repository, branch, amount=1, **_RAW))
        return bool(found.results)

    def dump_refs(self, repository: str) -> RefsDump:
        """Have all refs written down as they are now: tags, branches, then commits.

        A dump in the background would have commits first, and may lack those of its HEADs.
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

    def create_hidden_branch(self, repository: str, name: str, commit: str) -> None:
        """Make a branch on a commit that listings leave out unless asked."""
        said = _model("BranchCreation")(name=name, source=commit, hidden=True)
        call = self._writer.branches_api.create_branch_with_http_info
        self._bytes(f"branch {name}", lambda: call(repository, said, **_RAW))

    def delete_branch(self, repository: str, name: str) -> None:
        """Delete a branch and what is staged on it; MissingError where there is none."""
        call = self._writer.branches_api.delete_branch_with_http_info
        self._bytes(f"branch {name}", lambda: call(repository, name, **_RAW))

    def delete_objects(
        self, repository: str, branch: str, paths: Sequence[str]
    ) -> tuple[PathError, ...]:
        """Stage the deletes of paths, at most MOST_PATHS; those that failed are answered.

        It may be repeated, so it is. What is not there is deleted already.
        """
        said = _model("PathList")(paths=list(paths))
        call = self._client.objects_api.delete_objects_with_http_info
        what = f"objects of {repository}/{branch}"
        answered = self._ask(_PathErrors, what, lambda: call(repository, branch, said, **_RAW))
        return answered.errors

    def commit_changes(
        self, repository: str, branch: str, message: str, metadata: Mapping[str, str]
    ) -> CommitRecord:
        """Commit all that is staged on a branch. UnavailableError may mean that it was done."""
        said = _model("CommitCreation")(message=message, metadata=dict(metadata))
        call = self._writer.commits_api.commit_with_http_info
        what = f"commit on {repository}/{branch}"
        return self._ask(CommitRecord, what, lambda: call(repository, branch, said, **_RAW_LONG))

    def merge(
        self, repository: str, source: str, branch: str, message: str, metadata: Mapping[str, str]
    ) -> str:
        """Merge a commit into a branch; answers the new commit. Conflicts are refused.

        UnavailableError may mean that it was done.
        """
        said = _model("Merge")(message=message, metadata=dict(metadata))
        call = self._writer.refs_api.merge_into_branch_with_http_info
        what = f"merge into {repository}/{branch}"
        ask = partial(call, repository, source, branch, said, **_RAW_LONG)
        return self._ask(_Merged, what, ask).reference

    def revert_merge(self, repository: str, branch: str, commit: str) -> None:
        """Undo what a merge brought to a branch, by another commit."""
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


def _model(name: str) -> Any:
    """A body of a call, as lakeFS' own client has it."""
    return getattr(_sdk("models"), name)


def _write_retries() -> Any:
    """Only what never reached the server is sent again: nothing is to be done twice."""
    from urllib3 import Retry

    return Retry(total=4, connect=4, read=0, redirect=0, status=0, other=0, backoff_factor=0.1)


def _retries() -> Any:
    """Calls that may be repeated: they read, or have written what is so already."""
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
_RAW_LONG: Mapping[str, Any] = {**_RAW, "_request_timeout": _LONG_TIMEOUT_SECONDS}


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
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return "no answer of a lakeFS server"
