"""Staged entries: what a branch shows that its HEAD does not hold.

The branch's own diff is not enough. A new upload of content that was committed before is live on
the branch under a new address, but in no diff, because lakeFS compares identities.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.columns import STAGED, AddressType
from lakesweep.lakefs.server.client import ObjectRecord
from lakesweep.storage.address import identities

_COMPARED = pa.schema([("path", pa.binary()), ("mark", pa.binary())])


def staged_entries(
    branch: str,
    pages: Iterable[Sequence[ObjectRecord]],
    committed: Iterable[pa.RecordBatch],
    namespace: StorageNamespace,
) -> Iterator[pa.RecordBatch]:
    """Compare a listing with the entries of HEAD, both in path order, page by page."""
    tree = _Tree(_marks(batch, namespace) for batch in committed)
    for page in pages:
        if page:
            shown = _as_batch(branch, page)
            marks = _marks(shown, namespace)
            known = pc.is_in(marks["mark"], value_set=tree.up_to(marks["path"][-1].as_py()))
            if not pc.all(known).as_py():
                yield shown.filter(pc.invert(known))


class _Tree:
    """Yields the entries of a tree up to a path, each once."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._ahead = pa.record_batch([[], []], schema=_COMPARED)

    def up_to(self, path: bytes) -> pa.Array:
        """The marks of all entries up to this path that were not yielded yet."""
        parts = []
        while True:
            count = pc.sum(pc.less_equal(self._ahead.column("path"), path)).as_py() or 0
            parts.append(self._ahead.column("mark")[:count])
            self._ahead = self._ahead[count:]
            if self._ahead.num_rows or (following := next(self._batches, None)) is None:
                return pa.concat_arrays(parts)
            self._ahead = following


def _as_batch(branch: str, page: Sequence[ObjectRecord]) -> pa.RecordBatch:
    columns = {
        "branch": pa.repeat(branch, len(page)),
        "path": pa.array([each.path.encode() for each in page], pa.binary()),
        "address": pa.array([each.physical_address for each in page], pa.string()),
        "address_type": pa.repeat(str(AddressType.FULL), len(page)),
        "size_bytes": pa.array([each.size_bytes for each in page], pa.int64()),
        "checksum": pa.array([each.checksum for each in page], pa.string()),
        "modified": pa.array([each.mtime for each in page], pa.timestamp("s", tz="UTC")),
    }
    arrays = [columns[field.name].cast(field.type) for field in STAGED]
    return pa.record_batch(arrays, schema=STAGED)


def _marks(entries: pa.RecordBatch, namespace: StorageNamespace) -> pa.RecordBatch:
    """Path, object and second of an entry in one value: if any differs, it is staged.

    Servers return full addresses for entries stored as keys, each in a spelling of its own.
    """
    addresses = entries["address"]
    keys = namespace.keys(addresses, entries["address_type"])
    mark = pc.binary_join_element_wise(
        entries["path"],
        pc.coalesce(keys, identities(addresses)).cast(pa.binary()),
        _seconds(entries["modified"]).cast(pa.binary()),
        pa.scalar(b"\0", pa.binary()),
    )
    return pa.record_batch([entries["path"], mark], schema=_COMPARED)


def _seconds(moments: pa.Array) -> pa.Array:
    """Times in seconds, as servers return them; empty if there is none."""
    micros = moments.cast(pa.timestamp("us")).cast(pa.int64())
    seconds = pc.floor(pc.divide(micros.cast(pa.float64()), 1e6)).cast(pa.int64())
    return seconds.cast(pa.string()).fill_null("")
