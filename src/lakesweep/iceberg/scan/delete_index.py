"""Which delete files a data file has to be read with.

Position deletes apply to data that is not newer than they are, equality deletes to older data only.
Both apply within their partition; equality deletes without a partition apply everywhere. Those that
name their data file apply to it alone, and a deletion vector replaces all position deletes of its
file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from lakesweep.iceberg.rewrite.partition_bounds import partition_key
from lakesweep.iceberg.scan.content_files import ContentFile, FileContent

#: The column of position deletes that names data files.
_FILE_PATH = 2147483546


class DeleteIndex:
    """The delete files of a snapshot."""

    def __init__(self, files: Iterable[ContentFile]) -> None:
        self._vectors: dict[str, list[ContentFile]] = defaultdict(list)
        self._named: dict[str, list[ContentFile]] = defaultdict(list)
        self._positions: dict[Any, list[ContentFile]] = defaultdict(list)
        self._equalities: dict[Any, list[ContentFile]] = defaultdict(list)
        self._everywhere: list[ContentFile] = []
        for file in files:
            self._add(file)

    def _add(self, file: ContentFile) -> None:
        if file.content is FileContent.EQUALITY_DELETES:
            is_partitioned = bool(file.layout.columns)
            (self._equalities[_place(file)] if is_partitioned else self._everywhere).append(file)
            return
        target = file.referenced or _single_target(file)
        if target is None:
            self._positions[_place(file)].append(file)
        else:
            (self._vectors if file.is_vector else self._named)[target].append(file)

    def of(self, data: ContentFile) -> Iterator[ContentFile]:
        """The delete files of a data file."""
        place = _place(data)
        for file in (*self._everywhere, *self._equalities.get(place, ())):
            if file.sequence > data.sequence:
                yield file
        vectors = [each for each in self._vectors.get(data.path, ()) if _covers(each, data)]
        if vectors:
            yield from vectors
            return
        for file in (*self._named.get(data.path, ()), *self._positions.get(place, ())):
            if _covers(file, data):
                yield file


def _covers(file: ContentFile, data: ContentFile) -> bool:
    return file.sequence >= data.sequence


def _place(file: ContentFile) -> tuple[int, tuple[Any, ...]]:
    return file.layout.spec_id, partition_key(file.partition)


def _single_target(file: ContentFile) -> str | None:
    """The data file of position deletes whose bounds are one path, and not cut."""
    low, high = (file.statistics.get(name, {}) for name in ("lower_bounds", "upper_bounds"))
    bound = low.get(_FILE_PATH)
    is_single = isinstance(bound, bytes) and bound == high.get(_FILE_PATH)
    return bound.decode(errors="replace") if is_single and isinstance(bound, bytes) else None
