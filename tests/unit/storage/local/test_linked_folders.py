"""Folders that become links at the worst moment: no delete, move or write may follow them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lakesweep.errors import LakesweepError, StorageError
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.local import exclusive_rename
from lakesweep.storage.local.empty_folders import remove_empty_folders
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import ObjectStore, Outcome, expected_of
from lakesweep.storage.stores import Stores

#: The folder that is swapped, and the file in it that the call names.
SWAPPED = "lake/t"
NAMED = "lake/t/data/f"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A lake, and a folder outside with files of the same names."""
    for folder in (SWAPPED, "outside", "lake/_lakesweep/q", "away"):
        (tmp_path / folder / "data").mkdir(parents=True)
        (tmp_path / folder / "data/f").write_text("content")
        os.utime(tmp_path / folder / "data/f", (1, 1))
    (tmp_path / "lake/_lakesweep/q/data/f").unlink()
    return tmp_path


def swap(place: Path, folder: str = SWAPPED) -> None:
    """Replace a folder of the lake by a link to the one outside."""
    (place / folder).rename(place / "was-here")
    (place / folder).symlink_to(place / "outside")


def open_store(place: Path, *, declared: bool) -> tuple[ObjectStore, str]:
    """A store that knows its location or not, and what comes before a key."""
    if declared:
        stores = Stores().within(f"{place}/lake")
        return stores.open("/"), f"{place}/"[1:]
    return LocalStore(str(place)), ""


def outside(place: Path) -> list[tuple[str, str]]:
    found = (place / "outside").rglob("*")
    return sorted(
        (str(each.relative_to(place)), each.read_text()) for each in found if each.is_file()
    )


def delete(store: ObjectStore, base: str) -> None:
    (deletion,) = store.delete([base + NAMED])
    assert deletion.outcome is Outcome.FAILED
    assert "is a symbolic link" in (deletion.reason or "")
    raise StorageError("", deletion.reason or "")


CALLS: dict[str, Callable[[ObjectStore, str], object]] = {
    "delete": delete,
    "quarantine": lambda store, base: store.move(base + NAMED, f"{base}lake/_lakesweep/q/{NAMED}"),
    "restore": lambda store, base: store.move(f"{base}away/data/f", f"{base}{SWAPPED}/data/g"),
    "restore into a new folder": lambda store, base: store.move(
        f"{base}away/data/f", f"{base}{SWAPPED}/new/g"
    ),
    "write": lambda store, base: store.write(base + NAMED, b"new"),
    "write_new": lambda store, base: store.write_new(f"{base}{SWAPPED}/data/g", b"new"),
    "copy": lambda store, base: store.copy(f"{base}away/data/f", base + NAMED),
}


@pytest.mark.parametrize("declared", [True, False], ids=["location", "root"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_nothing_is_changed_behind_a_link(
    place: Path, call: Callable[[ObjectStore, str], object], declared: bool
) -> None:
    store, base = open_store(place, declared=declared)
    before = outside(place)
    swap(place)
    with pytest.raises(StorageError, match=f"{SWAPPED} is a symbolic link"):
        call(store, base)
    assert outside(place) == before


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_folder_swapped_during_the_call_leads_nowhere(
    place: Path, call: Callable[[ObjectStore, str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap happens right before each system call that changes something."""
    found, base = open_store(place, declared=True)
    before = outside(place)

    def swapping(change: Callable[..., object]) -> Callable[..., object]:
        def swap_first(*args: object, **kwargs: object) -> object:
            if not (place / SWAPPED).is_symlink():
                swap(place)
            return change(*args, **kwargs)

        return swap_first

    for name in ("unlink", "replace", "link", "mkdir"):
        monkeypatch.setattr(os, name, swapping(getattr(os, name)))
    monkeypatch.setattr(exclusive_rename, "_renameat2", swapping(exclusive_rename._renameat2))
    with suppress(LakesweepError, AssertionError):  # what counts is where it had an effect
        call(found, base)
    assert (place / SWAPPED).is_symlink()
    assert outside(place) == before


def test_a_listed_file_is_deleted_in_the_folder_where_it_was_listed(place: Path) -> None:
    """The file behind the link has the same size and time: only the walk tells them apart."""
    store, base = open_store(place, declared=True)
    listed = expected_of(store.head(base + NAMED))
    swap(place)
    assert expected_of(store.head(base + NAMED)) == listed
    (deletion,) = store.delete([base + NAMED], [listed])
    assert deletion.outcome is Outcome.FAILED
    assert (place / "outside/data/f").exists()


@pytest.mark.parametrize("location", ["link", "link/t"])
def test_a_location_may_be_a_link_or_lie_behind_one(place: Path, location: str) -> None:
    (place / "link").symlink_to(place / "lake")
    store = Stores().within(f"{place}/{location}").open("/")
    key = f"{place}/link/t/data/"[1:]
    store.write(f"{key}g", b"new")
    store.move(f"{key}f", f"{key}h")
    assert [one.outcome for one in store.delete([f"{key}g", f"{key}h"])] == [Outcome.DELETED] * 2
    assert list((place / "lake/t/data").iterdir()) == []


def test_a_delete_below_no_location_follows_no_link_at_all(place: Path) -> None:
    (place / "link").symlink_to(place / "lake")
    (deletion,) = Stores().open("/").delete([f"{place}/link/t/data/f"[1:]])
    assert deletion.outcome is Outcome.FAILED
    assert (place / NAMED).exists()


def test_an_own_folder_is_not_removed_behind_a_link(place: Path) -> None:
    stores = Stores().within(f"{place}/lake")
    swap(place)
    remove_folder(stores, f"{place}/{SWAPPED}/data")
    assert outside(place) == [("outside/data/f", "content")]
    remove_folder(stores, f"{place}/lake/_lakesweep/q")
    assert not (place / "lake/_lakesweep/q").exists()


def test_an_empty_folder_behind_a_link_stays(place: Path) -> None:
    (place / "outside/data/f").unlink()
    swap(place)
    assert remove_empty_folders([f"{place}/{SWAPPED}/data"], f"{place}/lake") == []
    assert (place / "outside/data").is_dir()


def test_descriptors_are_bounded_and_closed(place: Path) -> None:
    keys = [f"{folder}/{name}" for folder in range(150) for name in "ab"]
    store = LocalStore(str(place))
    for key in keys:
        store.write(key, b"")
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert {one.outcome for one in store.delete(keys)} == {Outcome.DELETED}
    assert len(list(Path("/proc/self/fd").iterdir())) == before
