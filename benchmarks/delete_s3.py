"""Deleting from an S3 bucket: boto3's delete_objects in one thread against ours.

    python -m benchmarks.delete_s3                  # 50,000 keys, the model server
    python -m benchmarks.delete_s3 --server rclone  # the same keys as files behind rclone

The CPU time is the client's alone: it says what is left for others where the server is slow.
"""

from __future__ import annotations

import argparse
from functools import partial

import pyarrow as pa

from benchmarks import contest
from benchmarks.list_s3 import rclone_with_files
from benchmarks.model_s3 import Bucket, model_server
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.stores import Stores
from tests.servers import S3Server

BATCH = 1000


def batches(keys: list[str]) -> list[list[str]]:
    return [keys[start : start + BATCH] for start in range(0, len(keys), BATCH)]


def with_boto3(server: S3Server, bucket: str, keys: list[str]) -> int:
    client, count = server.boto3(), 0
    for batch in batches(keys):
        objects = [{"Key": key} for key in batch]
        answer = client.delete_objects(Bucket=bucket, Delete={"Objects": objects})
        count += len(answer["Deleted"])
    return count


def one_by_one(server: S3Server, bucket: str, keys: list[str]) -> int:
    store = S3Store(bucket, server.options())
    deletions = (deletion for batch in batches(keys) for deletion in store.delete(batch))
    return sum(deletion.outcome is Outcome.DELETED for deletion in deletions)


def in_parallel(server: S3Server, bucket: str, keys: list[str]) -> int:
    stores = Stores({f"s3://{bucket}": server.options()})
    paths = pa.array([f"s3://{bucket}/{key}" for key in keys])
    files = pa.record_batch({"path": paths, "size_bytes": pa.nulls(len(keys), pa.int64())})
    outcomes = (batch["outcome"].to_pylist() for batch in delete_files(stores, [files]))
    return sum(outcome == Outcome.DELETED for batch in outcomes for outcome in batch)


CONTENDERS = {
    "boto3 delete_objects": with_boto3,
    "ours, request by request": one_by_one,
    "ours, in parallel": in_parallel,
}


def compare(server: S3Server, title: str, bucket: str, keys: list[str], rounds: int) -> None:
    """Keys that are gone are deleted again in later rounds: the model takes as long for them."""
    actions = {name: partial(action, server, bucket, keys) for name, action in CONTENDERS.items()}
    contest.hold(title, len(keys), actions, rounds)


def compare_on_rclone(keys: list[str]) -> None:
    """Files are gone after one run, so each contender gets a bucket of its own."""
    buckets = [f"nested-{number}" for number in range(len(CONTENDERS))]
    with rclone_with_files(len(keys), buckets) as server:
        actions = {
            name: partial(action, server, bucket, keys)
            for bucket, (name, action) in zip(buckets, CONTENDERS.items(), strict=True)
        }
        contest.hold("rclone", len(keys), actions, rounds=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--server", choices=["model", "rclone"], default="model")
    arguments = parser.parse_args()
    keys = Bucket("nested", arguments.keys).keys
    if arguments.server == "rclone":
        compare_on_rclone(keys)
        return
    for latency_ms in (0, 50):
        with model_server(arguments.keys, latency_ms) as server:
            title = f"model server, {latency_ms} ms an answer"
            compare(server, title, "nested", keys, arguments.rounds)


if __name__ == "__main__":
    main()
