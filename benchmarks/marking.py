"""Marking a large table, first and again: `python -m benchmarks.marking`.

The table is that of `iceberg_reach`: 200 thin manifests of 1,000 entries each, in a local folder;
`--wide` gives the entries the statistics of 20 columns. Marking reads, hashes, counts and stores
all that the table references; it is held against decoding the same manifests and keeping nothing.
The second marking takes over what the first one stored.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import count
from pathlib import Path

from benchmarks.contest import hold
from benchmarks.iceberg_reach import MANIFESTS, PER_MANIFEST, decode, make_table, walk
from lakesweep.storage.file_batches import use_system_allocator
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.local_engine import LocalMarkEngine
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marker import MarkSpec
from lakesweep.sweep.mark.marks import Marks
from lakesweep.sweep.roots.iceberg import MetadataRoots


class Bench:
    """One table, and marks of it in folders beside it."""

    def __init__(self, folder: Path, path: str) -> None:
        self.folder = folder
        self.stores = Stores()
        self.roots = MetadataRoots(self.stores, [path])
        self._numbers = count()
        self.first = self.mark()

    def mark(self, cache: Marks | None = None) -> Marks:
        address = f"{self.folder}/marks-{next(self._numbers)}"
        engine = LocalMarkEngine(self.stores)
        return mark(MarkSpec(engine, self.stores, address, cache), [self.roots])


def main() -> None:
    parser = argparse.ArgumentParser(description="Marking a large table.")
    parser.add_argument("--wide", action="store_true", help="entries with statistics")
    kind = "wide" if parser.parse_args().wide else "thin"
    use_system_allocator()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(folder, make_table(folder, kind))
        count = MANIFESTS * (PER_MANIFEST + 1) + 2
        contenders = {
            "decoding alone": lambda: decode(folder),
            "walk (reach)": lambda: walk(f"{folder}/00000-t.metadata.json"),
            "first marking": lambda: bench.mark().content.rows,
            "second marking": lambda: bench.mark(bench.first).content.rows,
        }
        hold(f"marking a table, {kind}", count, contenders, rounds=3)


if __name__ == "__main__":
    main()
