from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.catalog import Catalog, Create, Drop, EntityType, Namespace, Rename, Table, View
from lakesweep.catalog.containers.snapshot import PagePosition, write_token
from lakesweep.catalog.entities import join, split
from lakesweep.errors import EntityMissingError, RefusedError, SnapshotExpiredError, UsageError
from tests.realms import open_catalogs, open_shop, table


@pytest.fixture
def shop() -> Catalog:
    shop = open_shop()
    shop.apply([Create("a", Namespace()), Create("b", Namespace()), Create("top", table("top"))])
    shop.apply([Create(f"a.t{number:02}", table(f"t{number:02}")) for number in range(25)])
    return shop


def pages(catalog: Catalog, size: int, within: str | None = None) -> list[list[str]]:
    found, token = [], None
    while True:
        page = catalog.list(within, size=size, token=token)
        found.append([entity.name for entity in page.items])
        if (token := page.token) is None:
            return found


@pytest.mark.parametrize("size", [1, 4, 5, 24, 25, 26, 100])
def test_pages_have_everything_once(shop: Catalog, size: int) -> None:
    found = pages(shop, size, "a")
    assert [name for page in found for name in page] == [f"t{each:02}" for each in range(25)]
    assert all(len(page) == size for page in found[:-1])
    assert found[-1]


def test_pages_are_of_one_state(shop: Catalog) -> None:
    first = shop.list("a", size=10)
    shop.apply([Drop("a.t15"), Rename("a", "z"), Create("a", Namespace())])
    second = shop.list("a", size=10, token=first.token)
    assert [entity.name for entity in second.items][5] == "t15"
    assert pages(shop, 100, "a") == [[]]


def test_kinds_can_be_chosen(shop: Catalog) -> None:
    shop.apply([Create("v", View(metadata_location="s3://lake/shop/v/metadata/v1.json"))])
    assert [each.name for each in shop.list(kinds=[EntityType.NAMESPACE]).items] == ["a", "b"]
    assert [each.name for each in shop.list(kinds=[EntityType.TABLE]).items] == ["top"]
    first = shop.list(kinds=[EntityType.TABLE, EntityType.VIEW], size=1)
    second = shop.list(kinds=[EntityType.TABLE, EntityType.VIEW], size=1, token=first.token)
    assert [first.items[0].name, second.items[0].name, second.token] == ["top", "v", None]


def test_a_state_that_is_gone_is_an_error_of_its_own(shop: Catalog) -> None:
    page = shop.list("a", size=10)
    shop.apply([Drop("a.t01")])
    head = shop.realm.objects.fetch(
        shop.realm.references.fetch(shop.reference).recent[0], type(shop.snapshot().head)
    )
    assert head is not None
    shop.realm.objects.delete([head])
    with pytest.raises(SnapshotExpiredError) as caught:
        shop.list("a", size=10, token=page.token)
    assert caught.value.hint == "list again from the first page"


@pytest.mark.parametrize("token", ["", "?", "AAAA", "AAAAAAAAAAAAAAAA", "ü"])
def test_what_is_no_token_is_refused(shop: Catalog, token: str) -> None:
    with pytest.raises(UsageError, match="not a page token"):
        shop.list("a", token=token)


def test_a_token_is_good_for_its_listing_alone(shop: Catalog) -> None:
    token = shop.list("a", size=10).token
    with pytest.raises(UsageError, match="not a page token"):
        shop.list(size=10, token=token)


def test_no_token_leads_into_another_catalog(shop: Catalog) -> None:
    other = open_catalogs().create("other")
    catalogs = open_catalogs()
    mine, theirs = catalogs.create("mine"), catalogs.create("theirs")
    forged = write_token(PagePosition(f"{mine.reference}|", theirs.snapshot().commit, b""))
    with pytest.raises(UsageError, match="not a page token"):
        mine.list(token=forged)
    assert other.list().items == []


@pytest.mark.parametrize("size", [0, -1, 10_001])
def test_pages_have_a_size(shop: Catalog, size: int) -> None:
    with pytest.raises(UsageError):
        shop.list(size=size)


def test_only_namespaces_are_listed(shop: Catalog) -> None:
    for name in ("nothing", "top", "a.t01"):
        with pytest.raises(EntityMissingError):
            shop.list(name)


