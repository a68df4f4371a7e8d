"""Cursors: where a listing continues, and how one that never ends is noticed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import InexactKeyError, LakesweepError, StorageError
from lakesweep.storage.object_store import ListingPage


class ListingStep(NamedTuple):
    """The result of one step of a listing."""

    entries: pa.RecordBatch
    folders: tuple[str, ...]
    is_last: bool


class ListingSteps(Protocol):
    """A listing in progress. An error ends it."""

    def step(self) -> ListingStep: ...


class Cursor:
    """A position in a listing, which returns the page that starts there.

    The underlying steps only move forward, so the cursor remembers its page and a repeated call
    returns the same one. Otherwise a retry after a lost response would skip a page, and files on a
    skipped page would look absent.
    """

    def __init__(self, steps: ListingSteps) -> None:
        self._steps = steps
        self._lock = threading.Lock()
        self._answer: ListingPage | LakesweepError | None = None

    def page(self) -> ListingPage:
        with self._lock:
            if self._answer is None:
                self._answer = self._ask()
        if isinstance(self._answer, LakesweepError):
            raise self._answer
        return self._answer

    def _ask(self) -> ListingPage | LakesweepError:
        try:
            entries, folders, is_last = self._steps.step()
        except LakesweepError as error:
            # The error is kept like a page: a retry must not step on past what failed.
            return error
        return ListingPage(entries, folders, None if is_last else Cursor(self._steps))


def page_at(cursor: object) -> ListingPage:
    """The page of a cursor that a caller handed back."""
    if not isinstance(cursor, Cursor):
        raise TypeError("the cursor belongs to another store")
    return cursor.page()


#: Stores may send pages without names, after many deletes for example, but not without end.
_MOST_EMPTY_PAGES = 1_000


@dataclass(frozen=True, slots=True)
class PageToken:
    """Where a listing by tokens continues; `last` is the greatest key before that.

    A listing that repeats itself is noticed in constant memory: one token and one name are
    remembered, and replaced whenever the number of pages has doubled. So a cycle of any length is
    found before it has been read three times.
    """

    token: str
    last: str = ""
    pages: int = 1
    empty_pages: int = 0
    known: tuple[str, str | None] = ("", None)


@dataclass(frozen=True, slots=True)
class TokenListRequest:
    """What to list in a bucket or container, whose addresses start with `base`, by tokens."""

    base: str
    prefix: str
    one_level: bool
    after: str

    @property
    def path(self) -> str:
        return self.base + self.prefix

    def filters(self) -> dict[str, str]:
        """The parameters that say what to list, which all services call the same."""
        filters = {"prefix": self.prefix} if self.prefix else {}
        return filters | ({"delimiter": "/"} if self.one_level else {})

    def check_names(self, names: Iterable[str]) -> None:
        """InexactKeyError for a name that was not asked for: it may be another key's, changed."""
        for name in names:
            if not name or not name.startswith(self.prefix):
                reason = f"was listed but does not start with {self.prefix!r}"
                raise InexactKeyError(self.base + name, reason)

    def entries_after(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """The entries behind `after`, for services that cannot start there exactly."""
        return entries.filter(pc.greater(entries["key"], self.after)) if self.after else entries

    def folders_after(self, folders: Iterable[str]) -> tuple[str, ...]:
        """The folders that can have keys behind `after`."""
        return tuple(each for each in folders if each > self.after or self.after.startswith(each))


def next_page(
    path: str, before: PageToken | None, token: str, names: Sequence[str], last: str
) -> PageToken:
    """The token after a page with these names; StorageError if the listing does not move on."""
    first = names[0] if names else None
    if before is None:
        return PageToken(token, last, known=(token, first), empty_pages=0 if names else 1)
    empty_pages = 0 if names else before.empty_pages + 1
    repeats = before.known[0] == token or (first is not None and before.known[1] == first)
    if repeats or before.token == token or empty_pages > _MOST_EMPTY_PAGES:
        raise StorageError(
            path,
            f"the listing does not end: page {before.pages + 1:,} continues where an earlier one "
            "did, or nothing comes any more",
            hint="the server is faulty; list the folder with another tool, and update the server",
        )
    pages = before.pages + 1
    is_power_of_two = pages & (pages - 1) == 0
    known = (token, first) if is_power_of_two else before.known
    return PageToken(token, last, pages, empty_pages, known)
