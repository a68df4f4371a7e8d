"""What earlier plans, of any lake, know of roots: which of them need not be read again.

A table may reference files anywhere: files are added from other places, and writers may be told
other folders. What a table references is known only from its metadata, and only for as long as
its pointer has not moved. So a root is left unread if an earlier plan read it completely at the
very same pointer, everything that it referenced lies in the locations of other lakes, and nothing
in those of this one. That holds for the lake's own catalogs too, since lakes may share one. A root
that is new or moved is read, whatever was known.

Marks are believed if the store recorded their hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.address import StoreKind, parse
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.sweep.mark.mark_cache import Numbers
from lakesweep.sweep.mark.marks import Marks, RootMark, RootState, load_marks
from lakesweep.sweep.mark.root_identity import is_name_reused
from lakesweep.sweep.mark.root_status import trace
from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder
from lakesweep.sweep.roots.root import RootKind

if TYPE_CHECKING:
    from lakesweep.runs.records import LakeRecord
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.object_store import StoreOpener
    from lakesweep.sweep.lake import Lake

#: The newest marks of this many other lakes are looked at. Each has all roots of its time.
_MOST_OTHERS = 3
#: Kinds whose pointer is the address of metadata that never changes, and names all files.
_KINDS = (RootKind.ICEBERG_TABLE, RootKind.ICEBERG_VIEW)


def vouched_marks(stores: StoreOpener, record: LakeRecord) -> Marks | None:
    """The marks of the last plan of a lake; None if they are gone or changed."""
    if record.marks is None:
        return None
    try:
        found = load_marks(stores, record.marks)
    except Exception:
        return None  # without a cache, everything is read
    hashes = {name: dataset.sha256 for name, dataset in found.datasets.items()}
    # Reuse only what the last plan recorded: altered marks could hide live files.
    return found if hashes == record.mark_hashes else None


def newest_marks(stores: StoreOpener, runs: RunLog, lake: str | None = None) -> list[Marks]:
    """The last marks of some lakes, newest first; those of one lake are always among them."""
    others = (name for name in runs.planned_lakes() if name != lake)
    chosen = {lake, *(name for name, _ in zip(others, range(_MOST_OTHERS), strict=False))}
    names = [name for name in runs.planned_lakes() if name in chosen]
    found = (vouched_marks(stores, runs.lake(name)) for name in names)
    return [marks for marks in found if marks is not None]


@dataclass(frozen=True)
class FarRoots:
    """Roots that cannot reach into a lake, unless they have moved.

    `sources` are what they read, by marks. Where local files may be links, what a far root
    references is needed even so: a link in another lake may lead to a file of this one.
    """

    roots: Mapping[str, RootMark] = field(default_factory=dict)
    sources: Sequence[tuple[Marks, Numbers]] = ()


def far_roots(stores: StoreOpener, lake: Lake, earlier: Iterable[Marks]) -> FarRoots:
    """The roots of earlier marks, newest first, that cannot reach into a lake."""
    if not lake.neighbours:
        return FarRoots()
    reach = _Reach.of(lake)
    roots: dict[str, RootMark] = {}
    seen: set[str] = set()
    sources: list[tuple[Marks, Numbers]] = []
    for marks in earlier:
        far = [root for root in marks.roots if root.name not in seen and reach.excludes(root)]
        if reach.has_links:
            far, numbers = _with_sources(stores, marks, far)
            sources.append((marks, numbers))
        roots |= {root.name: root for root in far}
        # A root that cannot be read now may still be known at the same pointer, by older marks.
        seen |= {root.name for root in marks.in_state(RootState.COMPLETE)}
    return FarRoots(roots, [each for each in sources if len(each[1])])


@dataclass(frozen=True)
class _Reach:
    """The locations of a lake and of its neighbours."""

    mine: tuple[str, ...]
    theirs: FolderMap
    has_links: bool

    @classmethod
    def of(cls, lake: Lake) -> _Reach:
        theirs = (each for some in lake.neighbours.values() for each in some)
        return cls(
            tuple(map(claimed_folder, lake.locations)),
            FolderMap((claimed_folder(each), each) for each in theirs),
            any(parse(each).kind is StoreKind.FILE for each in lake.locations),
        )

    def excludes(self, root: RootMark) -> bool:
        """Whether nothing that a root references lies in the lake, or may mean a file of it.

        References outside of all lakes may spell a key of this one in another way.
        """
        if root.kind not in _KINDS or root.state is not RootState.COMPLETE:
            return False
        if root.facts is None or root.is_guess or is_name_reused(root.pointer):
            return False
        folders = [claimed_folder(each) for each in (*root.folders, _folder(root.pointer))]
        if any(self._touches(folder) for folder in folders):
            return False
        return bool((self.theirs.find(pa.array(folders)) >= 0).all())

    def _touches(self, folder: str) -> bool:
        return any(folder.startswith(each) or each.startswith(folder) for each in self.mine)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _with_sources(
    stores: StoreOpener, marks: Marks, roots: Sequence[RootMark]
) -> tuple[list[RootMark], Numbers]:
    """The roots that marks have read themselves, and the numbers of all that they lead to."""
    read = set(_read_sources(stores, marks))
    found = [root for root in roots if root.source in read]
    edges = marks.datasets["edges"]
    numbers = (root.source for root in found if root.source is not None)
    lineage = trace(numbers, lambda: read_dataset(stores, edges))
    return found, np.unique(lineage.sources)


def _read_sources(stores: StoreOpener, marks: Marks) -> Iterator[int]:
    is_read = pc.field("entries").is_valid()
    for batch in read_dataset(stores, marks.datasets["sources"], ["source", "entries"], is_read):
        yield from batch["source"].to_pylist()