def test_an_entity_is_found_by_its_id_whatever_it_is_called(shop: Catalog) -> None:
    number = shop.get("a.t03").id
    shop.apply([Rename("a.t03", "b.other")])
    assert shop.by_id(number).name == "other"
    with pytest.raises(EntityMissingError):
        shop.by_id(1)
    assert shop.snapshot().find("a.t03") is None


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("s3://lake/shop/t01", ["a.t01"]),
        ("s3a://lake/shop/t01/", ["a.t01"]),
        ("s3n://lake/shop/t01/data/file.parquet", ["a.t01"]),
        ("s3://lake/shop/t0", []),
        ("s3://lake/shop/t011", []),
        ("s3://lake/shop//t01", ["a.t01"]),
        ("s3://lake2/shop", []),
    ],
)
def test_entities_are_found_by_location(shop: Catalog, address: str, found: list[str]) -> None:
    assert [join(path) for _, path in shop.at(address)] == found


def test_all_below_an_address_is_found(shop: Catalog) -> None:
    assert len(list(shop.at("s3://lake"))) == 26
    assert len(list(shop.at("s3://lake/shop/"))) == 26


def test_locations_that_overlap_are_refused(shop: Catalog) -> None:
    for folder in ("t01", "t01/inner", "t01/"):
        with pytest.raises(RefusedError, match=r"overlaps the location of table a\.t01"):
            shop.apply([Create("a.new", table(folder))])
    shop.apply([Create("a.new", table("t011"))])
    with pytest.raises(RefusedError, match="overlaps"):
        shop.apply([Create("c", Table(metadata_location="/x/m.json", location="s3://lake"))])


@pytest.mark.parametrize(
    "spelling",
    [
        "s3://lake/shop//t01",
        "s3://lake/shop/./t01",
        "s3a://lake/shop/x/../t01",
        "s3://lake/shop/%7401/below",
        "s3://lake/shop%2Ft01",
        "s3://lake//shop",
        "s3://lake/../shop/t01/",
    ],
)
def test_another_spelling_of_a_location_overlaps_it(shop: Catalog, spelling: str) -> None:
    with pytest.raises(RefusedError, match="overlaps the location of table"):
        shop.apply([Create("a.other", Table(metadata_location="s3://m/1", location=spelling))])


def test_a_location_with_another_spelling_is_found_by_both(shop: Catalog) -> None:
    odd = Table(metadata_location="s3://m/1", location="s3://lake/odd//folder")
    shop.apply([Create("a.odd", odd)])
    for address in ("s3://lake/odd//folder", "s3://lake/odd/folder/x"):
        assert [path for _, path in shop.at(address)] == [("a", "odd")]
    shop.apply([Drop("a.odd"), Create("a.plain", _at("s3://lake/odd/folder"))])
    assert [path for _, path in shop.at("s3://lake/odd//folder")] == [("a", "plain")]


def test_a_link_to_the_folder_of_a_table_overlaps_it(shop: Catalog, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    shop.apply([Create("a.first", _at(f"{link}/t"))])
    for location in (f"{real}/t", f"file://{real}/x/../t/below", f"file:{link}/t"):
        with pytest.raises(RefusedError, match="overlaps"):
            shop.apply([Create("a.second", _at(location))])
    shop.apply([Create("a.second", _at(f"{real}/t2"))])


def test_a_link_that_leads_elsewhere_now_overlaps_no_more(shop: Catalog, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "old")
    shop.apply([Create("a.first", _at(f"{link}/t"))])
    link.unlink()
    link.symlink_to(tmp_path / "new")
    shop.apply([Create("a.second", _at(f"{tmp_path}/old/t"))])
    assert [path for _, path in shop.at(f"{tmp_path}/old/t")] == [("a", "second")]
    shop.apply([Drop("a.first")])
    shop.apply([Create("a.third", _at(f"{link}/t"))])


def _at(location: str) -> Table:
    return Table(metadata_location="s3://m/1", location=location)


def test_overlaps_can_be_allowed(shop: Catalog) -> None:
    shop.configure(allow_overlaps=True)
    shop.apply([Create("a.new", table("t01"))])
    assert {path for _, path in shop.at("s3://lake/shop/t01")} == {("a", "t01"), ("a", "new")}


def test_namespaces_lie_above_their_tables(shop: Catalog) -> None:
    shop.apply([Create("n", Namespace(location="s3://lake/shop/n")), Create("n.t", table("n/t"))])
    assert [path for _, path in shop.at("s3://lake/shop/n/t")] == [("n",), ("n", "t")]


@pytest.mark.parametrize("text", ["a", "a.b.c", 'a."b.c".d', "ä.%", '"a ""."" b"', '"""".c'])
def test_names_are_written_as_they_are_read(text: str) -> None:
    assert join(split(text)) == text


def test_no_two_paths_are_written_the_same() -> None:
    whole, parted = ('a "." b',), ("a ", " b")
    assert join(whole) != join(parted)
    assert [split(join(path)) for path in (whole, parted)] == [whole, parted]


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '"a', 'a"b'])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        split(text)
