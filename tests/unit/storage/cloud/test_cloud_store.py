from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from lakesweep.errors import ConfigError, MissingError
from lakesweep.storage.azure.store import AzureStore
from lakesweep.storage.cloud.store import open_gcs, open_memory
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.options import StorageOptions

AZURE = "container@account.dfs.core.windows.net"


def test_bulk_limits_are_those_of_the_stores() -> None:
    gcs = open_gcs("bucket", StorageOptions(anonymous=True))
    azure = AzureStore(AZURE, StorageOptions(anonymous=True))
    smaller = AzureStore(AZURE, StorageOptions(anonymous=True, delete_batch=10))
    stores: tuple[ObjectStore, ...] = (gcs, azure, smaller)
    assert [store.capabilities.delete_batch for store in stores] == [100, 256, 10]
    assert [store.base for store in stores[:2]] == ["gs://bucket/", f"abfss://{AZURE}/"]


def test_stores_travel_without_their_clients() -> None:
    for store in (
        open_gcs("bucket", StorageOptions(anonymous=True)),
        AzureStore(AZURE, StorageOptions(account_key="a2V5")),
    ):
        other = pickle.loads(pickle.dumps(store))
        assert (other.base, other.capabilities) == (store.base, store.capabilities)


def test_a_memory_is_known_by_its_name() -> None:
    open_memory("one").write("key", b"data")
    assert open_memory("one").read("key") == b"data"
    with pytest.raises(MissingError):
        open_memory("two").read("key")


def test_wrong_settings_are_an_error_of_configuration() -> None:
    with pytest.raises(ConfigError):
        open_gcs("bucket", StorageOptions(service_account="/no/such/file"))


def test_without_obstore_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['obstore'] = None\n"
        "from lakesweep.errors import ConfigError\n"
        "from lakesweep.storage.stores import Stores\n"
        "try: Stores().open('gs://bucket/')\n"
        "except ConfigError as error: print(error.hint)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert answer.stdout == b"pip install 'lakesweep[cloud]'\n"
