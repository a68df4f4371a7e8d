from __future__ import annotations

import pickle
from itertools import count
from pathlib import Path

import pytest

from lakesweep.errors import MissingError
from lakesweep.storage.listing.locations import cut_locations, even_groups, list_pieces
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Recording
from tests.paged_store import PagedStore

_NUMBERS = count()
STORES = Stores()


def listed(stores: Stores, *locations: str, parts: int = 4) -> list[str]:
    groups = cut_locations(stores, locations, parts)
    assert len(groups) <= parts
    assert pickle.loads(pickle.dumps(groups)) == groups
    batches = [batch for group in groups for batch in list_pieces(stores, group)]
    return sorted(path for batch in batches for path in batch["path"].to_pylist())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for number in range(40):
        file = tmp_path / "lake" / f"t{number % 5}" / f"p{number % 8}" / f"{number}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "lake" / "top.txt").touch()
    return tmp_path / "lake"


def files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("parts", [1, 2, 7, 100])
def test_each_file_is_in_one_piece(tree: Path, parts: int) -> None:
    assert listed(STORES, str(tree), parts=parts) == files(tree)


def test_a_folder_is_cut_into_several_groups(tree: Path) -> None:
    assert len(cut_locations(STORES, [str(tree)], 4)) == 4


def test_many_locations_share_the_groups_without_a_request(tree: Path) -> None:
    store = Recording(Stores().open("/"))
    stores = Stores(replace={"/": store})
    locations = [str(folder) for folder in sorted(tree.glob("t*/p*"))]
    groups = cut_locations(stores, locations, 4)
    assert (len(groups), store.calls) == (4, [])
    assert listed(stores, *locations) == files(tree)[:-1]


def test_locations_inside_others_come_once(tree: Path) -> None:
    spellings = [str(tree), f"{tree}/", f"file://{tree}", f"{tree}/t1", f"file:{tree}/t1/p0/"]
    assert listed(STORES, *spellings) == files(tree)


def test_neighbours_with_longer_names_are_not_inside(tmp_path: Path) -> None:
    for name in ("t1", "t10", "t1.x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").touch()
    found = listed(STORES, *(str(tmp_path / name) for name in ("t1", "t10", "t1.x")))
    assert found == files(tmp_path)


def test_a_location_may_be_an_object_and_a_folder() -> None:
    base = f"memory://pieces-{next(_NUMBERS)}"
    store = STORES.open(base)
    for key in ("t", "t/1", "t/2/3", "t/4/5", "tt"):
        store.write(key, b"")
    assert listed(STORES, f"{base}/t") == [
        f"{base}/{key}" for key in ("t", "t/1", "t/2/3", "t/4/5")
    ]
    assert listed(STORES, f"{base}/t/") == [f"{base}/{key}" for key in ("t/1", "t/2/3", "t/4/5")]


def test_a_file_is_listed_as_itself(tree: Path) -> None:
    assert listed(STORES, str(tree / "top.txt")) == [str(tree / "top.txt")]


def test_a_location_that_is_not_there_is_told_by_listing_it(tmp_path: Path) -> None:
    with pytest.raises(MissingError):
        listed(STORES, str(tmp_path / "nowhere"))


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, [1]), (3, [1, 1, 1]), (7, [2, 2, 3])])
def test_groups_are_even_and_never_empty(count: int, sizes: list[int]) -> None:
    groups = even_groups(range(count), 3)
    assert [len(group) for group in groups] == sizes
    assert [item for group in groups for item in group] == list(range(count))


@pytest.fixture
def crowd(tmp_path: Path) -> Path:
    """A folder with many files, and folders between them."""
    for number in range(1500):
        (tmp_path / f"{number * 7919 % 1500:05} é").touch()
    for name in ("00700", "00700.d", "zz"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "00001 é")
    return tmp_path


@pytest.mark.parametrize("parts", [2, 4, 9])
def test_a_local_folder_with_many_files_is_cut(crowd: Path, parts: int) -> None:
    groups = cut_locations(STORES, [f"{crowd}/"], parts)
    sizes = [sum(b.num_rows for b in list_pieces(STORES, group)) for group in groups]
    assert min(sizes) > 250
    assert listed(STORES, f"{crowd}/", parts=parts) == files(crowd)


def test_one_flat_folder_is_cut_with_few_requests() -> None:
    keys = {f"flat/{number:06}" for number in range(3000)}
    store = PagedStore(keys, page_rows=100, base="s3://lake/")
    stores = Stores(replace={"s3://lake": store})
    groups = cut_locations(stores, ["s3://lake/flat/"], 8)
    assert len(groups) >= 4
    assert len(store.list_calls) <= 32
