"""Cursors for listings that only move forward, such as those of local folders and obstore."""

from __future__ import annotations

import threading
from typing import NamedTuple, Protocol

import pyarrow as pa

from lakesweep.errors import LakesweepError
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
