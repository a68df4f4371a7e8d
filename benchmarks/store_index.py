"""What indexes cost: 100k random keys in commits of 1, 100 and 10k, then reading a large tree.

Bytes are all that a database is handed: the index inside every commit object, and its nodes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from lakesweep.store.index import BYTES, Index, IndexUpdate, NodeCache
from lakesweep.store.index.keys import encode

_KEYS = 100_000
_ROUNDS = 5
_VALUE = bytes(12)


class Shelf:
    """Nodes in memory, and what was moved."""

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        self.written = 0
        self.loaded = 0
        self.trips = 0

    def load(self, ids: Sequence[int]) -> list[bytes]:
        self.trips += 1
        rows = [self._rows[id_] for id_ in ids]
        self.loaded += sum(map(len, rows))
        return rows

    def write(self, data: bytes) -> int:
        self._rows.append(data)
        self.written += len(data)
        return len(self._rows) - 1


def _random_keys() -> list[bytes]:
    source = random.Random(7)
    letters = b"abcdefghijklmnopqrstuvwxyz0123456789"
    return [bytes(source.choices(letters, k=32)) for _ in range(_KEYS)]


def _grow(keys: Sequence[bytes], batch: int) -> None:
    shelf = Shelf()
    index = Index.empty(BYTES, NodeCache(shelf.load))
    heads = 0
    start = time.process_time()
    for i in range(0, len(keys), batch):
        update = IndexUpdate(index, shelf.write)
        for key in keys[i : i + batch]:
            update.put(key, _VALUE)
        index = update.finish()
        heads += len(index.to_bytes())
    seconds = time.process_time() - start
    print(
        f"{batch:>6,} a commit{seconds:>9.1f} CPU s{index.stats().stripes:>6} stripes"
        f"{(heads + shelf.written) / 1e6:>8.0f} MB written ({heads / 1e6:.0f} in commit objects)"
        f"{len(index.to_bytes()):>8,} B the last one"
    )


def _tree(shelf: Shelf) -> bytes:
    """100k tables: 20 namespaces of 50 folders of 100."""
    update = IndexUpdate(Index.empty(BYTES, NodeCache(shelf.load)), shelf.write)
    for i in range(_KEYS):
        folder, table = divmod(i, 100)
        space, folder = divmod(folder, 50)
        update.put(encode((f"namespace{space}", f"folder{folder}", f"table_{table}")), _VALUE)
    return update.finish().to_bytes()


def _top_by_scan(index: Index[bytes]) -> int:
    width = len(encode(("namespace1",)))
    return len({key[:width] for key, _ in index.items()})


def _read(shelf: Shelf, data: bytes, action: Callable[[Index[bytes]], int]) -> float:
    """The best seconds of reading with nothing loaded before."""
    best = float("inf")
    for _ in range(_ROUNDS):
        shelf.loaded = shelf.trips = 0
        index = Index.parse(data, BYTES, NodeCache(shelf.load))
        start = time.process_time()
        action(index)
        best = min(best, time.process_time() - start)
    return best


def _report(name: str, count: int, seconds: float, shelf: Shelf) -> None:
    print(
        f"{name:22}{seconds * 1e3:>9.2f} ms{count / seconds:>12,.0f} a second"
        f"{shelf.loaded / 1e6:>7.1f} MB in {shelf.trips} round trips"
    )


def main() -> None:
    keys = _random_keys()
    print(
        f"{_KEYS:,} random keys of 32 bytes, values of 12 (model, 1 a commit: 4.46 GB, 653 stripes)"
    )
    for batch in (1, 100, 10_000):
        _grow(keys, batch)
    shelf = Shelf()
    data = _tree(shelf)
    print("\nreading 100,000 entries, nothing loaded before")
    full = _read(shelf, data, _top_by_scan)
    _report("full scan", _KEYS, full, shelf)
    skip = _read(shelf, data, lambda index: len(list(index.heads())))
    _report("top level by skip-scan", 20, skip, shelf)
    print(f"{'ratio':22}{full / skip:>9.0f} x")
    sample = [
        encode((f"namespace{i % 20}", f"folder{i % 50}", f"table_{i % 100}")) for i in range(2000)
    ]
    _report(
        "get", 2000, _read(shelf, data, lambda index: sum(key in index for key in sample)), shelf
    )


if __name__ == "__main__":
    main()
