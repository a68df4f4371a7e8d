"""The cache of parsed metaranges and ranges; their ids are content hashes, so it never expires.

A segment is what one run read. It has a folder of its own with four datasets, and a document that
names their hashes. Any writer of the bucket can rewrite all of that, and a cache without
the entries of a HEAD would let its objects expire. So the store keeps the hash of each document,
and a segment that it does not vouch for is not read. A damaged segment is read again from the
repository, whose ids prove what it holds.

Tasks look up which refs keep each cached range.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.decoding import typed_json
from lakesweep.errors import DamagedError, FormatError, IncompleteError, MissingError, NotFoundError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lifecycle.columns import FOLDED, HELD, METARANGES, PARSED, PLACED
from lakesweep.lifecycle.policy.ref_retention import pack_bits, unpack_bits
from lakesweep.lifecycle.run_history import VouchedDocuments
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset, Part, sha256_of
from lakesweep.storage.datasets.reader import check_parts, load_dataset, read_dataset, read_part
from lakesweep.storage.datasets.writer import commit_dataset
from lakesweep.sweep.engine.protocol import RowSplit, read_split
from lakesweep.untrusted.documents import JSON_ERRORS

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener


#: Change it whenever folding changes: then everything is read again.
_VERSION = 1
_DOCUMENT = "_segment.json"
#: The name of the document in the store.
_VOUCHED = "range-cache"
KNOWN = pa.schema([METARANGES.field("metarange_id")])
#: The keepers of the ranges of chunks, by their places, as bits of numbers.
RangeKeepers: TypeAlias = Mapping[int, Mapping[int, int]]
#: A kernel over entries that has to know what keeps their ranges.
PlacedStep: TypeAlias = Callable[[Iterable[pa.RecordBatch], RangeKeepers], Iterator[pa.RecordBatch]]
_READ = ["chunk", "members", "path", "address", "standing", "size_bytes", "age"]


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


class _Vouched(msgspec.Struct, frozen=True):
    """The hashes of the documents of segments, by their folders, by the folder of the cache."""

    caches: Mapping[str, Mapping[str, str]] = {}


class RangeCache:
    """The segments of one repository, below a folder. The caller of `commit` holds its lease."""

    def __init__(
        self,
        stores: StoreOpener,
        folder: str,
        namespace: StorageNamespace,
        documents: VouchedDocuments,
    ) -> None:
        self._stores = stores
        self._documents = documents
        self._folder = f"{folder.rstrip('/')}/v{_VERSION}-{_digest(namespace)}/"

    def segments(self) -> list[Segment]:
        """All segments that the store vouches for and that have parts of the right sizes."""
        vouched = self._vouched.caches.get(self._folder, {})
        found = (self._load(name, sha256) for name, sha256 in sorted(vouched.items()))
        return [segment for segment in found if segment is not None]

    def all_segments(self) -> list[Segment]:
        """The segments, for showing alone: if the store knows none, whatever lies there.

        Earlier versions did not record segments in the store, and their plans can be explained.
        """
        if self._folder in self._vouched.caches:
            return self.segments()
        return [found for name in self._names() if (found := self._load(name)) is not None]

    @property
    def _vouched(self) -> _Vouched:
        return self._documents.read(_VOUCHED, _Vouched) or _Vouched()

    def _vouch(self, segments: Mapping[str, str]) -> None:
        caches = {**self._vouched.caches, self._folder: segments}
        self._documents.write(_VOUCHED, _Vouched(caches))

    def _names(self) -> Iterator[str]:
        place = parse(self._folder)
        cursor: object | None = None
        while True:
            try:
                page = self._stores.open(place).list(place.key, one_level=True, cursor=cursor)
            except NotFoundError:
                return
            yield from (folder.removeprefix(place.key) for folder in sorted(page.folders))
            if page.next is None:
                return
            cursor = page.next

    def _load(self, folder: str, sha256: str | None = None) -> Segment | None:
        address = f"{self._folder}{folder}"
        try:
            document = self._document(address, sha256)
            found = [
                load_dataset(self._stores, address + name) for name in _Document.__struct_fields__
            ]
            for dataset in found:
                check_parts(self._stores, dataset)
        except (MissingError, FormatError):
            return None
        hashes = tuple(dataset.sha256 for dataset in found)
        return Segment(address, *found) if hashes == msgspec.structs.astuple(document) else None

    def _document(self, address: str, sha256: str | None) -> _Document:
        place = parse(address + _DOCUMENT)
        data = self._stores.open(place).read(place.key)
        if sha256 is not None and sha256_of(data) != sha256:
            raise DamagedError(place.path, "it is not what the run that wrote it recorded")
        try:
            return typed_json(data, _Document)
        except JSON_ERRORS as error:
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
        place, data = parse(address + _DOCUMENT), msgspec.json.encode(document)
        self._stores.open(place).write(place.key, data)
        # The store comes last: a crash before leaves a folder that is never read.
        known = self._vouched.caches.get(self._folder, {})
        self._vouch({**known, address.removeprefix(self._folder): sha256_of(data)})
        return segment

    def drop_damaged(self) -> int:
        """Drop segments with any changed byte; returns how many."""
        known = dict(self._vouched.caches.get(self._folder, {}))
        damaged = [segment for segment in self.segments() if not self._is_whole(segment)]
        for segment in damaged:
            del known[segment.address.removeprefix(self._folder)]
        if damaged:
            self._vouch(known)
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


def metarange_rows(bits: Mapping[str, int], count: int) -> Iterator[pa.RecordBatch]:
    """The keepers of metaranges, as rows of METARANGES; `count` is the number of bits."""
    columns = [pa.array(bits), pa.array([pack_bits(each, count) for each in bits.values()])]
    yield pa.RecordBatch.from_arrays(columns, schema=METARANGES)


def keep_ranges(batches: Iterable[pa.RecordBatch], metaranges: pa.Table) -> pa.Table:
    """The keepers of the ranges of metaranges (EDGES): rows of HELD, each once."""
    found = [_keep_ranges(batch, metaranges) for batch in batches]
    rows = pa.concat_tables([_KEPT.empty_table(), *found]).group_by(_KEPT.names).aggregate([])
    return _held_rows(rows)


def _keep_ranges(edges: pa.RecordBatch, metaranges: pa.Table) -> pa.Table:
    places = pc.index_in(edges["metarange_id"], value_set=metaranges["metarange_id"])
    known = places.is_valid()
    keepers = metaranges["keepers"].take(places.filter(known))
    rows = pa.table([edges["range_id"].filter(known), keepers], schema=_KEPT)
    return rows.group_by(_KEPT.names).aggregate([])


def find_ranges(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Where the entries of parsed ranges (PARSED) are, as rows of HELD."""
    found = pa.Table.from_batches((batch.select(_WHERE.names) for batch in batches), _WHERE)
    return _held_rows(found)


