"""What quarantine promises of each file, at every step and after every fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.errors import (
    DeniedError,
    LakesweepError,
    LockedError,
    ThrottledError,
    UnavailableError,
    UsageError,
)
from lakesweep.storage.deleting.quarantine import (
    QUARANTINE_SCHEMA,
    empty_quarantine,
    held_files,
    quarantine_files,
)
from lakesweep.storage.deleting.quarantine_store import QuarantineFolders
from lakesweep.storage.deleting.restore import restore_files
from lakesweep.storage.file_batches import FILE_SCHEMA, OUTCOME_SCHEMA
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.memory import open_memory
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail, lose
from lakesweep.termination import TerminatedError
from tests.by_copy import ByCopy
from tests.paged_store import OneStore

_NUMBERS = count()
LAKE = "memory://bucket/lake"
PLACES = QuarantineFolders.of([(LAKE, f"{LAKE}/_lakesweep/quarantine/plan-1")])
FILES = {"t/a": b"a", "t/deep/b": b"bb", "t/100%2Fc d": b"ccc"}


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path), base="memory://bucket/")


@pytest.fixture
def memory() -> ByCopy:
    return ByCopy(open_memory(f"quarantine-{next(_NUMBERS)}"))


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    found: ObjectStore = request.getfixturevalue(request.param)
    for name, data in FILES.items():
        found.write(f"lake/{name}", data)
    return found


def listed(store: ObjectStore) -> pa.RecordBatch:
    """All files of the lake, as a listing describes them, but for those in quarantine."""
    batches = list_files(OneStore(store), LAKE + "/")
    table = pa.Table.from_batches(batches, FILE_SCHEMA)
    own = pa.array(["_lakesweep" not in path for path in table["path"].to_pylist()])
    return table.filter(own).combine_chunks().to_batches()[0]


def content(store: ObjectStore) -> dict[str, bytes]:
    """All that is stored, wherever it lies."""
    found: dict[str, bytes] = {}
    for batch in list_files(OneStore(store), "memory://bucket/"):
        for path in batch["path"].to_pylist():
            key = path.removeprefix("memory://bucket/")
            found[key] = store.read(key)
    return found


def at_home() -> dict[str, bytes]:
    return {f"lake/{name}": data for name, data in FILES.items()}


def in_quarantine() -> dict[str, bytes]:
    folder = "lake/_lakesweep/quarantine/plan-1/"
    return {folder + key: data for key, data in at_home().items()}


def rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema)


def outcomes(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [outcome for batch in batches for outcome in batch["outcome"].to_pylist()]


def quarantined(store: ObjectStore) -> pa.RecordBatch:
    """Set all files aside."""
    found = rows(quarantine_files(OneStore(store), [listed(store)], PLACES), QUARANTINE_SCHEMA)
    return found.combine_chunks().to_batches()[0]


def test_files_are_moved_under_their_whole_key(store: ObjectStore) -> None:
    found = quarantined(store)
    assert set(found["outcome"].to_pylist()) == {"quarantined"}
    assert content(store) == in_quarantine()
    moved = zip(found["path"].to_pylist(), found["moved_to"].to_pylist(), strict=True)
    assert all(to.endswith("/plan-1/" + at.removeprefix("memory://bucket/")) for at, to in moved)


def test_the_way_is_told(local: LocalStore, memory: ByCopy) -> None:
    for store, way in ((local, "rename"), (memory, "copy")):
        store.write("lake/a", b"")
        assert quarantined(store)["way"].to_pylist() == [way]


def test_files_come_back_as_they_were(store: ObjectStore) -> None:
    held = quarantined(store)
    assert outcomes(restore_files(OneStore(store), [held])) == ["restored"] * 3
    assert content(store) == at_home()


def test_a_restore_that_is_told_to_end_finishes_the_file_under_way(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = quarantined(store)
    moved = store.move

    def move(*words: Any) -> None:
        monkeypatch.setattr("lakesweep.termination._state.is_requested", True)
        moved(*words)

    monkeypatch.setattr(store, "move", move)
    done: list[pa.RecordBatch] = []
    with pytest.raises(TerminatedError):
        done.extend(restore_files(OneStore(store), iter([held, held]), workers=1))
    assert outcomes(done) == ["restored", "unsent", "unsent"]
    # Each file is at one place, with all its bytes.
    assert sorted(content(store).values()) == sorted(at_home().values())
    monkeypatch.undo()
    assert outcomes(restore_files(OneStore(store), [held])) == ["restored"] * 3


def test_a_renamed_file_keeps_its_time(local: LocalStore) -> None:
    local.write("lake/a", b"")
    before = local.head("lake/a").modified
    held = quarantined(local)
    list(restore_files(OneStore(local), [held]))
    assert local.head("lake/a").modified == before


def test_the_end_of_the_hold_deletes_for_good(store: ObjectStore) -> None:
    held = quarantined(store)
    assert outcomes(empty_quarantine(OneStore(store), [held])) == ["deleted"] * 3
    assert content(store) == {}


def test_every_step_can_be_done_again(store: ObjectStore) -> None:
    files = listed(store)
    for _ in range(2):
        done = quarantine_files(OneStore(store), [files], PLACES)
        assert outcomes(done) == ["quarantined"] * 3
    (held,) = held_files(OneStore(store), [files], PLACES)
    for _ in range(2):
        assert outcomes(restore_files(OneStore(store), [held])) == ["restored"] * 3
    assert content(store) == at_home()


def test_a_file_that_changed_since_it_was_listed_stays(store: ObjectStore) -> None:
    files = listed(store)
    store.write("lake/t/a", b"something else")
    done = dict(zip(_keys(files), outcomes(_set_aside(store, files)), strict=True))
    assert done["lake/t/a"] == "changed"
    assert store.read("lake/t/a") == b"something else"


def test_a_file_that_is_gone_is_absent(store: ObjectStore) -> None:
    files = listed(store)
    store.delete(["lake/t/a"])
    found = rows(_set_aside(store, files), QUARANTINE_SCHEMA).to_pylist()
    (row,) = [row for row in found if row["path"] == f"{LAKE}/t/a"]
    assert (row["outcome"], row["moved_to"]) == ("absent", None)


def test_a_key_that_is_taken_again_is_never_overwritten(store: ObjectStore) -> None:
    held = quarantined(store)
    store.write("lake/t/a", b"new")
    found = dict(zip(_keys(held), outcomes(restore_files(OneStore(store), [held])), strict=True))
    assert found == dict.fromkeys(found, "restored") | {"lake/t/a": "occupied"}
    copy = "lake/_lakesweep/quarantine/plan-1/lake/t/a"
    assert (store.read("lake/t/a"), store.read(copy)) == (b"new", b"a")


def test_a_new_file_under_an_old_key_is_not_set_aside_again(store: ObjectStore) -> None:
    """As when a run is resumed, and somebody wrote meanwhile."""
    files = listed(store)
    list(_set_aside(store, files))
    store.write("lake/t/a", b"new")
    found = rows(_set_aside(store, files), QUARANTINE_SCHEMA).to_pylist()
    (row,) = [row for row in found if row["path"] == f"{LAKE}/t/a"]
    assert (row["outcome"], row["reason"]) == ("quarantined", "another file now has its key")
    assert store.read("lake/t/a") == b"new"


def test_what_is_at_neither_place_is_absent(store: ObjectStore) -> None:
    held = quarantined(store)
    list(empty_quarantine(OneStore(store), [held]))
    assert outcomes(restore_files(OneStore(store), [held])) == ["absent"] * 3


def test_a_file_below_no_location_stays(store: ObjectStore) -> None:
    places = QuarantineFolders.of([("memory://bucket/other", "memory://bucket/other/q")])
    done = quarantine_files(OneStore(store), [listed(store)], places)
    assert outcomes(done) == ["failed"] * 3
    assert content(store) == at_home()


def test_the_innermost_location_has_the_file(store: ObjectStore) -> None:
    inner = [(LAKE, f"{LAKE}/q"), (f"{LAKE}/t", f"{LAKE}/t/q"), (f"{LAKE}/t/de", f"{LAKE}/x")]
    found = quarantine_files(OneStore(store), [listed(store)], QuarantineFolders.of(inner))
    moved = rows(found, QUARANTINE_SCHEMA)["moved_to"].to_pylist()
    assert all(path.startswith(f"{LAKE}/t/q/lake/t/") for path in moved)


@pytest.mark.parametrize(
    "folder", ["memory://other/q", "s3://bucket/q", "memory://bucket/", "memory://bucket//"]
)
def test_a_quarantine_lies_in_a_folder_of_the_same_store(folder: str) -> None:
    with pytest.raises(UsageError):
        QuarantineFolders.of([(LAKE, folder)])


def test_a_row_that_names_a_live_file_deletes_nothing(store: ObjectStore) -> None:
    """As a row that was damaged, or written by somebody else."""
    paths = [f"{LAKE}/{name}" for name in FILES]
    wrong = {
        "path": [paths[0], paths[0], paths[0]],
        "size_bytes": pa.nulls(3, pa.int64()),
        "way": ["copy"] * 3,
        "moved_to": [paths[0], paths[1], f"memory://other/q/lake/{next(iter(FILES))}"],
    }
    batch = pa.RecordBatch.from_pydict(wrong)
    assert outcomes(empty_quarantine(OneStore(store), [batch])) == ["failed"] * 3
    assert outcomes(restore_files(OneStore(store), [batch])) == ["failed"] * 3
    assert content(store) == at_home()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (DeniedError, "denied"),
        (LockedError, "locked"),
        (ThrottledError, "throttled"),
        (UnavailableError, "failed"),
    ],
)
def test_an_error_is_the_outcome_of_its_file(
    memory: ByCopy, error: Callable[[str, str], LakesweepError], outcome: str
) -> None:
    for key, data in at_home().items():
        memory.write(key, data)
    files = listed(memory)
    fault = StorageFault(fail(error), frozenset({"move"}), key=lambda key: key.endswith("t/a"))
    found = outcomes(_set_aside(Faulty(memory, [fault]), files))
    done = dict(zip(_keys(files), found, strict=True))
    assert done == dict.fromkeys(done, "quarantined") | {"lake/t/a": outcome}


#: The calls of the store that a move by copy makes.
STEPS = ("head", "copy", "delete")


@pytest.mark.parametrize("skip", range(4))
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("effect", [fail(UnavailableError), lose])
def test_no_fault_of_any_call_loses_a_file(
    memory: ByCopy, step: str, skip: int, effect: Callable[..., object]
) -> None:
    """One file, a fault at one call, and then everything again without faults."""
    memory.write("lake/a", b"data")
    files = listed(memory)
    fault = StorageFault(effect, frozenset({step}), skip=skip, times=1)
    faulty = ByCopy(Faulty(memory.store, [fault]))
    list(_set_aside(faulty, files))
    assert b"data" in content(memory).values()
    assert outcomes(_set_aside(memory, files)) == ["quarantined"]
    (held,) = held_files(OneStore(memory), [files], PLACES)
    list(restore_files(OneStore(ByCopy(Faulty(memory.store, [fault]))), [held]))
    assert b"data" in content(memory).values()
    assert outcomes(restore_files(OneStore(memory), [held])) == ["restored"]
    assert content(memory) == {"lake/a": b"data"}


def test_outcomes_have_their_columns(store: ObjectStore) -> None:
    (done,) = _set_aside(store, listed(store))
    assert done.schema == QUARANTINE_SCHEMA
    (back,) = restore_files(OneStore(store), [done])
    assert back.schema == OUTCOME_SCHEMA
    (gone,) = empty_quarantine(OneStore(store), [done])
    assert gone.schema == OUTCOME_SCHEMA


def _set_aside(store: ObjectStore, files: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    return quarantine_files(OneStore(store), [files], PLACES)


def _keys(batch: pa.RecordBatch) -> list[str]:
    return [path.removeprefix("memory://bucket/") for path in batch["path"].to_pylist()]
