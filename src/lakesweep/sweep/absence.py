"""Roots that were known and that nobody lists any more.

They may have been dropped. Or they are hidden: from a catalog that answers under another name or
with other permissions, or by a line that went from the configuration. Nothing tells the two apart,
so somebody is asked before their files go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from lakesweep.sweep.marks import Marks, RootMark, RootState
from lakesweep.sweep.records import RootMemory
from lakesweep.sweep.succession import follows


def gone_roots(marks: Marks, memory: Mapping[str, RootMemory]) -> dict[str, RootMemory]:
    """Of the roots that are remembered, those that are not there, under no name."""
    if marks.unknown:
        return {}  # they may be in what could not be listed
    there = Census(root for root in marks.roots if root.state is not RootState.ABSENT)
    return {
        name: known
        for name, known in memory.items()
        if not there.has(name, known.pointer, known.uuid)
    }


class Census:
    """The roots that there are, by all that they may be recognised by."""

    def __init__(self, roots: Iterable[RootMark]) -> None:
        self._names: set[str] = set()
        self._by_uuid: defaultdict[str | None, list[RootMark]] = defaultdict(list)
        for root in roots:
            self._names.add(root.name)
            self._by_uuid[root.facts.uuid if root.facts else None].append(root)

    def has(self, name: str, pointer: str, uuid: str | None) -> bool:
        """Whether a root is there: under its name, or as what became of it under another one."""
        if name in self._names:
            return True
        return bool(pointer) and any(
            follows(root.pointer, root.facts, pointer, uuid) for root in self._like(uuid)
        )

    def _like(self, uuid: str | None) -> Iterator[RootMark]:
        return (root for root in self._by_uuid[uuid] if root.source is not None)