def _held_rows(rows: pa.Table) -> pa.Table:
    """Rows of HELD with some known columns."""
    columns = [
        rows[field.name] if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in HELD
    ]
    return pa.table(columns, schema=HELD)


_KEPT = pa.schema([HELD.field("range_id"), HELD.field("keepers")])
_WHERE = pa.schema([PARSED.field(name) for name in ("range_id", "chunk", "place")])


def place_ranges(held: pa.Table) -> Iterator[pa.RecordBatch]:
    """Everything known about some ranges (HELD), as rows of PLACED.

    IncompleteError for a range in no chunk: its contents would not be protected.
    """
    kept = held.filter(pc.field("keepers").is_valid()).select(_KEPT.names)
    where = held.filter(pc.field("chunk").is_valid()).select(_WHERE.names)
    placed = kept.join(where, "range_id", join_type="left outer").group_by(_WHERE.names)
    merged = placed.aggregate([("keepers", "distinct")]).combine_chunks()
    for batch in merged.to_batches():
        yield _merge_keepers(batch)


def _merge_keepers(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch["chunk"].null_count:
        missing = batch.filter(batch["chunk"].is_null())["range_id"][0]
        raise IncompleteError(f"range {missing} was not parsed, so its contents are unknown")
    merged = [_merge(each) for each in batch["keepers_distinct"].to_pylist()]
    columns = [batch["chunk"], batch["place"], pa.array(merged, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=PLACED)


def _merge(keepers: Iterable[bytes]) -> bytes:
    bits, width = 0, 0
    for each in keepers:
        bits |= unpack_bits(each)
        width = len(each)
    return bits.to_bytes(width, "little")


def load_placed(stores: StoreOpener, placed: Dataset) -> RangeKeepers:
    """The keepers of all ranges, by chunk and place; about 200 bytes per range."""
    found: dict[int, dict[int, int]] = {}
    for batch in read_dataset(stores, placed):
        for row in batch.to_pylist():
            found.setdefault(row["chunk"], {})[row["place"]] = unpack_bits(row["keepers"])
    return found


#: What the last task of this process loaded; the next one usually needs it too.
_last: list[tuple[str, RangeKeepers]] = []


def _held(stores: StoreOpener, placed: Dataset) -> RangeKeepers:
    if not _last or _last[0][0] != placed.sha256:
        _last[:] = [(placed.sha256, load_placed(stores, placed))]
    return _last[0][1]


def read_placed(
    stores: StoreOpener, entries: Dataset, share: RowSplit, step: PlacedStep, placed: Dataset
) -> Iterator[pa.RecordBatch]:
    """The results of a step for a share of the cached entries (FOLDED)."""
    keepers = _held(stores, placed)
    return step(read_split(stores, entries, share, _READ), keepers)
