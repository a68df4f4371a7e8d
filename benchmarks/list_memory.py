"""The memory of a listing of 100,000 and of 1,000,000 files: `python -m benchmarks.list_memory`.

Each listing runs in a process of its own. The consumer keeps nothing. One store makes up its keys
page by page, lists in order and takes its time as a store behind a network does, so that all
workers have work at both sizes; the other is a local folder.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from pathlib import Path

import pyarrow as pa

from lakesweep.storage.file_batches import use_system_allocator
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import (
    ENTRY_SCHEMA,
    ListingPage,
    ObjectStore,
    StorageCapabilities,
)
from lakesweep.storage.stores import Stores

SIZES = (100_000, 1_000_000)
AIM = 1.1
_PAGE_ROWS = 1_000
_PAGE_SECONDS = 0.02
_FILES_A_FOLDER = 10_000


class MadeUpStore:
    """A flat folder of `count` files that exist only in the pages that are asked for."""

    base = "memory://made-up/"
    capabilities = StorageCapabilities(delete_batch=1, ordered=True)

    def __init__(self, count: int) -> None:
        self._files = range(count)

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        assert prefix == "t/"
        assert not (one_level and after)
        time.sleep(_PAGE_SECONDS)
        start = (
            cursor if isinstance(cursor, int) else bisect_right(self._files, after, key=self._key)
        )
        end = min(start + _PAGE_ROWS, len(self._files))
        keys = [self._key(number) for number in range(start, end)]
        columns = [
            pa.array(keys, pa.string()),
            pa.array(range(start, end), pa.int64()),
            pa.nulls(len(keys), ENTRY_SCHEMA.field("modified").type),
            pa.array([f"{number:032x}" for number in range(start, end)], pa.string()),
        ]
        entries = pa.RecordBatch.from_arrays(columns, schema=ENTRY_SCHEMA)
        return ListingPage(entries, (), end if end < len(self._files) else None)

    def _key(self, number: int) -> str:
        """Evenly spread names, as random ones are in the long run."""
        return f"t/{(number << 32) // len(self._files):08x}-5a31-4b1c-a0cc-4c1f0e5d2a11.parquet"


def _fill(folder: Path, count: int) -> None:
    for number in range(count):
        parent = folder / f"day={number // _FILES_A_FOLDER:05d}"
        if number % _FILES_A_FOLDER == 0:
            parent.mkdir()
        (parent / f"data-{number:09d}.parquet").touch()


def _list(location: str, count: int) -> dict[str, float]:
    """List in this process and measure it; what was loaded before the listing is left out."""
    use_system_allocator()
    made_up: dict[str, ObjectStore] = {MadeUpStore.base: MadeUpStore(count)}  # type: ignore[dict-item]
    stores = Stores(replace=made_up)
    before, start = _peak_bytes(), time.perf_counter()
    found = sum(batch.num_rows for batch in list_files(stores, location))
    assert found == count, found
    seconds = time.perf_counter() - start
    return {"before": before, "peak": _peak_bytes(), "seconds": seconds}


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _in_new_process(location: str, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.list_memory", "--list", location, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _report(name: str, results: dict[int, dict[str, float]]) -> None:
    for count, result in results.items():
        rate = count / result["seconds"]
        print(
            f"{name:8} {count:>9,} files  peak {result['peak'] / 1e6:6.1f} MB"
            f"  (before {result['before'] / 1e6:6.1f} MB)  {rate:9,.0f} files/s"
        )
    small, large = (results[count]["peak"] for count in SIZES)
    print(f"{name:8} peak at {SIZES[1]:,} / at {SIZES[0]:,}: {large / small:.2f} x (aim {AIM})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", nargs=2, metavar=("LOCATION", "COUNT"), help=argparse.SUPPRESS)
    parser.add_argument("--local", action="store_true", help="measure a local folder as well")
    arguments = parser.parse_args()
    if arguments.list:
        location, count = arguments.list
        print(json.dumps(_list(location, int(count))))
        return
    made_up = MadeUpStore.base + "t/"
    _report("made up", {count: _in_new_process(made_up, count) for count in SIZES})
    if arguments.local:
        _report("local", {count: _measure_local(count) for count in SIZES})


def _measure_local(count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        _fill(Path(folder), count)
        return _in_new_process(folder + "/", count)


if __name__ == "__main__":
    main()
