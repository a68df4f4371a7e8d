"""Follow a realm: every commit of every reference, each once, in pages.

A page ends with a cursor. It holds a moment, and the last commit of each reference that changed
since: so it stays short however many references a realm has. A reference that is not in it is read
from that moment on. The moment lies some minutes behind the clock, so that commits of writers
whose clocks differ less than that are not missed.
"""

from __future__ import annotations

import base64
import heapq
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeAlias

import msgspec

from lakesweep.app import App
from lakesweep.clock import micros, moment
from lakesweep.decoding import typed_msgpack
from lakesweep.errors import ReferenceMissingError, UsageError
from lakesweep.operations.store.log import ChangeView, CommitView, open_realm
from lakesweep.store import Commit, Realm, Stored
from lakesweep.store.commits.commit import fetch_commits

_PAGE = 100
#: Writers' clocks differ by less than this.
_SKEW = timedelta(minutes=5)
_LONGEST_CURSOR = 1 << 20

_Found: TypeAlias = tuple[str, Stored[Commit]]


@dataclass(frozen=True, slots=True)
class ReadChangesRequest:
    """The commits after a cursor, or since a moment; without either, all that the logs hold."""

    since: str | datetime | None = None
    limit: int = _PAGE
    realm: str | None = None


class RealmChange(CommitView, frozen=True, kw_only=True):
    """One commit, and the reference that it moved."""

    reference: str


class ChangePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some commits, and the cursor to go on from. `more` says that there are more already."""

    changes: tuple[RealmChange, ...]
    next: str
    more: bool


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a follower is: `since` in microseconds, and the last commits since then."""

    since: int | None = None
    seen: dict[str, int] = {}

    def text(self) -> str:
        packed = zlib.compress(msgspec.msgpack.encode(self))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> _Cursor:
        try:
            given = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            content = zlib.decompressobj().decompress(given, _LONGEST_CURSOR)
            return typed_msgpack(content, cls)
        except (ValueError, zlib.error, msgspec.MsgspecError):
            raise UsageError(
                f"{text[:40]!r} is no cursor of changes", hint="use `next` of an earlier page"
            ) from None


def read_changes(app: App, request: ReadChangesRequest) -> ChangePage:
    """One page, oldest first. LogCutError if a log no longer reaches back to the cursor."""
    realm, now = open_realm(app, request.realm), app.clock.now()
    before = _start(request.since)
    found = list(islice(_commits(realm, before), request.limit + 1))
    page, more = found[: request.limit], len(found) > request.limit
    seen = {**before.seen, **{name: commit.id for name, commit in page}}
    after = _Cursor(before.since, seen)
    if not more:
        after = _shortened(realm, after, micros(now - _SKEW))
    return ChangePage(
        changes=tuple(_view(name, commit) for name, commit in page), next=after.text(), more=more
    )


def _start(since: str | datetime | None) -> _Cursor:
    match since:
        case None:
            return _Cursor()
        case datetime():
            return _Cursor(micros(since))
        case _:
            return _Cursor.parse(since)


def _commits(realm: Realm, before: _Cursor) -> Iterator[_Found]:
    """The commits of all references, by time; those of one reference in their order."""
    logs = [_log(realm, name, before) for name in _changed(realm, before)]
    return heapq.merge(*logs, key=lambda found: (found[1].value.committed_at, found[1].id))


def _changed(realm: Realm, before: _Cursor) -> Iterator[str]:
    """The references that may have commits after the cursor, by their heads."""
    references = realm.references.list()
    while page := list(islice(references, _PAGE)):
        ahead = {
            each.pointer: each.name
            for each in page
            if each.pointer is not None and each.pointer != before.seen.get(each.name)
        }
        heads = fetch_commits(realm.objects, list(ahead))
        old = {head.id for head in heads if head is not None and _is_old(head, before)}
        yield from (name for pointer, name in ahead.items() if pointer not in old)


def _is_old(head: Stored[Commit], before: _Cursor) -> bool:
    return before.since is not None and head.value.committed_at < before.since


def _log(realm: Realm, name: str, before: _Cursor) -> Iterator[_Found]:
    seen = before.seen.get(name)
    start = None if before.since is None else moment(before.since)
    try:
        for commit in realm.log(name, start if seen is None else seen, oldest_first=True):
            yield name, commit
    except ReferenceMissingError:
        return  # it was deleted meanwhile, with its log


def _shortened(realm: Realm, cursor: _Cursor, since: int) -> _Cursor:
    """The same cursor once everything was read: what lies far behind need not be remembered."""
    since = max(cursor.since or 0, since)
    commits = fetch_commits(realm.objects, list(cursor.seen.values()))
    times = {commit.id: commit.value.committed_at for commit in commits if commit is not None}
    recent = {name: number for name, number in cursor.seen.items() if times.get(number, 0) >= since}
    return _Cursor(since, recent)


def _view(name: str, stored: Stored[Commit]) -> RealmChange:
    commit = stored.value
    return RealmChange(
        reference=name,
        commit=str(stored.id),
        seq=commit.seq,
        committed=moment(commit.committed_at),
        author=commit.author,
        message=commit.message,
        changes=tuple(map(ChangeView.of, commit.changes)),
    )
