"""No answer that a store fails to give makes a table look smaller."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakesweep.errors import IncompleteError, LakesweepError, UnavailableError
from lakesweep.marks.unreadable import Strict
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.walk import reached_files
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, Recording, StorageFault, fail
from tests.paimon import JavaTable, JavaWarehouses


@pytest.fixture(params=["branched", "pk_decoupled", "pk_dv"])
def java(request: pytest.FixtureRequest, java_tables: JavaWarehouses) -> JavaTable:
    return java_tables.table(request.param)


def reach(java: JavaTable, store: ObjectStore) -> None:
    """Walk the whole table, and raise what it meets."""
    table = PaimonTable.open(Stores(replace={"/": store}), str(java.folder))
    for _ in reached_files(table, Strict(), workers=2):
        pass


def calls_of(java: JavaTable, *methods: str) -> list[str]:
    """What these methods are asked for in a walk without faults, each key once."""
    recording = Recording(LocalStore())
    reach(java, recording)
    return list(dict.fromkeys(recording.keys(*methods)))


def harmed(key: str, method: str, effect: Callable[[InterceptedCall], object]) -> ObjectStore:
    fault = StorageFault(effect, methods=frozenset({method}), key=lambda asked: asked == key)
    return Faulty(LocalStore(), [fault])


@pytest.mark.parametrize("method", ["list", "read"])
def test_a_call_that_gets_no_answer_ends_the_walk(java: JavaTable, method: str) -> None:
    for key in calls_of(java, method):
        with pytest.raises(IncompleteError, match="injected fault"):
            reach(java, harmed(key, method, fail(UnavailableError)))


def is_there(key: str) -> bool:
    return Path("/", key).exists()


def half(call: InterceptedCall) -> object:
    data = call.proceed()
    return data[: len(data) // 2]


def test_half_an_answer_ends_the_walk(java: JavaTable) -> None:
    for key in filter(is_there, calls_of(java, "read")):
        with pytest.raises(LakesweepError):
            reach(java, harmed(key, "read", half))


def header(call: InterceptedCall) -> object:
    """An Avro file without its blocks: a whole one, of no rows."""
    data = call.proceed()
    sync = data[-16:]
    return data[: data.index(sync) + len(sync)]


def test_a_list_that_lost_its_manifests_ends_the_walk(java_tables: JavaWarehouses) -> None:
    java = java_tables.table("s_dv")  # of a version that writes down no sizes of lists
    newest = max((java.folder / "snapshot").glob("snapshot-*"), key=lambda path: path.name)
    snapshot = json.loads(newest.read_text())
    assert "deltaManifestListSize" not in snapshot
    for name in ("baseManifestList", "deltaManifestList"):
        key = str(java.folder / "manifest" / snapshot[name]).lstrip("/")
        with pytest.raises(IncompleteError, match="names no manifest"):
            reach(java, harmed(key, "read", header))


def test_an_index_manifest_that_lost_its_entries_ends_the_walk(java_tables: JavaWarehouses) -> None:
    """Of tables whose buckets all have an index; of others it may be empty by right."""
    java = java_tables.table("pk_dynamic")
    for path in (java.folder / "manifest").glob("index-manifest-*-0"):
        if path.read_bytes().startswith(b"Obj"):
            with pytest.raises(IncompleteError, match="names no index file"):
                reach(java, harmed(str(path).lstrip("/"), "read", header))
