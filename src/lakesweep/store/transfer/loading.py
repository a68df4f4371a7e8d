"""Writing what an export holds into the rows of a realm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakesweep.store import frames
from lakesweep.store.backend import ObjectRow
from lakesweep.store.payloads import PAGE_BYTES, PAGE_ROWS, Payload
from lakesweep.store.realm import Realm


def load(realm: Realm, items: Iterable[Payload | ObjectRow]) -> None:
    """Write objects or rows. Whoever does it again writes the same bytes to the same rows."""
    rows: list[ObjectRow] = []
    size = 0
    for item in items:
        for row in [item] if isinstance(item, ObjectRow) else _rows(item):
            rows.append(row)
            size += len(row.value)
            if len(rows) >= PAGE_ROWS or size >= PAGE_BYTES:
                _write(realm, rows)
                rows, size = [], 0
    _write(realm, rows)


def _write(realm: Realm, rows: Sequence[ObjectRow]) -> None:
    realm.backend.write(realm.name, [row for row in rows if row.token is None])
    for row in rows:
        if row.token is not None:
            # Others may change it once the realm is active. A write of ours that was lost and comes
            # late must not undo that, so it only ever creates the row.
            realm.backend.insert_row(realm.name, row)


def _rows(item: Payload) -> Sequence[ObjectRow]:
    if len(item.payload) <= frames.MAX_WHOLE_BYTES:
        values: Sequence[bytes] = [frames.whole(item.payload)]
    else:
        # Each write of the object writes the same, so they may all have the same generation.
        values = frames.parts(item.payload, item.id)
    return [
        ObjectRow(item.id, part, item.type, item.created_at, item.token, value)
        for part, value in enumerate(values)
    ]
