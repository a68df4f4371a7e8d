"""Split a folder into key ranges that threads or executors list independently.

The upper bound of one split is the lower bound of the next, so splits are disjoint and
complete whatever keys exist, including keys created later. The choice of bounds only affects how
even the splits are; a bad choice costs time, never a key.

Bounds are chosen among folders first: one request lists up to a page of them. A level that does not
fit on one page, such as a flat folder of a million keys or 300,000 small folders, is split by
characters: a few listings that start at made-up keys find where the keys first differ, and by which
characters. This needs a store that lists in order. A local folder with many files is split at some
of its names.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import MissingError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import ListingPage, ObjectStore
from lakesweep.storage.wrappers.base import BoundedReads
from lakesweep.storage.wrappers.load_limit import LoadLimited
from lakesweep.storage.wrappers.retry import Retrying

#: Sorts after every other character, by code point and so in UTF-8 too.
_LAST = "\U0010ffff"
#: Without ordered listings, each part rereads the direct files of the levels that it was cut from.
_MAX_FILES_REREAD = 1_000
#: Each part of a large local folder reads all of its names, so there are few parts.
_SLICES = 4
#: Wrappers that a local listing may pass by.
_TRANSPARENT = (Retrying, BoundedReads, LoadLimited)


@dataclass(frozen=True, slots=True)
class Split:
    """All keys that start with `prefix`, are greater than `after` and at most `until`.

    An empty bound means no bound. Keys are compared by code point, which is the order of their
    UTF-8 bytes.
    """

    prefix: str
    after: str = ""
    until: str = ""

    @property
    def is_bounded(self) -> bool:
        return bool(self.after or self.until)

    def holds(self, key: str) -> bool:
        """Whether a key that starts with the prefix is within the bounds."""
        return key > self.after and (not self.until or key <= self.until)

    def touches(self, folder: str) -> bool:
        """Whether a key below `folder` can be within the bounds."""
        begins_in_time = not self.until or folder <= self.until
        return begins_in_time and (folder > self.after or self.after.startswith(folder))

    def covers(self, folder: str) -> bool:
        """Whether every key below `folder` is within the bounds."""
        ends_in_time = not self.until or (folder < self.until and not self.until.startswith(folder))
        return ends_in_time and folder > self.after

    def cut(self, bounds: Iterable[str]) -> list[Split]:
        """The same keys in parts, cut after each of the bounds that are inside."""
        inside = sorted({bound for bound in bounds if self.holds(bound) and bound != self.until})
        edges = pairwise([self.after, *inside, self.until])
        return [Split(self.prefix, after, until) for after, until in edges]


def split(
    store: ObjectStore, prefix: str, parts: int, *, max_requests: int | None = None
) -> list[Split]:
    """At most `parts` splits that together are exactly the folder `prefix`, in ascending order.

    Fewer if the folder is small, or once `max_requests` (16 per part by default) are used up.
    """
    return divide(
        store, Split(prefix), parts, max_parts=parts, max_requests=max_requests or 16 * parts
    )


def divide(
    store: ObjectStore,
    whole: Split,
    parts: int,
    *,
    max_parts: int,
    max_requests: int,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[Split]:
    """`whole` in parts, none of which is likely to hold more than one in `parts` of the keys.

    Finer parts found on the way are kept, up to `max_parts`. Once `max_requests` are used up, or
    `is_stopped`, no more requests are made and the parts stay as they are.
    """
    planner = _Planner(store, whole, max_requests, is_stopped)
    return _join(planner.pieces(parts), max_parts)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A range, its estimated share of all keys, and the folder in which it may be cut further."""

    span: Split
    folder: str
    share: float = 1.0
    is_flat: bool = False
    is_final: bool = False

    def finished(self, *, share: float = 0.0) -> _Piece:
        """The same piece, not to be cut further; one that fits on a page has a negligible share."""
        return replace(self, share=share, is_final=True)

    @property
    def start(self) -> str:
        """Where listing the piece inside its folder starts."""
        return self.span.after if self.span.after.startswith(self.folder) else ""


