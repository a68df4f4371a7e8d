"""Azure Blob Storage on Azurite: the contract of object stores, and quarantine and restore."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest

from lakesweep.errors import DeniedError, MissingError
from lakesweep.storage.azure.store import AzureStore
from lakesweep.storage.contract import CHECKS, EXACT_KEYS, Subject
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.deleting.quarantine import quarantine_files
from lakesweep.storage.deleting.quarantine_store import QuarantineFolders
from lakesweep.storage.deleting.restore import restore_files
from lakesweep.storage.http_transport import HttpRequest
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.stores import Stores
from tests.processes import free_port, running

_PROGRAMME = Path(".clouds/azurite/node_modules/azurite/dist/src/blob/main.js").absolute()
#: The account and key that Azurite documents for all to use.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_NUMBERS = count()
# Azure takes dots for steps in a path and a backslash for a slash. Azurite does not say that it has
# no real folders, so keys with empty segments are refused too.
_REFUSED = {"a//b", "/lead", "trail/", "x/./y", "x/../y", "x/y/", "back\\slash"}


@pytest.fixture(scope="session")
def azurite() -> Iterator[StorageOptions]:
    port = free_port()
    with TemporaryDirectory(prefix="azurite-") as folder:
        command = [
            *("node", str(_PROGRAMME), "--inMemoryPersistence", "--disableTelemetry", "--silent"),
            *("--blobHost", "127.0.0.1", "--blobPort", str(port)),
        ]
        with running(command, Path(folder) / "log", r"successfully listens on (http://[\d.:]+)"):
            endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
            yield StorageOptions(endpoint=endpoint, account_key=_KEY)


@pytest.fixture
def store(azurite: StorageOptions) -> AzureStore:
    container = f"test-{next(_NUMBERS)}"
    found = AzureStore(f"{container}@{_ACCOUNT}.dfs.core.windows.net", azurite)
    request = HttpRequest("PUT", f"/{_ACCOUNT}/{container}?restype=container", found.base)
    assert found._http.send(found._signed(request)).status == 201
    return found


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_store(store: AzureStore, check: Callable[[Subject], None]) -> None:
    keys = [key for key in EXACT_KEYS if key not in _REFUSED]
    check(Subject(store, keys=keys, many=5_100))


def files_of(stores: Stores, location: str) -> list[str]:
    return sorted(p for b in list_files(stores, location) for p in b["path"].to_pylist())


def test_a_full_batch_has_an_outcome_for_each_key(store: AzureStore) -> None:
    keys = [f"k{number:03} é" for number in range(256)]
    for key in keys[::2]:
        store.write(key, b"x")
    outcomes = [deletion.outcome for deletion in store.delete(keys)]
    assert outcomes == [Outcome.DELETED, Outcome.ABSENT] * 128


def test_files_are_quarantined_and_restored(store: AzureStore, azurite: StorageOptions) -> None:
    stores = Stores({store.base: azurite})
    for number in range(20):
        store.write(f"lake/t{number % 3}/f{number}", b"%d" % number)
    location = f"{store.base}lake"
    before = files_of(stores, location)
    listed = pa.Table.from_batches(list_files(stores, location)).to_batches()
    folders = QuarantineFolders.of([(location, f"{location}/_lakesweep/quarantine")])
    held = list(quarantine_files(stores, listed, folders))
    assert {o for b in held for o in b["outcome"].to_pylist()} == {"quarantined"}
    assert not set(files_of(stores, location)) & set(before)
    restored = [o for b in restore_files(stores, held) for o in b["outcome"].to_pylist()]
    assert restored == ["restored"] * 20
    assert files_of(stores, location) == before
    assert store.read("lake/t1/f4") == b"4"


def test_what_changed_since_the_listing_is_kept(store: AzureStore, azurite: StorageOptions) -> None:
    stores = Stores({store.base: azurite})
    for name in ("a", "b", "c"):
        store.write(f"t/{name}", b"old")
    listed = list(list_files(stores, f"{store.base}t"))
    store.write("t/b", b"new")
    (outcomes,) = delete_files(stores, listed, verify=True)
    assert outcomes["outcome"].to_pylist() == ["deleted", "changed", "deleted"]
    assert store.read("t/b") == b"new"


def test_wrong_secrets_and_containers_are_told_apart(azurite: StorageOptions) -> None:
    host = f"{_ACCOUNT}.dfs.core.windows.net"
    with pytest.raises(MissingError, match="the container does not exist"):
        AzureStore(f"nowhere@{host}", azurite).list("")
    wrong = StorageOptions(endpoint=azurite.endpoint, account_key="d3Jvbmc=")
    with pytest.raises(DeniedError, match="list was refused"):
        AzureStore(f"nowhere@{host}", wrong).list("")
