"""Update an index: collect changes, then write the stripes and descriptors that they touch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias, TypeVar

from lakesweep.store.index.block import REMOVED, Entry, Stored, weights
from lakesweep.store.index.index import Index, ReadableIndex, overlay
from lakesweep.store.index.keys import MAX_KEY_BYTES
from lakesweep.store.index.sorted_run import EMPTY, SortedRun, cut_evenly, cut_full, run_size
from lakesweep.store.index.tree import Child, NodeCache, Tree, children

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """How many bytes may be where.

    An index without stripes is embedded as a whole, up to `embedded`. One with stripes embeds no
    more than `buffer`, since every commit writes that again; the overflow moves to the pending run,
    and everything pending moves to the stripes at once when the run would exceed `pending`.
    Descriptors are embedded up to `root`, and stored in pages beyond that. `block` is the size of
    blocks within runs.
    """

    embedded: int = 32 * 1024
    buffer: int = 3 * 1024
    pending: int = 96 * 1024
    stripe: int = 128 * 1024
    page: int = 32 * 1024
    root: int = 1024
    block: int = 1024


LIMITS = IndexLimits()


class IndexUpdate(ReadableIndex[V]):
    """Changes over an index, which can be read as if already applied. For one thread.

    `write` stores a node and returns its id; only `finish` calls it, for lower nodes before those
    above them.
    """

    __slots__ = ("_changes", "_index", "_limits", "_order", "_write")

    def __init__(self, index: Index[V], write: Write, limits: IndexLimits = LIMITS) -> None:
        super().__init__(index.codec)
        self._index = index
        self._write = write
        self._limits = limits
        self._changes: dict[bytes, Stored] = {}
        self._order: list[bytes] | None = None

    def put(self, key: bytes, value: V) -> None:
        """Set the value of a key. Loads nothing."""
        if len(key) > MAX_KEY_BYTES:
            raise ValueError(f"a key has at most {MAX_KEY_BYTES} bytes, this one has {len(key)}")
        self._set(key, self.codec.encode(value))

    def remove(self, key: bytes) -> None:
        """Remove a key, if it exists. Loads nothing."""
        self._set(key, REMOVED)

    def finish(self) -> Index[V]:
        """The index with all changes applied; the same index if nothing changes."""
        index = self._index
        if _weight(self._changes) > self._limits.pending:
            return self._spill(dict(index.embedded.entries()) | self._changes)
        embedded = self._merge(index.embedded, self._changes, keep_removed=self._has_stripes)
        if embedded is index.embedded:
            return index
        most = self._limits.buffer if self._has_stripes else self._limits.embedded
        if embedded.size <= most:
            return Index(self.codec, index.tree, embedded, index.pending)
        return self._spill(dict(embedded.entries()))

    def stored(self, key: bytes) -> Stored | None:
        found = self._changes.get(key)
        return self._index.stored(key) if found is None else found

    def entries(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Entry]:
        below = self._index.entries(start, stop, reverse=reverse)
        return overlay(self._changes_in(start, stop, reverse=reverse), below, reverse=reverse)

    @property
    def _has_stripes(self) -> bool:
        return self._index.tree.root.count > 0

    def _set(self, key: bytes, stored: Stored) -> None:
        if self._order is not None and key not in self._changes:
            insort(self._order, key)  # so that reads between writes need not sort each time
        self._changes[key] = stored

    def _merge(
        self, leaf: SortedRun, changes: Mapping[bytes, Stored], *, keep_removed: bool
    ) -> SortedRun:
        return leaf.merge(changes, self._limits.block, keep_removed=keep_removed)

    def _spill(self, entries: Mapping[bytes, Stored]) -> Index[V]:
        """Move everything that would be embedded to the pending run, or with it to the stripes."""
        index = self._index
        growth = StripeWriter(index.tree.nodes, self._write, self._limits)
        pending = index.pending_run()
        if self._has_stripes and pending.size + _weight(entries) <= self._limits.pending:
            run = self._merge(pending, entries, keep_removed=True)
            return Index(self.codec, index.tree, pending=growth.write_run(run))
        tree = growth.apply(index.tree, dict(pending.entries()) | dict(entries))
        return Index(self.codec, tree)

    def _changes_in(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Entry]:
        if self._order is None:
            self._order = sorted(self._changes)
        high = len(self._order) if stop is None else bisect_left(self._order, stop)
        chosen = self._order[bisect_left(self._order, start) : high]
        for key in reversed(chosen) if reverse else chosen:
            yield key, self._changes[key]


def _weight(entries: Mapping[bytes, Stored]) -> int:
    return sum(weights(entries, entries.values()))


Changes: TypeAlias = Mapping[bytes, Stored]
Write: TypeAlias = Callable[[bytes], int]
Cut: TypeAlias = Callable[[Sequence[int], float], list[slice]]

# How full newly cut nodes are: room for what comes next, so that few are cut again soon.
_FILL = 0.85
_SMALL = 0.25


@dataclass(frozen=True, slots=True)
class _Span:
    """A range of neighbouring children, and the runs that replace them."""

    start: int
    stop: int
    leaves: Sequence[SortedRun]

    @property
    def size(self) -> int:
        return sum(leaf.size for leaf in self.leaves if leaf.count)


class StripeWriter:
    """One round of changes to a tree. Nodes are written before those that refer to them."""

    def __init__(self, nodes: NodeCache, write: Write, limits: IndexLimits) -> None:
        self._nodes = nodes
        self._write = write
        self._limits = limits

    def apply(self, tree: Tree, changes: Changes) -> Tree:
        """The tree with the changes applied. Loads and writes only touched stripes."""
        root = self._rewrite(tree.root, tree.level, changes, at_edge=True)
        return self._balance(replace(tree, root=root))

    def write_run(self, leaf: SortedRun) -> Child:
        """Write a run of entries; returns its descriptor."""
        id_ = self._write(leaf.data)
        self._nodes.keep(id_, leaf)
        return Child(leaf.first, leaf.last, id_, leaf.count, leaf.size)

    def _rewrite(
        self, parent: SortedRun, level: int, changes: Changes, *, at_edge: bool
    ) -> SortedRun:
        """The descriptors after applying the changes `level` levels below them."""
        if not level:
            return parent.merge(changes, self._limits.block, keep_removed=False)
        below = children(parent)
        above: dict[bytes, Stored] = {}
        done = 0
        for span in _join(self._changed(below, level - 1, changes, at_edge=at_edge)):
            wide = self._widen(span, below, done, level - 1)
            above |= dict.fromkeys(
                (child.first for child in below[wide.start : wide.stop]), REMOVED
            )
            is_last = at_edge and wide.stop == len(below)
            leaves = self._recut(wide.leaves, level - 1, at_edge=is_last)
            above |= self._write_all(leaves, level - 1)
            done = wide.stop
        return parent.merge(above, self._limits.block, keep_removed=False)

    def _changed(
        self, below: Sequence[Child], level: int, changes: Changes, *, at_edge: bool
    ) -> Iterator[_Span]:
        """The children that change, one by one."""
        shares = _share(below, changes)
        nodes = self._nodes.fetch([below[position].id for position in shares]) if below else [EMPTY]
        for (position, share), node in zip(shares.items(), nodes, strict=True):
            is_last = at_edge and position >= len(below) - 1
            leaf = self._rewrite(node, level, share, at_edge=is_last)
            if leaf is not node:
                is_append = is_last and bool(below) and min(share) > below[position].last
                leaves = _cut([leaf], cut_full, self._target(level)) if is_append else [leaf]
                yield _Span(position, min(position + 1, len(below)), leaves)

    def _widen(self, span: _Span, below: Sequence[Child], done: int, level: int) -> _Span:
        """Include a neighbour if too little is left, and the neighbour has room."""
        most = self._target(level) * _FILL - span.size
        if not 0 < span.size < self._target(level) * _SMALL:
            return span
        if span.stop < len(below) and below[span.stop].size <= most:
            (leaf,) = self._nodes.fetch([below[span.stop].id])
            return _Span(span.start, span.stop + 1, [*span.leaves, leaf])
        if span.start > done and below[span.start - 1].size <= most:
            (leaf,) = self._nodes.fetch([below[span.start - 1].id])
            return _Span(span.start - 1, span.stop, [leaf, *span.leaves])
        return span

    def _recut(self, leaves: Sequence[SortedRun], level: int, *, at_edge: bool) -> list[SortedRun]:
        """Cut neighbours again if one has become too large, or too small for its position."""
        kept = [leaf for leaf in leaves if leaf.count]
        target = self._target(level)
        inner = kept[:-1] if at_edge or len(kept) == 1 else kept
        is_roomy = all(leaf.size <= target for leaf in kept)
        if is_roomy and all(leaf.size >= target * _SMALL for leaf in inner):
            return kept
        return _cut(kept, cut_evenly, target * _FILL)

    def _write_all(self, leaves: Sequence[SortedRun], level: int) -> Changes:
        """Write runs; returns their descriptors by first key."""
        written = (self._write_node(leaf, level) for leaf in leaves)
        return {child.first: child.encode() for child in written}

    def _write_node(self, leaf: SortedRun, level: int) -> Child:
        written = self.write_run(leaf)
        if not level:
            return written
        below = children(leaf)
        return replace(written, last=below[-1].last, count=sum(child.count for child in below))

    def _balance(self, tree: Tree) -> Tree:
        """Add a level under a root that has grown, and remove one that is no longer needed."""
        while tree.root.size > self._limits.root:
            pages = _cut([tree.root], cut_evenly, self._limits.page * _FILL)
            if len(pages) == tree.root.count:
                break
            above = EMPTY.merge(
                self._write_all(pages, tree.level), self._limits.block, keep_removed=False
            )
            tree = replace(tree, root=above, level=tree.level + 1)
        while tree.level > 1 and (page := self._only_page(tree)):
            tree = replace(tree, root=page, level=tree.level - 1)
        return tree

    def _only_page(self, tree: Tree) -> SortedRun | None:
        """The only page below the root, if it is small enough to be the root."""
        if tree.root.count > 1:
            return None
        below = children(tree.root)
        page = self._nodes.fetch([below[0].id])[0] if below else EMPTY
        return page if page.size <= self._limits.root // 2 else None

    def _target(self, level: int) -> int:
        return self._limits.page if level else self._limits.stripe


def _share(below: Sequence[Child], changes: Changes) -> dict[int, dict[bytes, Stored]]:
    """The changes of each child: a key between two children belongs to the first of them."""
    firsts = [child.first for child in below]
    shares: dict[int, dict[bytes, Stored]] = {}
    for key in sorted(changes):
        position = max(0, bisect_right(firsts, key) - 1)
        shares.setdefault(position, {})[key] = changes[key]
    return shares


def _join(spans: Iterator[_Span]) -> Iterator[_Span]:
    """Combine adjacent spans."""
    held: _Span | None = None
    for span in spans:
        if held and held.stop == span.start:
            held = _Span(held.start, span.stop, [*held.leaves, *span.leaves])
            continue
        if held:
            yield held
        held = span
    if held:
        yield held


def _cut(leaves: Sequence[SortedRun], cut: Cut, most: float) -> list[SortedRun]:
    """The blocks of some runs, as runs of at most this many bytes."""
    blocks = list(chain.from_iterable(leaf.blocks for leaf in leaves))
    return [
        SortedRun.of(blocks[part]) for part in cut([run_size([block]) for block in blocks], most)
    ]
