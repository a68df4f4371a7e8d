"""The cache of parsed metaranges and ranges; their ids are content hashes, so it never expires.

A segment is what one run read. It has a folder of its own with four datasets, and is valid
once its document, which names their hashes, is written. A damaged segment is ignored and read
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import pyarrow as pa

from lakesweep.errors import FormatError, MissingError, NotFoundError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lifecycle.columns import FOLDED, METARANGES, PARSED
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import check_parts, load_dataset, read_dataset, read_part
from lakesweep.storage.datasets.writer import commit_dataset

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener

#: Change it whenever folding changes: then everything is read again.
_VERSION = 1
_DOCUMENT = "_segment.json"
KNOWN = pa.schema([METARANGES.field("metarange_id")])


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hash of each dataset of a segment."""

    metaranges: str
    edges: str
    ranges: str
    entries: str


@dataclass(frozen=True)
class Segment:
    """What one run read: metaranges, their ranges, where these are, and their entries."""

    address: str
    metaranges: Dataset
    edges: Dataset
    ranges: Dataset
    entries: Dataset

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """All its datasets."""
        return self.metaranges, self.edges, self.ranges, self.entries


class RangeCache:
    """The segments of one repository, below a folder."""

    def __init__(self, stores: StoreOpener, folder: str, namespace: StorageNamespace) -> None:
        self._stores = stores
        self._folder = f"{folder.rstrip('/')}/v{_VERSION}-{_digest(namespace)}/"

    def segments(self) -> list[Segment]:
        """All complete segments, judged by the sizes of their parts."""
        return [found for name in self._names() if (found := self._load(name)) is not None]

    def _names(self) -> Iterator[str]:
        place = parse(self._folder)
        cursor: object | None = None
        while True:
            try:
                page = self._stores.open(place).list(place.key, one_level=True, cursor=cursor)
            except NotFoundError:
                return
            yield from sorted(page.folders)
            if page.next is None:
                return
            cursor = page.next

    def _load(self, folder: str) -> Segment | None:
        address = parse(self._folder).child(folder).path
        try:
            document = self._document(address)
            found = [
                load_dataset(self._stores, address + name) for name in _Document.__struct_fields__
            ]
            for dataset in found:
                check_parts(self._stores, dataset)
        except (MissingError, FormatError):
            return None
        hashes = tuple(dataset.sha256 for dataset in found)
        return Segment(address, *found) if hashes == msgspec.structs.astuple(document) else None

    def _document(self, address: str) -> _Document:
        place = parse(address + _DOCUMENT)
        data = self._stores.open(place).read(place.key)
        try:
            return msgspec.json.decode(data, type=_Document)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FormatError(place.path, str(error)) from error

    def new_folder(self) -> str:
        """A folder for a new segment."""
        return f"{self._folder}{uuid4().hex}/"

    def commit(
        self,
        address: str,
        metaranges: Dataset,
        edges: Dataset,
        ranges: Iterable[Part],
        entries: Iterable[Part],
    ) -> Segment:
        """Make stored parts a segment: they hold exactly what these metaranges reach."""
        parsed = commit_dataset(self._stores, f"{address}ranges", ranges, PARSED)
        folded = commit_dataset(self._stores, f"{address}entries", entries, FOLDED)
        segment = Segment(address, metaranges, edges, parsed, folded)
        document = _Document(*(dataset.sha256 for dataset in segment.datasets))
        place = parse(address + _DOCUMENT)
        self._stores.open(place).write(place.key, msgspec.json.encode(document))
        return segment

    def drop_damaged(self) -> int:
        """Drop segments with any changed byte; returns how many."""
        damaged = [segment for segment in self.segments() if not self._is_whole(segment)]
        for segment in damaged:
            place = parse(segment.address + _DOCUMENT)
            self._stores.open(place).delete([place.key])
        return len(damaged)

    def _is_whole(self, segment: Segment) -> bool:
        try:
            for dataset in segment.datasets:
                for part in dataset.parts:
                    next(read_part(self._stores, dataset, part), None)  # compares the hash first
        except FormatError:
            return False
        return True


def known_metaranges(stores: StoreOpener, segments: Iterable[Segment]) -> set[str]:
    """The metaranges that need not be read."""
    return {
        id_
        for segment in segments
        for batch in read_dataset(stores, segment.metaranges)
        for id_ in batch["metarange_id"].to_pylist()
    }


def _digest(namespace: StorageNamespace) -> str:
    """What addresses mean depends on the namespace."""
    names = "\n".join((namespace.folder, *sorted(namespace.aliases)))
    return hashlib.sha256(names.encode()).hexdigest()[:16]
