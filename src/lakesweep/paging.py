"""Notice that a paged listing does not end, in constant memory.

A server may repeat its pages, return empty ones or invent new ones for ever. A run that follows
it holds its lease for as long, so every client that follows pages asks here before the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

#: A server may skip what its caller may not see, so a few empty pages are normal.
MOST_IDLE_PAGES = 100
#: No catalog has as many pages in one listing, even with few names on each.
MOST_PAGES = 100_000


@dataclass(frozen=True, slots=True)
class PageTrail:
    """How far a listing has come, and why it must not be followed any further, if so.

    `anchor` is an earlier token, by which a cycle is noticed.
    """

    pages: int = 0
    idle: int = 0
    anchor: str | None = None
    problem: str | None = None

    def follow(self, token: str, *, found: bool, most_pages: int | None = MOST_PAGES) -> PageTrail:
        """The trail after a page that leads to this token; `found` says if it held anything new."""
        pages, idle = self.pages + 1, 0 if found else self.idle + 1
        # Brent's method: the anchor moves after 1, 2, 4, 8 … pages. Some day it is on the cycle, if
        # there is one, and stays long enough for the cycle to come round.
        anchor = token if pages & (pages - 1) == 0 else self.anchor
        return PageTrail(pages, idle, anchor, self._problem(token, pages, idle, most_pages))

    def _problem(self, token: str, pages: int, idle: int, most_pages: int | None) -> str | None:
        if token == self.anchor:
            return "the listing does not end: the same page token came twice"
        if idle >= MOST_IDLE_PAGES:
            return f"the listing does not end: {idle:,} pages in a row had nothing new"
        if most_pages is not None and pages >= most_pages:
            return f"the listing does not end: it has more than {most_pages:,} pages"
        return None