class _Planner:
    """Repeatedly cuts the piece with the largest share."""

    def __init__(
        self, store: ObjectStore, whole: Split, max_requests: int, is_stopped: Callable[[], bool]
    ) -> None:
        self._store = store
        self._root = _Piece(whole, whole.prefix)
        self._requests_left = max_requests
        self._is_stopped = is_stopped

    def pieces(self, parts: int) -> list[_Piece]:
        """Pieces in ascending order, until none exceeds its fair share."""
        final: list[_Piece] = []
        heap = [(-self._root.share, self._root.span.after, self._root)]
        total = self._root.share
        while heap and -heap[0][0] > total / parts and self._may_ask():
            piece = heapq.heappop(heap)[2]
            total -= piece.share
            for part in self._cut(piece):
                total += part.share
                if part.is_final:
                    final.append(part)
                else:
                    heapq.heappush(heap, (-part.share, part.span.after, part))
        return sorted([*final, *(entry[2] for entry in heap)], key=lambda piece: piece.span.after)

    def _cut(self, piece: _Piece) -> list[_Piece]:
        return self._cut_flat(piece) if piece.is_flat else self._cut_level(piece)

    def _cut_level(self, piece: _Piece) -> list[_Piece]:
        try:
            page = self._list(piece.folder, one_level=True)
        except MissingError:
            if piece is self._root:
                raise
            return [piece.finished()]
        if self._store.capabilities.ordered:
            if page.next is not None:
                return [replace(piece, is_flat=True)]
        elif page.entries.num_rows > _MAX_FILES_REREAD:
            return self._cut_sample(piece, page)
        return _by_folders(piece, [name for name in page.folders if piece.span.touches(name)])

    def _cut_sample(self, piece: _Piece, page: ListingPage) -> list[_Piece]:
        """Cut a level with many files at some of its names, if names alone are cheap."""
        if local_store_of(self._store) is None:
            return [piece.finished(share=piece.share)]
        names = [*page.entries.column("key").to_pylist(), *(name[:-1] for name in page.folders)]
        inside = sorted(name for name in names if piece.span.holds(name))
        bounds = [inside[len(inside) * part // _SLICES] for part in range(1, _SLICES) if inside]
        spans = piece.span.cut(bounds)
        share = piece.share / len(spans)
        return [replace(piece, span=span, share=share, is_final=True) for span in spans]

    def _cut_flat(self, piece: _Piece) -> list[_Piece]:
        page = self._list(piece.folder, after=piece.start)
        keys = _inside(page, piece.span)
        if page.next is None or len(keys) < page.entries.num_rows:
            return [piece.finished()]
        if not keys:
            return [piece.finished(share=piece.share)]
        position = self._first_difference(piece, keys[0].as_py(), keys[-1].as_py())
        bounds = self._character_bounds(piece, position, keys[-1].as_py())
        if not bounds:
            return [piece.finished(share=piece.share)]
        spans = piece.span.cut(bounds)
        return [replace(piece, span=span, share=piece.share / len(spans)) for span in spans]

    def _first_difference(self, piece: _Piece, first: str, last: str) -> int:
        """The length of the common prefix of all keys of the piece.

        `first` is the first key, and `last` another known one.
        """
        low, high = len(piece.folder), _shared_length(first, last)
        while low < high and self._may_ask():
            middle = (low + high + 1) // 2
            if self._keys_behind(piece, max(last, first[:middle] + _LAST)):
                high = middle - 1
            else:
                low = middle
        return low

    def _character_bounds(self, piece: _Piece, position: int, key: str) -> list[str]:
        """A bound after each character that keys have at `position`, except the last one."""
        bounds: list[str] = []
        while self._may_ask():
            # A key may itself contain the last character; the larger of the two still advances.
            bound = max(key, key[: position + 1] + _LAST) if len(key) > position else key
            keys = self._keys_behind(piece, bound)
            if not keys:
                break
            bounds.append(bound)
            key = keys[-1].as_py()
        return bounds

    def _keys_behind(self, piece: _Piece, bound: str) -> pa.Array:
        return _inside(self._list(piece.folder, after=bound), piece.span)

    def _may_ask(self) -> bool:
        return self._requests_left > 0 and not self._is_stopped()

    def _list(self, folder: str, *, one_level: bool = False, after: str = "") -> ListingPage:
        self._requests_left -= 1
        return self._store.list(folder, one_level=one_level, after=after)


def local_store_of(store: ObjectStore) -> LocalStore | None:
    """The local file system behind a store, if only retries and limits wrap it."""
    while isinstance(store, _TRANSPARENT):
        store = store.store
    return store if isinstance(store, LocalStore) else None


def _by_folders(piece: _Piece, folders: Sequence[str]) -> list[_Piece]:
    """One piece for each folder, including the direct files before the next one."""
    if not folders:
        return [piece.finished()]
    first, *others = sorted(folders)
    spans = piece.span.cut(name[:-1] for name in others)
    names = [first, *(span.after + "/" for span in spans[1:])]
    share = piece.share / len(spans)
    return [_Piece(span, name, share) for span, name in zip(spans, names, strict=True)]


def _inside(page: ListingPage, span: Split) -> pa.Array:
    """The keys of an ordered page, up to the end of the span."""
    keys = page.entries.column("key")
    if not span.until or not len(keys) or keys[-1].as_py() <= span.until:
        return keys
    return keys.filter(pc.less_equal(keys, span.until))


def _shared_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _join(pieces: Sequence[_Piece], parts: int) -> list[Split]:
    """Neighbours combined so that each part gets about the same share."""
    total = sum(piece.share for piece in pieces) or 1.0
    numbered: list[tuple[int, Split]] = []
    before = 0.0
    for piece in pieces:
        middle = (before + piece.share / 2) / total
        numbered.append((min(parts - 1, int(middle * parts)), piece.span))
        before += piece.share
    groups = [[span for _, span in group] for _, group in groupby(numbered, lambda pair: pair[0])]
    return [Split(group[0].prefix, group[0].after, group[-1].until) for group in groups]
