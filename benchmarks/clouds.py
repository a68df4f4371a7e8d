"""Listing and deleting on the servers of `make test-clouds`.

    scripts/setup-clouds
    python -m benchmarks.clouds                        # 2,000 keys on each server
    python -m benchmarks.clouds --server azurite

An emulator is not the service: the figures say what a batch saves, not how fast a cloud is.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import ObjectStore, Outcome
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.stores import Stores
from tests.clouds.servers import SERVERS, Cloud, is_set_up


def fill(store: ObjectStore, keys: int) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.write(f"t/p={n % 20}/{n:06}", b"x"), range(keys)))


def listed(base: str, options: StorageOptions) -> pa.Table:
    return pa.Table.from_batches(list_files(Stores({base: options}), f"{base}t"), FILE_SCHEMA)


def deleted(base: str, options: StorageOptions, files: pa.Table, *, verify: bool) -> int:
    batches = delete_files(Stores({base: options}), files.to_batches(), verify=verify)
    outcomes = [outcome for batch in batches for outcome in batch["outcome"].to_pylist()]
    return outcomes.count(Outcome.DELETED)


def report(what: str, keys: int, work: Callable[[], int]) -> None:
    started, cpu = time.perf_counter(), time.process_time()
    assert work() == keys
    seconds, spent = time.perf_counter() - started, time.process_time() - cpu
    print(f"  {what:34} {keys / seconds:9,.0f} a second {keys / spent:9,.0f} a CPU second of ours")


def measure(cloud: Cloud, keys: int) -> None:
    base = cloud.make_bucket()
    store, options = cloud.store(base), cloud.options
    ways = {
        "delete, in batches": (options, False),
        "delete what was listed, in batches": (options, True),
        "delete, a request for each key": (replace(options, delete_batch=1), False),
    }
    for what, (how, verify) in ways.items():
        fill(store, keys)
        files = listed(base, options)
        if how is options and not verify:
            report("list", keys, lambda: listed(base, options).num_rows)
        report(what, keys, partial(deleted, base, how, files, verify=verify))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--server", choices=list(SERVERS), action="append")
    arguments = parser.parse_args()
    if not is_set_up():
        print("no servers: run scripts/setup-clouds first")
        sys.exit()
    for name in arguments.server or SERVERS:
        print(name)
        with SERVERS[name]() as cloud:
            measure(cloud, arguments.keys)


if __name__ == "__main__":
    main()
