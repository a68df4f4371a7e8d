"""Marks of tests: made in this process, and read back as sets."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from lakesweep.storage.address import identity
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.local_engine import LocalMarkEngine
from lakesweep.sweep.mark.mark_sink import is_among
from lakesweep.sweep.mark.marker import MarkSpec
from lakesweep.sweep.mark.marks import Marks, RootMark, RootState
from lakesweep.sweep.mark.root_status import trace

_numbers = count()


def spec_for(stores: Stores, cache: Marks | None = None) -> MarkSpec:
    """Marks in memory, at an address of their own."""
    address = f"memory://marks-{next(_numbers)}/marks"
    return MarkSpec(LocalMarkEngine(stores), stores, address, cache)


def live(stores: Stores, marks: Marks) -> set[tuple[str, str]]:
    """(kind, identity) of all that is referenced."""
    batches = read_dataset(stores, marks.content)
    return {(row["kind"], identity(row["path"])) for b in batches for row in b.to_pylist()}


def live_of(stores: Stores, marks: Marks, root: RootMark) -> set[tuple[str, str]]:
    """(kind, identity) of all that one root references."""
    assert root.source is not None
    lineage = trace([root.source], lambda: read_dataset(stores, marks.datasets["edges"]))
    found: set[tuple[str, str]] = set()
    for batch in read_dataset(stores, marks.content):
        chosen = is_among(batch["source"].to_numpy(), lineage.sources)
        rows = [row for row, wanted in zip(batch.to_pylist(), chosen, strict=True) if wanted]
        found |= {(row["kind"], identity(row["path"])) for row in rows}
    return found


def states(marks: Marks) -> dict[str, RootState]:
    return {root.name: root.state for root in marks.roots}


def root(marks: Marks, name: str) -> RootMark:
    return next(root for root in marks.roots if root.name == name)


def incomplete(marks: Marks) -> set[str]:
    return {root.name for root in marks.in_state(RootState.INCOMPLETE)}


def paths(rows: Iterable[tuple[str, str]]) -> set[str]:
    return {path for _, path in rows}
