"""One range of lakeFS: what its blocks cost that nobody can save, and readers of it."""

from __future__ import annotations

import hashlib
import importlib
import random
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cramjam

from lakesweep.lakefs.ranges.reader import decode_range
from lakesweep.lakefs.ranges.record_kernels import FRAME_BYTES
from lakesweep.lakefs.ranges.sstable import (
    SSTableType,
    _data_handles,
    _read_properties,
    open_sstable,
    read_footer,
)
from lakesweep.lifecycle.entries.reader import READ
from tests.lakefs_tables import Entry, Written, write_table

_LETTERS = "0123456789abcdefghijklmnopqrstuv"


def make_range(entries: int) -> Written:
    chance = random.Random(7)

    def entry(number: int) -> tuple[bytes, bytes]:
        key = f"tables/t{number % 7}/year={2020 + number % 5}/part-{number:08}-{chance.random()}"
        name = "".join(chance.choices(_LETTERS, k=10))
        value = Entry(
            f"data/ftaa4b9ksduculm4uor0/d6ujdg1ks{name}g",
            1_774_008_000 + number,
            123_456_789,
            chance.randrange(10**9),
            f"{chance.getrandbits(128):032x}",
            content_type="application/octet-stream",
        )
        return key.encode(), value.value()

    return write_table(sorted(map(entry, range(entries))), SSTableType.RANGES)


def find_checksum() -> tuple[str, Callable[[bytes], int]]:
    try:
        return "google-crc32c", importlib.import_module("google_crc32c").value
    except ImportError:
        import numpy as np

        from lakesweep.lakefs.ranges.checksums import TABLES, masked_checksum

        return "ours", lambda data: masked_checksum(
            np.frombuffer(data, np.uint8), 0, len(data), TABLES
        )


def limit(data: bytes) -> Callable[[], None]:
    """Fetch, check and inflate each block, and no more."""
    footer = read_footer("x", data)
    handles = _data_handles("x", data, footer, _read_properties("x", data, footer)).tolist()
    view, checksum = memoryview(data), find_checksum()[1]

    def run() -> None:
        for start, size in handles:
            checksum(data[start : start + size + 1])
            if data[start + size]:
                cramjam.snappy.decompress_raw(view[start : start + size])

    return run


def proof(data: bytes) -> Callable[[], object]:
    """Hash as many bytes as the id is proved by."""
    told = open_sstable("x", data, SSTableType.RANGES).properties
    records = bytes(told.key_bytes + told.value_bytes + FRAME_BYTES * told.records)
    return lambda: hashlib.sha256(records).digest()


def rocksdict_reader(data: bytes, folder: Path) -> Callable[[], None]:
    rocksdict: Any = importlib.import_module("rocksdict")
    file = folder / "range.sst"
    rounds = iter(range(1000))

    def run() -> None:
        file.write_bytes(data)
        database = rocksdict.Rdict(
            str(folder / f"db-{next(rounds)}"), rocksdict.Options(raw_mode=True)
        )
        database.ingest_external_file([str(file)])
        for _ in database.items():
            pass
        database.close()

    return run


def best_seconds(work: Callable[[], object], rounds: int) -> float:
    work()  # compiles, and warms
    found = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def contest(entries: int, rounds: int) -> None:
    """Print how many entries a second of one core each reader makes of one range."""
    table = make_range(entries)
    print(f"one range of {entries:,} entries, {len(table.data) / entries:.0f} bytes each")
    with TemporaryDirectory() as folder:
        works: dict[str, Callable[[], object]] = {
            f"fetch + CRC ({find_checksum()[0]}) + snappy": limit(table.data),
            "ours, ids proved": lambda: decode_range("x", table.data, table.id),
            "ours, ids proved, what runs need": lambda: decode_range(
                "x", table.data, table.id, READ
            ),
            "ours, without the proof": lambda: decode_range("x", table.data, None),
            "the same, what runs need": lambda: decode_range("x", table.data, None, READ),
            "the proof: SHA-256 alone": proof(table.data),
        }
        if find_spec("rocksdict") is None:
            print("rocksdict is not installed: pip install rocksdict")
        else:
            works["rocksdict, keys and values only"] = rocksdict_reader(table.data, Path(folder))
        seconds = {name: best_seconds(work, rounds) for name, work in works.items()}
    first = next(iter(seconds.values()))
    for name, taken in seconds.items():
        rate = entries / taken / 1e6
        print(f"{name:<42} {rate:6.2f} M entries/core-second  {first / taken:5.2f} x the limit")
