"""Decide the state of each root from what was found in the files it leads to.

Which roots lead to which sources is traced here as well. Sources are metadata files, manifest lists
and manifests; the files they name are not considered here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.hashing import Hashes, HashSet
from lakesweep.iceberg.metadata import guess_location
from lakesweep.marks.columns import RootFacts
from lakesweep.marks.covers import collapse
from lakesweep.marks.unreadable import ReadFailure
from lakesweep.sweep.mark.marks import RootMark, RootState, UsedFiles
from lakesweep.sweep.paths.folder_map import claimed_folder
from lakesweep.sweep.roots.root import RootProblem, RootRow

#: The maximum number of folders remembered per root; beyond that, wider ones.
MOST_FOLDERS = 256
_MOST_REASONS = 10
Numbers = npt.NDArray[np.int64]
#: Returns the batches of a dataset, any number of times.
Rows = Callable[[], Iterable[pa.RecordBatch]]
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class RootUsage:
    """The files that a root names, by kind, and their folders."""

    kinds: dict[str, UsedFiles] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    def add(self, kind: str, folder: str, files: int, size_bytes: int) -> None:
        before = self.kinds.get(kind, UsedFiles(0, 0))
        self.kinds[kind] = UsedFiles(before.files + files, before.bytes + size_bytes)
        self.folders.add(folder)
        if len(self.folders) > 4 * MOST_FOLDERS:
            self.folders = set(collapse(self.folders, MOST_FOLDERS))


def root_usage(lineage: RootLineage, usage: Rows) -> Mapping[int, RootUsage]:
    """What each root names, by the number of the root's own file."""
    found: defaultdict[int, RootUsage] = defaultdict(RootUsage)
    for batch in usage():
        places, roots = lineage.expand(batch["source"].to_numpy())
        rows = pa.Table.from_batches([batch.take(pa.array(places))])
        summed = (
            rows.append_column("root", pa.array(roots))
            .group_by(["root", "kind", "folder"], use_threads=False)
            .aggregate([("files", "sum"), ("bytes", "sum")])
        )
        columns = ("root", "kind", "folder", "files_sum", "bytes_sum")
        for root, *use in zip(*(summed[name].to_pylist() for name in columns), strict=True):
            found[root].add(*use)
    return found


def incomplete_reasons(
    lineage: RootLineage, problems: Rows, is_excused: Callable[[int, str], bool]
) -> Mapping[int, Sequence[str]]:
    """Why roots are incomplete, by the number of the root's own file.

    A root may excuse a missing file, but never its own.
    """
    found: defaultdict[int, list[str]] = defaultdict(list)
    for batch in problems():
        for row in batch.to_pylist():
            path, state, source = row["path"], row["state"], row["source"]
            for root in lineage.roots_of(source):
                # Only a missing file may be excused. Damage and denial always make the root
                # incomplete.
                is_own = root == source or state != ReadFailure.MISSING.value
                if is_own or not is_excused(root, path):
                    found[root].append(f"{path}: {state}: {row['reason']}")
    return {root: tuple(_few(sorted(texts))) for root, texts in found.items()}


def mark_of(
    row: RootRow,
    number: int,
    facts: Sequence[RootFacts],
    use: RootUsage,
    why: Sequence[str],
) -> RootMark:
    """The result for a table or view that was read, or attempted."""
    declared = [folder for each in facts for folder in (each.location, *each.write_paths)]
    known = list(dict.fromkeys([*declared, *row.locations]))
    used = _outside(collapse(use.folders, MOST_FOLDERS), known)
    guess = [] if known else [guess_location(row.pointer)]
    return RootMark(
        name=row.name,
        kind=row.kind,
        pointer=row.pointer,
        origin=row.source,
        state=RootState.INCOMPLETE if why else RootState.COMPLETE,
        reasons=tuple(why),
        folders=(*known, *guess, *used),
        is_guess=bool(guess),
        source=number,
        facts=facts[0] if facts else None,
        used=use.kinds,
    )


def mark_of_problem(problem: RootProblem) -> RootMark:
    """The result for a root of which little more than the name is known."""
    return RootMark(
        name=problem.name or problem.source,
        kind=problem.kind,
        pointer="",
        origin=problem.source,
        state=RootState.INCOMPLETE,
        reasons=(problem.reason,),
        folders=problem.locations,
        is_guess=True,
    )


def mark_of_absent(row: RootRow) -> RootMark:
    """The result for a root that was listed, but is gone."""
    return RootMark(
        name=row.name,
        kind=row.kind,
        pointer=row.pointer,
        origin=row.source,
        state=RootState.ABSENT,
        folders=row.locations,
    )


def mark_of_list(row: RootRow) -> RootMark:
    """The result for a root that is just a list of folders."""
    return RootMark(
        name=row.name,
        kind=row.kind,
        pointer=row.pointer,
        origin=row.source,
        state=RootState.COMPLETE,
        folders=row.locations,
    )


def _outside(folders: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """The folders that are not below any of the known ones."""
    around = tuple(claimed_folder(folder) for folder in known)
    return (folder for folder in folders if not claimed_folder(folder).startswith(around))


def _few(texts: Sequence[str]) -> Iterator[str]:
    yield from texts[:_MOST_REASONS]
    if len(texts) > _MOST_REASONS:
        yield f"and {len(texts) - _MOST_REASONS:,} more"


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
