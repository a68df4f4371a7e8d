"""Which roots lead to which sources.

Sources are metadata files, manifest lists and manifests; the files they name are not considered
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.hashing import Hashes, HashSet

Numbers = npt.NDArray[np.int64]
#: Returns the batches of a dataset, any number of times.
Rows = Callable[[], Iterable[pa.RecordBatch]]

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class RootLineage:
    """Pairs of a root and a source reachable from it, sorted by source.

    Roots are identified by the numbers of their own files, which are sources too.
    """

    roots: Numbers
    sources: Numbers

    @classmethod
    def of(cls, roots: Numbers, sources: Numbers) -> RootLineage:
        order = np.argsort(sources, kind="stable")
        return cls(roots[order], sources[order])

    def expand(self, sources: Numbers) -> tuple[Numbers, Numbers]:
        """For each source, the roots that lead to it: (positions among the sources, roots)."""
        first, end = (np.searchsorted(self.sources, sources, side) for side in ("left", "right"))
        repeats = end - first
        taken = np.repeat(np.arange(len(sources)), repeats)
        within = np.arange(len(taken)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        return taken, self.roots[np.repeat(first, repeats) + within]

    def roots_of(self, source: int) -> list[int]:
        """The roots that lead to one source."""
        return list(self.expand(np.array([source]))[1].tolist())


def trace(roots: Iterable[int], edges: Rows) -> RootLineage:
    """Follow the edges from roots, one level after another."""
    starts = np.array(sorted(set(roots)), dtype=np.int64)
    seen = HashSet()
    seen.add(_pair_hashes(starts, starts))
    levels = [RootLineage(starts, starts)]
    # Ends because each pair is followed once, even if sources refer to each other in a circle.
    while len(levels[-1].roots):
        found = list(_follow(levels[-1], edges, seen))
        levels.append(RootLineage.of(*_concatenate(found)))
    return RootLineage.of(*_concatenate([(level.roots, level.sources) for level in levels]))


def _follow(level: RootLineage, edges: Rows, seen: HashSet) -> Iterator[tuple[Numbers, Numbers]]:
    """The pairs that the edges of one level reach for the first time."""
    for batch in edges():
        places, roots = level.expand(batch["parent"].to_numpy())
        children = batch["child"].to_numpy()[places]
        is_new = seen.add(_pair_hashes(roots, children))
        if is_new.any():
            yield roots[is_new], children[is_new]


def _concatenate(pairs: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    nothing = np.empty(0, dtype=np.int64)
    roots, sources = zip(*pairs, strict=True) if pairs else ((nothing,), (nothing,))
    return np.concatenate(roots), np.concatenate(sources)


def _pair_hashes(roots: Numbers, sources: Numbers) -> Hashes:
    """A unique key for each pair. The low word spreads them evenly."""
    high = sources.view(np.uint64)
    return roots.view(np.uint64) * _ODD + high, high
