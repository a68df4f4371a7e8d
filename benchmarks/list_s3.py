"""Listing an S3 bucket: boto3's paginator in one thread against ours.

    python -m benchmarks.list_s3                    # 100,000 keys, the model server
    python -m benchmarks.list_s3 --server rclone    # the same keys as files behind rclone

The model server answers faster than any client reads, after a set latency; rclone walks its folders
for each page, so there the server is what is measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import botocore.parsers
import botocore.session

from benchmarks import contest
from benchmarks.model_s3 import Bucket, model_server
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.s3.keys import Encoding, decode
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.s3.xml_bodies import parse_page
from lakesweep.storage.stores import Stores
from tests.servers import S3Server, rclone_server


def with_boto3(server: S3Server, bucket: str) -> int:
    pages = server.boto3().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return sum(len(page["Contents"]) for page in pages)


def one_by_one(server: S3Server, bucket: str) -> int:
    store = S3Store(bucket, server.options())
    page = store.list("")
    count: int = page.entries.num_rows
    while page.next is not None:
        page = store.list("", cursor=page.next)
        count += page.entries.num_rows
    return count


def in_parallel(server: S3Server, bucket: str) -> int:
    stores = Stores({f"s3://{bucket}": server.options()})
    return sum(batch.num_rows for batch in list_files(stores, f"s3://{bucket}/"))


CONTENDERS = {
    "boto3 paginator": with_boto3,
    "ours, page by page": one_by_one,
    "ours, in parallel": in_parallel,
}


def compare(server: S3Server, title: str, bucket: str, *, keys: int, rounds: int) -> None:
    actions = {name: partial(action, server, bucket) for name, action in CONTENDERS.items()}
    contest.hold(f"{title}, {bucket}", keys, actions, rounds)


def compare_parsers() -> None:
    body = Bucket("nested", 1000).page({}).encode()
    model = botocore.session.get_session().get_service_model("s3")
    shape = model.operation_model("ListObjectsV2").output_shape
    parser = botocore.parsers.create_parser("rest-xml")
    answer = {"body": body, "headers": {}, "status_code": 200}

    def by_botocore() -> int:
        return len(parser.parse(answer, shape)["Contents"])

    def by_us() -> int:
        return len(decode(parse_page(body).keys, Encoding.FORM))

    theirs, ours = (contest.per_cpu_second(action) for action in (by_botocore, by_us))
    print(f"\none page of 1,000 keys ({len(body):,} bytes), keys per CPU second")
    print(f"{'botocore':26}{theirs:>10,.0f}\n{'ours':26}{ours:>10,.0f}{ours / theirs:>24.1f}x")


@contextmanager
def rclone_with_files(keys: int, layouts: Sequence[str]) -> Iterator[S3Server]:
    with rclone_server(cached=True) as server:
        assert server.folder is not None
        for layout in layouts:
            for key in Bucket(layout, keys).keys:
                path = server.folder / layout / key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        yield server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--server", choices=["model", "rclone"], default="model")
    parser.add_argument("--layouts", nargs="+", default=["nested", "flat"])
    arguments = parser.parse_args()
    size = {"keys": arguments.keys, "rounds": arguments.rounds}
    compare_parsers()
    if arguments.server == "rclone":
        with rclone_with_files(arguments.keys, arguments.layouts) as server:
            for layout in arguments.layouts:
                compare(server, "rclone", layout, **size)
        return
    for latency_ms in (0, 30):
        with model_server(arguments.keys, latency_ms) as server:
            for layout in arguments.layouts:
                compare(server, f"model server, {latency_ms} ms an answer", layout, **size)


if __name__ == "__main__":
    main()
