"""Write changes into the stripes of an index, and what follows into the descriptors above."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from lakesweep.store.index.block import REMOVED, Stored
from lakesweep.store.index.cutting import cut_evenly, cut_full
from lakesweep.store.index.leaf import EMPTY, Leaf
from lakesweep.store.index.limits import Limits
from lakesweep.store.index.nodes import Nodes
from lakesweep.store.index.runs import run_size
from lakesweep.store.index.tree import Child, Tree, children

Changes: TypeAlias = Mapping[bytes, Stored]
Write: TypeAlias = Callable[[bytes], int]
Cut: TypeAlias = Callable[[Sequence[int], float], list[slice]]

# How full nodes are that are cut anew: room for what comes next, so that few are cut again soon.
_FILL = 0.85
_SMALL = 0.25


@dataclass(frozen=True, slots=True)
class _Span:
    """Neighbouring children, from where to where, and the runs that take their place."""

    start: int
    stop: int
    leaves: Sequence[Leaf]

    @property
    def size(self) -> int:
        return sum(leaf.size for leaf in self.leaves if leaf.count)


class Growth:
    """One round of changes to a tree. Nodes are written before those that name them."""

    def __init__(self, nodes: Nodes, write: Write, limits: Limits) -> None:
        self._nodes = nodes
        self._write = write
        self._limits = limits

    def apply(self, tree: Tree, changes: Changes) -> Tree:
        """The tree with the changes made. Only touched stripes are loaded and written."""
        root = self._rewrite(tree.root, tree.level, changes, at_edge=True)
        return self._settle(replace(tree, root=root))

    def write_run(self, leaf: Leaf) -> Child:
        """Write a run of entries; answers its descriptor."""
        id_ = self._write(leaf.data)
        self._nodes.keep(id_, leaf)
        return Child(leaf.first, leaf.last, id_, leaf.count, leaf.size)

    def _rewrite(self, parent: Leaf, level: int, changes: Changes, *, at_edge: bool) -> Leaf:
        """The descriptors after the changes were made `level` levels below them."""
        if not level:
            return parent.merge(changes, self._limits.block, keep_marks=False)
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
        return parent.merge(above, self._limits.block, keep_marks=False)

    def _changed(
        self, below: Sequence[Child], level: int, changes: Changes, *, at_edge: bool
    ) -> Iterator[_Span]:
        """What changes of the children, one by one."""
        shares = _share(below, changes)
        nodes = self._nodes.fetch([below[place].id for place in shares]) if below else [EMPTY]
        for (place, share), node in zip(shares.items(), nodes, strict=True):
            is_last = at_edge and place >= len(below) - 1
            leaf = self._rewrite(node, level, share, at_edge=is_last)
            if leaf is not node:
                is_append = is_last and bool(below) and min(share) > below[place].last
                leaves = _cut([leaf], cut_full, self._target(level)) if is_append else [leaf]
                yield _Span(place, min(place + 1, len(below)), leaves)

    def _widen(self, span: _Span, below: Sequence[Child], done: int, level: int) -> _Span:
        """Take a neighbour in where too little is left, and the neighbour has room."""
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

    def _recut(self, leaves: Sequence[Leaf], level: int, *, at_edge: bool) -> list[Leaf]:
        """Cut neighbours anew where one has become too large, or too small for its place."""
        kept = [leaf for leaf in leaves if leaf.count]
        target = self._target(level)
        inner = kept[:-1] if at_edge or len(kept) == 1 else kept
        is_roomy = all(leaf.size <= target for leaf in kept)
        if is_roomy and all(leaf.size >= target * _SMALL for leaf in inner):
            return kept
        return _cut(kept, cut_evenly, target * _FILL)

    def _write_all(self, leaves: Sequence[Leaf], level: int) -> Changes:
        """Write runs; answers their descriptors by first key."""
        written = (self._write_node(leaf, level) for leaf in leaves)
        return {child.first: child.encode() for child in written}

    def _write_node(self, leaf: Leaf, level: int) -> Child:
        written = self.write_run(leaf)
        if not level:
            return written
        below = children(leaf)
        return replace(written, last=below[-1].last, count=sum(child.count for child in below))

    def _settle(self, tree: Tree) -> Tree:
        """Give a root that has grown a page below it, and take back what is left of a page."""
        while tree.root.size > self._limits.root:
            pages = _cut([tree.root], cut_evenly, self._limits.page * _FILL)
            if len(pages) == tree.root.count:
                break
            above = EMPTY.merge(
                self._write_all(pages, tree.level), self._limits.block, keep_marks=False
            )
            tree = replace(tree, root=above, level=tree.level + 1)
        while tree.level > 1 and (page := self._only_page(tree)):
            tree = replace(tree, root=page, level=tree.level - 1)
        return tree

    def _only_page(self, tree: Tree) -> Leaf | None:
        """The one page below the root, where it is small enough to be the root."""
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
        place = max(0, bisect_right(firsts, key) - 1)
        shares.setdefault(place, {})[key] = changes[key]
    return shares


def _join(spans: Iterator[_Span]) -> Iterator[_Span]:
    """Make one of spans that touch."""
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


def _cut(leaves: Sequence[Leaf], cut: Cut, most: float) -> list[Leaf]:
    """The blocks of some runs as runs of at most so many bytes."""
    blocks = list(chain.from_iterable(leaf.blocks for leaf in leaves))
    return [Leaf.of(blocks[part]) for part in cut([run_size([block]) for block in blocks], most)]
