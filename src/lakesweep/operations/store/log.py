"""Read the log of the store: the commits of a reference, or all references of a realm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import msgspec

from lakesweep.app import App
from lakesweep.clock import moment
from lakesweep.errors import DamagedError, StoreError, UsageError, WrongTypeError
from lakesweep.store import Change, Commit, Realm, Stored
from lakesweep.store.backends.rows import MAX_NAME_BYTES, Reference
from lakesweep.store.commits.commit import fetch_commits
from lakesweep.store.index.keys import decode
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.reserved_names import SYSTEM_REALM

_PAGE = 100


@dataclass(frozen=True, slots=True)
class ReadLogRequest:
    """The commits of a reference, newest first by default.

    `since` is a commit id or a time; only commits after it are read. No realm is the configured
    one.
    """

    reference: str
    realm: str | None = None
    since: int | datetime | None = None
    oldest_first: bool = False
    limit: int | None = None


class ChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a commit; the key is readable, and exact in hexadecimal."""

    action: str
    key: str
    key_hex: str
    before: str | None

    @classmethod
    def of(cls, change: Change) -> ChangeView:
        return cls(
            action=change.action,
            key=readable_key(change.key),
            key_hex=change.key.hex(),
            before=None if change.before is None else readable_key(change.before),
        )


class CommitView(msgspec.Struct, frozen=True, kw_only=True):
    """One commit. Its id is text, because many JSON parsers cannot hold such large numbers."""

    commit: str
    seq: int
    committed: datetime
    author: str
    message: str
    changes: tuple[ChangeView, ...]

    @classmethod
    def of(cls, stored: Stored[Commit]) -> CommitView:
        commit = stored.value
        return cls(
            commit=str(stored.id),
            seq=commit.seq,
            committed=moment(commit.committed_at),
            author=commit.author,
            message=commit.message,
            changes=tuple(ChangeView.of(change) for change in commit.changes),
        )


class ReferenceView(msgspec.Struct, frozen=True, kw_only=True):
    """One reference and its head; `problem` says why the head cannot be read."""

    reference: str
    head: str | None
    seq: int | None = None
    committed: datetime | None = None
    problem: str | None = None

    @classmethod
    def of(cls, reference: Reference, head: Stored[Commit] | None) -> ReferenceView:
        """The view of an intact reference; `head` is None if it does not point to a commit."""
        pointer = None if reference.pointer is None else str(reference.pointer)
        if head is None:
            return cls(reference=reference.name, head=pointer)
        return cls(
            reference=reference.name,
            head=pointer,
            seq=head.value.seq,
            committed=moment(head.value.committed_at),
        )


def read_log(app: App, request: ReadLogRequest) -> Iterator[CommitView]:
    """The commits of a reference. IncompleteError if the log no longer reaches back to `since`."""
    check_reference(request.reference)
    realm = open_realm(app, request.realm)
    commits = realm.log(request.reference, request.since, oldest_first=request.oldest_first)
    return map(CommitView.of, islice(commits, request.limit))


def list_references(
    app: App, realm: str | None = None, *, limit: int | None = None
) -> Iterator[ReferenceView]:
    """All references of a realm, in pages. An unreadable head is a `problem`, not an error."""
    return islice(_read_references(open_realm(app, realm)), limit)


def open_realm(app: App, name: str | None) -> Realm:
    """A realm to inspect or repair: active, inactive, or the system's own."""
    name = app.config.store.realm if name is None else name
    if name == SYSTEM_REALM:
        return app.store.system
    return app.store.realm_in(name, {RealmStatus.ACTIVE, RealmStatus.INACTIVE})


def check_reference(name: str) -> None:
    """UsageError if this cannot be the name of a reference."""
    try:
        is_valid = 1 <= len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise UsageError(
            f"{name[:50]!r} cannot be the name of a reference",
            hint=f"use 1 to {MAX_NAME_BYTES:,} bytes of UTF-8 text",
        )


def readable_key(key: bytes) -> str:
    """A key for people: its components if it has any, else its text, else hexadecimal."""
    try:
        return "/".join(c.hex() if isinstance(c, bytes) else str(c) for c in decode(key))
    except DamagedError:
        return _as_text(key) or f"0x{key.hex()}"


def _as_text(key: bytes) -> str | None:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def _read_references(realm: Realm) -> Iterator[ReferenceView]:
    references = realm.references.list()
    while page := list(islice(references, _PAGE)):
        heads = _fetch_page(realm, page)
        for each in page:
            head = None if each.pointer is None else heads.get(each.pointer)
            yield _inspect(realm, each) if head is None else ReferenceView.of(each, head)


def _fetch_page(realm: Realm, page: Sequence[Reference]) -> Mapping[int, Stored[Commit]]:
    pointers = [each.pointer for each in page if each.pointer is not None]
    try:
        return {head.id: head for head in fetch_commits(realm.objects, pointers) if head}
    except StoreError:
        return {}  # one bad head fails the whole page; each is then read on its own


def _inspect(realm: Realm, reference: Reference) -> ReferenceView:
    """The view of one reference, whatever is wrong with it."""
    if reference.pointer is None:
        return ReferenceView.of(reference, None)
    try:
        [head] = fetch_commits(realm.objects, [reference.pointer])
    except WrongTypeError:
        return ReferenceView.of(reference, None)  # it points to something other than a commit
    except StoreError as error:
        return _broken(reference, error.message)
    return (
        _broken(reference, "the head is missing")
        if head is None
        else ReferenceView.of(reference, head)
    )


def _broken(reference: Reference, problem: str) -> ReferenceView:
    return ReferenceView(reference=reference.name, head=str(reference.pointer), problem=problem)
