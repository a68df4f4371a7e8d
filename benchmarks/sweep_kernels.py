"""The kernels of a sweep, one core: ours against what Python, numpy and Arrow offer for the same.

    python -m benchmarks.sweep_kernels            # with a filter of one whole shard, 256 MB
    python -m benchmarks.sweep_kernels --small    # without

Rates are rows per second of CPU time, the best of several rounds, in batches as a task gets them;
slow peers get fewer rows. A ratio is ours over the peer's.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.contest import per_cpu_second
from lakesweep.hashing import Hashes
from lakesweep.hashing.bloom_filter import MOST_SHARD_BYTES, BloomFilter, shape_for
from lakesweep.iceberg.file_kinds import kinds_by_name
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.judge.reasons import JudgeRules, judge
from lakesweep.sweep.judge.totals import count_verdicts
from lakesweep.sweep.paths.file_names import FileNames
from lakesweep.sweep.paths.folder_map import FolderMap

_BATCH = 1 << 16
_FOLDERS = 100_000
_NOW = datetime(2026, 6, 1, tzinfo=UTC)
_DRAW = np.random.default_rng(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="no filter of 256 MB")
    small = parser.parse_args().small
    measure_bloom(2_000_000)
    if not small:
        measure_bloom(int(MOST_SHARD_BYTES * 8 / 29.7))
    folders, paths = _lake()
    measure_owners(folders, paths)
    measure_names(paths)
    measure_judging(folders, paths)


def measure_bloom(keys: int) -> None:
    bloom = BloomFilter(shape_for(keys, 1e-5, salt=7))
    print(f"\nBloom filter for {keys:,} keys, {bloom.shape.bits / 2**23:,.0f} MB")
    known, strangers = _hashes(1_000_000), _hashes(1_000_000)
    for start in range(1_000_000, keys, 1_000_000):
        bloom.add(_hashes(min(1_000_000, keys - start)))
    _show("add", _rate(lambda: bloom.add(known), 1_000_000))
    asked = _show("ask for what is there", _rate(lambda: bloom.contains(known), 1_000_000))
    _show("ask for strangers", _rate(lambda: bloom.contains(strangers), 1_000_000))
    _show_peers(asked, _peers_of_bloom(known))
    seen = sum(int(bloom.contains(_hashes(1_000_000)).sum()) for _ in range(10))
    expected = bloom.fill().expected_fpp
    print(f"{'false positives':34}{seen / 1e7:.2e} seen, {expected:.2e} expected")


def _peers_of_bloom(known: Hashes) -> dict[str, float]:
    numbers = pa.array(known[0].view(np.int64))
    some = numbers.slice(0, 200_000)
    as_set = set(zip(*(words.tolist() for words in known), strict=True))
    asked = list(zip(*(words[:200_000].tolist() for words in known), strict=True))
    return {
        "Python's set": _rate(lambda: [pair in as_set for pair in asked], 200_000),
        "Arrow's is_in (64 bits)": _rate(lambda: pc.is_in(some, value_set=numbers), 200_000),
        "numpy's isin (64 bits)": _rate(lambda: np.isin(known[0][:200_000], known[0]), 200_000),
    }


def measure_owners(folders: list[str], paths: list[str]) -> None:
    print(f"\ninnermost of {len(folders):,} folders")
    found = FolderMap((folder, folder) for folder in folders)
    ordered = pa.array(sorted(paths))
    mixed = pa.array(paths)
    _show("in the order of a listing", _rate(lambda: _by_batches(found.find, ordered), len(paths)))
    ours = _show("in random order", _rate(lambda: _by_batches(found.find, mixed), len(paths)))
    trie = _trie(folders)
    some = paths[:50_000]
    _show_peers(
        ours, {"a trie in Python": _rate(lambda: [_walk(trie, path) for path in some], len(some))}
    )


def measure_names(paths: list[str]) -> None:
    print("\nkinds by name")
    column = pa.array(paths)
    ours = _show("a glance, then patterns", _rate(lambda: FileNames(column).kinds(), len(paths)))
    _show_peers(ours, {"patterns in Arrow": _rate(lambda: kinds_by_name(column), len(paths))})


def measure_judging(folders: list[str], paths: list[str]) -> None:
    print("\njudging and counting")
    tables = FolderMap((folder, folder) for folder in folders)
    rules = JudgeRules(
        now=_NOW,
        cutoff=_NOW - timedelta(days=7),
        locations=FolderMap([("s3://lake-bucket/", "lake")]),
        tables=tables,
    )
    listing = _listing(paths)
    rates = [_measure_judge(listing, share, rules) for share in (1.0, 0.95, 0.5, 0.0)]
    rows = list(_judge(listing, pa.array(_DRAW.random(len(paths)) < 0.5), rules))
    counted = _show(
        "count by all dimensions",
        _rate(lambda: [count_verdicts(batch, batch["path"], rules) for batch in rows], len(paths)),
    )
    trie, some = _trie(folders), listing.slice(0, 20_000).to_pylist()
    cutoff = rules.cutoff
    _show_peers(
        rates[-1],
        {"a loop in Python": _rate(lambda: [_naive(row, trie, cutoff) for row in some], 20_000)},
    )
    judged = rows[0].slice(0, 20_000).to_pylist()
    _show_peers(counted, {"a Counter in Python": _rate(lambda: _count(judged), len(judged))})


def _measure_judge(listing: pa.RecordBatch, share: float, rules: JudgeRules) -> float:
    live = pa.array(_DRAW.random(listing.num_rows) < share)
    rate = _rate(lambda: list(_judge(listing, live, rules)), listing.num_rows)
    return _show(f"judge, {share:.0%} referenced", rate)


def _judge(listing: pa.RecordBatch, live: pa.Array, rules: JudgeRules) -> Iterator[pa.RecordBatch]:
    for start in range(0, listing.num_rows, _BATCH):
        batch = listing.slice(start, _BATCH)
        yield judge(batch, batch["path"], live.slice(start, _BATCH), rules)


def _naive(row: dict[str, Any], trie: dict[str, Any], cutoff: datetime) -> tuple[str, str, str]:
    """What the least judge in Python must do for a file that nothing references."""
    path = row["path"]
    table = _walk(trie, path)
    if row["modified"] is None or row["modified"] >= cutoff:
        return "keep", "too-new", table
    if any(name[:1] in (".", "_") for name in path.split("/")[3:]):
        return "keep", "hidden", table
    return ("delete" if path.endswith((".parquet", ".orc", ".avro")) else "keep"), "", table


def _count(rows: list[dict[str, Any]]) -> Counter[tuple[str, Any]]:
    counter: Counter[tuple[str, Any]] = Counter()
    for row in rows:
        for name in ("reason", "rule", "table", "verdict"):
            counter[name, row[name]] += row["size_bytes"]
    return counter


def _lake() -> tuple[list[str], list[str]]:
    draw = random.Random(1)
    folders = [
        f"s3://lake-bucket/warehouse/db_{number % 300:03d}/table_{number:06d}/"
        for number in range(_FOLDERS)
    ]
    paths = [
        f"{draw.choice(folders)}data/dt=2026-01-{number % 28 + 1:02d}/"
        f"00000-{number}-{draw.getrandbits(128):032x}-00001.parquet"
        for number in range(8 * _BATCH)
    ]
    return folders, paths


def _listing(paths: list[str]) -> pa.RecordBatch:
    count = len(paths)
    moment = int(_NOW.timestamp() * 1_000_000)
    times = _DRAW.integers(moment - 40 * 86_400_000_000, moment, count)
    numbers = pa.array(np.arange(count))
    columns = [pa.array(paths), numbers, pa.array(times).cast(LISTING.field("modified").type)]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.nulls(count, pa.string()), numbers, numbers], schema=LISTING
    )


def _trie(folders: list[str]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for folder in folders:
        node = root
        for name in folder.split("/")[:-1]:
            node = node.setdefault(name, {})
        node["/"] = folder
    return root


def _walk(trie: dict[str, Any], path: str) -> str:
    best: str = ""
    node = trie
    for name in path.split("/"):
        best = node.get("/", best)
        if name not in node:
            return best
        node = node[name]
    return best


def _hashes(count: int) -> Hashes:
    low, high = _DRAW.integers(0, 2**64, (2, count), dtype=np.uint64)
    return low, high


def _by_batches(find: Callable[[pa.Array], Any], paths: pa.Array) -> None:
    for start in range(0, len(paths), _BATCH):
        find(paths.slice(start, _BATCH))


def _rate(action: Callable[[], Any], count: int) -> float:
    def counted() -> int:
        action()
        return count

    return per_cpu_second(counted, rounds=5)


def _show(name: str, rate: float) -> float:
    print(f"{name:34}{rate:>13,.0f} a second")
    return rate


def _show_peers(ours: float, peers: dict[str, float]) -> None:
    for name, rate in peers.items():
        print(f"  {name:32}{rate:>13,.0f} a second, ours {ours / rate:>6.1f}x")


if __name__ == "__main__":
    main()
