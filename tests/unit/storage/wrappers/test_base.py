from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from lakesweep.errors import LimitError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.stores import Keyring, Stores
from lakesweep.storage.wrappers.base import BoundedReads
from lakesweep.storage.wrappers.faults import Recording
from lakesweep.untrusted.limits import ReadLimits

_STORES = Stores(limits=ReadLimits(file_bytes=10))


def test_a_file_up_to_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    assert _read(_STORES, tmp_path / "a") == b"0123456789"


def test_a_larger_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789X")
    with pytest.raises(LimitError, match=r"/a: has more than 10 bytes") as caught:
        _read(_STORES, tmp_path / "a")
    assert "limits.file_bytes" in caught.value.hint


def test_a_file_of_60_gb_costs_no_memory(tmp_path: Path) -> None:
    huge = tmp_path / "v1.metadata.json"
    with huge.open("wb") as file:
        os.truncate(file.fileno(), 60 << 30)
    with pytest.raises(LimitError):
        _read(_STORES, huge)


def test_ranges_of_large_files_are_not_limited(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    store = _STORES.open(str(tmp_path / "a"))
    assert store.read_range(str(tmp_path / "a")[1:], 0, 50) == bytes(50)


def test_other_processes_and_accesses_have_the_same_limits(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(11))
    keyring = pickle.loads(pickle.dumps(Keyring(_STORES)))
    with pytest.raises(LimitError):
        _read(keyring.open(0), tmp_path / "a")
    assert keyring.limits == _STORES.with_defaults({}).limits == ReadLimits(file_bytes=10)


def _read(stores: Stores, path: Path) -> bytes:
    return stores.open(str(path)).read(str(path)[1:])


def test_a_usual_file_takes_one_request(tmp_path: Path) -> None:
    store, recording = _recorded(tmp_path, bytes(100))
    assert store.read("a") == bytes(100)
    assert [call.method for call in recording.calls] == ["read_range"]


def test_a_large_file_is_read_at_once_after_its_size_is_known(tmp_path: Path) -> None:
    data = bytes(range(256)) * (130 << 10)  # 33 MB, which is more than the usual 32
    store, recording = _recorded(tmp_path, data)
    assert store.read("a") == data
    assert [call.method for call in recording.calls] == ["read_range", "head", "read_range"]


def _recorded(folder: Path, data: bytes) -> tuple[BoundedReads, Recording]:
    recording = Recording(LocalStore(str(folder)))
    recording.store.write("a", data)
    return BoundedReads(recording, ReadLimits()), recording
