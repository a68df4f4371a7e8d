"""The engine's lake behind a real S3 server, for tests that go all the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesweep.storage.s3.store import S3Store
from tests.lake import BUCKET, EngineLake
from tests.servers import S3Server, moto_server


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EngineLake:
    """The lake as it was written; nobody changes it."""
    return EngineLake.unpack(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="session")
def engine_server() -> Iterator[S3Server]:
    """A server of its own, because the lake's addresses say that the bucket is called `lake`."""
    with moto_server() as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture
def bucket(engine_server: S3Server, engine: EngineLake) -> S3Server:
    """The server, its bucket holding what the engine wrote, whatever earlier tests deleted."""
    store = S3Store(BUCKET, engine_server.options())
    there = stored(engine_server)
    for key, data in engine.objects.items():
        if f"s3://{BUCKET}/{key}" not in there:
            store.write(key, data)
    return engine_server


def stored(server: S3Server) -> set[str]:
    """The address of every object in the bucket, as another client lists it."""
    pages = server.boto3().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    entries = (entry for page in pages for entry in page.get("Contents", ()))
    return {f"s3://{BUCKET}/{entry['Key']}" for entry in entries}
