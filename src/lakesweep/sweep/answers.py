"""What tasks tell the driver: a few short rows, whatever the number of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

T = TypeVar("T")

#: `what` names the type of a document.
ANSWERS = pa.schema(
    [
        pa.field("what", pa.string(), nullable=False),
        pa.field("document", pa.string(), nullable=False),
    ]
)


def answer(what: str, documents: Iterable[Any]) -> pa.RecordBatch:
    """Documents as rows."""
    rows = [{"what": what, "document": msgspec.json.encode(one).decode()} for one in documents]
    return pa.RecordBatch.from_pylist(rows, schema=ANSWERS)


def answers_of(rows: pa.Table, what: str, kind: type[T]) -> Iterator[T]:
    """The documents of one type."""
    for row in rows.to_pylist():
        if row["what"] == what:
            yield msgspec.json.decode(row["document"], type=kind)
