"""Parse a column of addresses at once and group the rows by store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import UsageError
from lakesweep.storage.address import Address, parse

RowNumbers = npt.NDArray[np.int64]

# The part before the key. The single slash is tried last and never before another slash, where
# `parse` would see a host.
_BASES = (
    r"^(?P<base>/|(?i:file):///|(?i:https?)://[^/]+/[^/]+/|[^:/]+://[^/]+/)",
    r"^(?P<base>(?i:file):/)[^/]",
)


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """Rows with keys in one store. `root` is an address of that store, without a key."""

    root: Address
    rows: RowNumbers
    keys: pa.Array


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """Rows that name no object, all for the same reason."""

    rows: RowNumbers
    reason: str


def group_by_store(paths: pa.Array) -> tuple[list[StoreGroup], list[RejectedRows]]:
    """Each row is in exactly one group; groups keep the order of rows.

    Costs a few passes over the column for each spelling of a store, and no work per row.
    """
    bases = _bases(paths).dictionary_encode()
    numbers = bases.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    groups: dict[str, StoreGroup] = {}
    rejected = list(_reject(paths, np.flatnonzero(numbers < 0)))
    for number, base in enumerate(bases.dictionary.to_pylist()):
        rows = np.flatnonzero(numbers == number)
        try:
            root = parse(base)
        except UsageError as error:
            rejected.append(RejectedRows(rows, error.message))
            continue
        keys = pc.utf8_slice_codeunits(paths.take(pa.array(rows)), len(base))
        group = StoreGroup(root, rows, keys)
        known = groups.get(root.store_id)
        groups[root.store_id] = group if known is None else _merge(known, group)
    named = [_without_empty(group, rejected) for group in groups.values()]
    return [group for group in named if len(group.rows)], rejected


def _bases(paths: pa.Array) -> pa.Array:
    found = (pc.struct_field(pc.extract_regex(paths, pattern), "base") for pattern in _BASES)
    return pc.coalesce(*found)


def _reject(paths: pa.Array, rows: RowNumbers) -> Iterator[RejectedRows]:
    """The reasons for paths without a store or a key."""
    for row in rows:
        try:
            parse(paths[int(row)].as_py())
        except UsageError as error:
            yield RejectedRows(np.array([row]), error.message)
        else:
            yield RejectedRows(np.array([row]), _NO_OBJECT)


_NO_OBJECT = "names a whole store, not an object"


def _merge(one: StoreGroup, other: StoreGroup) -> StoreGroup:
    rows = np.concatenate([one.rows, other.rows])
    order = np.argsort(rows)
    keys = pa.concat_arrays([one.keys, other.keys]).take(pa.array(order))
    return StoreGroup(one.root, rows[order], keys)


def _without_empty(group: StoreGroup, rejected: list[RejectedRows]) -> StoreGroup:
    is_named = pc.not_equal(group.keys, "")
    mask = is_named.to_numpy(zero_copy_only=False)
    if mask.all():
        return group
    rejected.append(RejectedRows(group.rows[~mask], _NO_OBJECT))
    return StoreGroup(group.root, group.rows[mask], group.keys.filter(is_named))
