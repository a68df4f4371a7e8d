"""Reading what commits hold: through metaranges and ranges, to the entries of their objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.errors import DamagedError
from lakesweep.lakefs.addresses import Namespace
from lakesweep.lakefs.columns import RANGES
from lakesweep.lakefs.ranges import decode_metarange, decode_range
from lakesweep.lakefs.repository import RangeFiles
from lakesweep.parallel import map_ordered

#: So many ranges are fetched and decoded at a time, where they are wanted in order.
_WORKERS = 4


@dataclass(frozen=True, slots=True)
class Trees:
    """What the commits of one repository hold. Can be pickled."""

    files: RangeFiles
    namespace: Namespace

    def ranges(self, metarange_id: str) -> pa.RecordBatch:
        """The ranges of a metarange, as rows of RANGES; none for the empty id of an empty tree."""
        if not metarange_id:
            return pa.record_batch([[]] * len(RANGES), schema=RANGES)
        data = self.files.read(metarange_id, meta=True)
        return decode_metarange(self.namespace.table(metarange_id), data, metarange_id)

    def entries(self, metarange_id: str) -> Iterator[pa.RecordBatch]:
        """All entries of a tree in the order of their paths, as rows of ENTRIES, a batch a range.

        DamagedError where a range is not what the metarange says of it.
        """
        ranges = self.ranges(metarange_id)
        ids = ranges.column("range_id").to_pylist()
        lasts, counts = ranges.column("max_key").to_pylist(), ranges.column("count").to_pylist()
        before: bytes | None = None
        found = map_ordered(self._range, ids, workers=_WORKERS)
        for id_, batch, last, count in zip(ids, found, lasts, counts, strict=True):
            _check_batch(self.namespace.table(id_), batch, before, last, count)
            before = last
            yield batch

    def _range(self, range_id: str) -> pa.RecordBatch:
        data = self.files.read(range_id, meta=False)
        return decode_range(self.namespace.table(range_id), data, range_id)


def _check_batch(
    path: str, batch: pa.RecordBatch, before: bytes | None, last: bytes, count: int
) -> None:
    """Compare a range with what its metarange says of it, and with the range in front of it."""
    paths = batch.column("path")
    if batch.num_rows != count or not count or paths[-1].as_py() != last:
        raise DamagedError(path, f"it has {batch.num_rows} entries, and its metarange says {count}")
    if before is not None and paths[0].as_py() <= before:
        raise DamagedError(path, "it begins before the range in front of it ends")
