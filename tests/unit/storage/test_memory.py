"""Objects in memory: known by name, listed in pages of one level too."""

from __future__ import annotations

import pytest

from lakesweep.errors import MissingError
from lakesweep.storage.contract import pages_of
from lakesweep.storage.memory import open_memory


def test_a_memory_is_known_by_its_name() -> None:
    open_memory("one").write("key", b"data")
    assert open_memory("one").read("key") == b"data"
    with pytest.raises(MissingError):
        open_memory("two").read("key")


def test_one_level_names_each_folder_once_over_all_pages() -> None:
    store = open_memory("one-level")
    keys = [f"t/{number:04}" for number in range(1_500)]
    for key in (*keys, "t/0700/x", "t/0700/y", "t/", "t/z/"):
        store.write(key, b"")
    pages = list(pages_of(store, "t/", one_level=True))
    assert len(pages) == 2
    assert [folder for page in pages for folder in page.folders] == ["t/0700/", "t/z/"]
    assert [k for page in pages for k in page.entries["key"].to_pylist()] == ["t/", *keys]
