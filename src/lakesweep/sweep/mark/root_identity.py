"""Whether a current root is one that was seen before, and which known roots are gone.

Names of tables change, and a table id alone proves little: a copy has the same id, and a
second catalog may have moved the table on. What counts is the history that a metadata file
lists, and only as far as it lies in the folder of that file. A writer of one table can give
it the id of another one and a log with its files; that must not make the other one outdated. A
table that really moved to another folder is taken for two, and the files of both are kept.

A known root that is no longer listed may have been dropped, or may be hidden by another
catalog name, by permissions or by a changed configuration. Nothing tells these cases apart,
so a person has to confirm before its files are deleted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import pyarrow as pa

from lakesweep.errors import LakesweepError
from lakesweep.iceberg.file_kinds import compare_versions, metadata_version
from lakesweep.marks.columns import RootFacts, source_numbers
from lakesweep.runs.records import RootMemory
from lakesweep.storage.address import identity, parse
from lakesweep.storage.file_identity import file_hashes
from lakesweep.storage.listing.folder_level import list_level
from lakesweep.storage.object_store import StoreOpener
from lakesweep.sweep.guards import MAX_CLOCK_SKEW
from lakesweep.sweep.mark.marks import Marks, RootMark, RootState
from lakesweep.sweep.roots.root import RootKind

#: In the names of all metadata files, compressed or not.
_METADATA = ".metadata.json"


def gone_roots(marks: Marks, memory: Mapping[str, RootMemory]) -> dict[str, RootMemory]:
    """The remembered roots that no longer exist under any name."""
    if marks.unknown:
        return {}  # they may be in a source that could not be listed
    there = KnownRoots(root for root in marks.roots if root.state is not RootState.ABSENT)
    return {
        name: known
        for name, known in memory.items()
        if not there.has(name, known.pointer, known.uuid)
    }


class KnownRoots:
    """The current roots, by everything that identifies them."""

    def __init__(self, roots: Iterable[RootMark]) -> None:
        self._names: set[str] = set()
        self._by_uuid: defaultdict[str | None, list[RootMark]] = defaultdict(list)
        for root in roots:
            self._names.add(root.name)
            self._by_uuid[root.facts.uuid if root.facts else None].append(root)

    def has(self, name: str, pointer: str, uuid: str | None) -> bool:
        """Whether a root exists: under its name, or as its successor under another name."""
        if name in self._names:
            return True
        return bool(pointer) and any(
            is_successor(root.pointer, root.facts, pointer, uuid) for root in self._like(uuid)
        )

    def _like(self, uuid: str | None) -> Iterator[RootMark]:
        return (root for root in self._by_uuid[uuid] if root.source is not None)


_REUSED_NAME = re.compile(r"/v\d+(\.gz)?\.metadata\.json(\.gz)?$")


def is_successor(pointer: str, facts: RootFacts | None, before: str, uuid: str | None) -> bool:
    """Whether the metadata at `pointer` is that at `before`, or a later version of it.

    `uuid` is the id of the table seen before. Its file may be so old that the log of the later one
    no longer names it; then it has a lower number, and is in the same folder.
    """
    if identity(pointer) == identity(before):
        return True
    if facts is None or facts.uuid != uuid or _folder(pointer) != _folder(before):
        return False
    return _number(before) in facts.log or (uuid is not None and _is_older(pointer, facts, before))


def has_superseded(pointer: str, facts: RootFacts, other: str) -> bool:
    """Whether the other metadata of the same table is the one at `pointer`, or an older one."""
    if is_successor(pointer, facts, other, facts.uuid):
        return True
    order = compare_versions(other, pointer)
    return _folder(pointer) == _folder(other) and order is not None and order < 0


def is_name_reused(pointer: str) -> bool:
    """Whether a table recreated without a catalog would have metadata of the same name."""
    return bool(_REUSED_NAME.search(pointer))


def _folder(pointer: str) -> str:
    return identity(pointer).rpartition("/")[0]


def _is_older(pointer: str, facts: RootFacts, before: str) -> bool:
    version, oldest = metadata_version(before), facts.oldest_version
    is_alike = compare_versions(before, pointer) is not None
    return is_alike and version is not None and oldest is not None and version < oldest


def _number(path: str) -> int:
    (number,) = source_numbers(file_hashes(pa.array([path]))).to_pylist()
    return int(number)


def may_have_moved(stores: StoreOpener, root: RootMark, since: datetime) -> bool:
    """Whether a root that is gone may have changed between a moment and its end.

    An Iceberg table writes new metadata beside the old. If there is none that is new, the table
    ended as it was. Of other roots nothing of the kind is known.
    """
    if root.kind not in (RootKind.ICEBERG_TABLE, RootKind.ICEBERG_VIEW):
        return True
    place = parse(root.pointer)
    folder, _, own = place.key.rpartition("/")
    try:
        files = list_level(stores, place.child(f"{folder}/")).files
    except LakesweepError:
        return True
    others = (info.modified for name, info in files.items() if name != own and _METADATA in name)
    return any(written is None or written >= since - MAX_CLOCK_SKEW for written in others)
