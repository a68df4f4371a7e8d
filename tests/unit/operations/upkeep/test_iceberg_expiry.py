"""Expiring snapshots of tables that Iceberg expired itself, with all steps."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec import UnsetType
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

from lakesweep.app import App
from lakesweep.config import Config
from lakesweep.errors import RefusedError, UnreadableError
from lakesweep.operations.upkeep.expiry_result import ExpireTablesRequest, IcebergExpiryPreview
from lakesweep.operations.upkeep.iceberg_expiry import expire_table
from lakesweep.storage.address import identity, parse
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.upkeep.proposal import ExpiryTerms
from lakesweep.upkeep.snapshot_retention import RetentionArguments
from tests.bucket_in_folder import BucketInFolder
from tests.expiry_lake import ExpiryCase, expiry_cases
from tests.iceberg_expiries import BUCKETS, AtticApp, fill, filled_buckets, ref_of
from tests.servers import S3Server
from tests.unit.upkeep.test_file_index import deletable
from tests.unit.upkeep.test_snapshot_retention import answered, arguments_of

OVERRIDES = frozenset({"outside"})


#: Each with files of a kind of its own, or shared with other tables. What is decided and freed is
#: tested for all cases in tests/unit/upkeep; `LAKESWEEP_TEST_ALL=1` takes all of them here, too.
CHOSEN = {
    "attic.odd.nolog.all-old",
    "attic.shop.equality.head-only",
    "attic.shop.hashed.head-only",
    "attic.shop.registered.head-only",
    "attic.shop.source.head-only",
    "attic.shop.stats_shared.cut-at-s2",
    "attic.shop.vectors.head-only",
    "attic.shop.v1.head-only",
    "hdp.old.gz.all-old",
}


def done(case: ExpiryCase) -> bool:
    is_chosen = case.name in CHOSEN or "LAKESWEEP_TEST_ALL" in os.environ
    return is_chosen and answered(case) and not case.answer.get("snapshots_broken_by_that")


#: All cases run on a folder and on S3, too, if all cases run at all.
PLACES = ["memory", *(["folder", "s3"] if "LAKESWEEP_TEST_ALL" in os.environ else [])]


@pytest.fixture(scope="module", params=PLACES)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, ObjectStore] | None:
    """The stores of both buckets; None for new ones in memory."""
    if request.param == "memory":
        return None
    if request.param == "folder":
        folder = tmp_path_factory.mktemp("buckets")
        return {f"s3://{each}": BucketInFolder(folder / each) for each in BUCKETS}
    server: S3Server = request.getfixturevalue("moto")
    stores = Stores({f"s3://{each}": server.options() for each in BUCKETS})
    return {f"s3://{each}": stores.open(f"s3://{server.make_bucket(each)}/") for each in BUCKETS}


@pytest.mark.parametrize("case", [*filter(done, expiry_cases())], ids=str)
def test_what_the_engine_expires_is_expired(
    case: ExpiryCase, place: dict[str, ObjectStore] | None, tmp_path: Path
) -> None:
    stores = filled_buckets() if place is None else place
    for bucket in BUCKETS:
        fill(bucket, stores[f"s3://{bucket}"])
    attic = AtticApp(tmp_path, case.now_ms, stores)
    for path in case.answer.get("removed_before_the_call", ()):
        address = parse(path)
        attic.buckets[address.base.rstrip("/")].delete([address.key])
    before = attic.stored()
    result = attic.expire(
        ref_of(case),
        arguments_of(case),
        clean=bool(case.answer["arguments"]["clean_expired_metadata"]),
        overrides=OVERRIDES,
    )
    after = attic.stored()
    assert result.metadata_after is None or result.metadata_after in after
    answer = {**case.answer, **case.answer["rule"]}
    assert set(result.retained_snapshots) >= set(answer["snapshots_retained"])
    gone = {identity(path) for path in before - after}
    assert gone == deletable(case) & {identity(path) for path in before}, result
    assert not any("_lakesweep" in path for path in after)
    assert result.failures == []


def case_named(name: str) -> ExpiryCase:
    return next(case for case in expiry_cases() if case.name == name)


@pytest.mark.parametrize("what", ["list", "manifest"])
def test_nothing_changes_if_a_retained_snapshot_cannot_be_read(what: str, tmp_path: Path) -> None:
    case = case_named(f"attic.shop.cow.missing-retained-{what}")
    attic = AtticApp(tmp_path, case.now_ms)
    for path in case.answer["removed_before_the_call"]:
        address = parse(path)
        attic.buckets[address.base.rstrip("/")].delete([address.key])
    before = attic.stored()
    with pytest.raises(UnreadableError, match="missing"):
        attic.expire(case.table, arguments_of(case))
    assert attic.stored() == before
    result = attic.expire(case.table, arguments_of(case), keep_files=True)
    assert result.retained_snapshots == case.answer["snapshots_retained"]
    assert attic.stored() - before == {result.metadata_after}
    assert before <= attic.stored()


def test_a_lost_manifest_of_an_expired_snapshot_is_reported_and_the_rest_goes(
    tmp_path: Path,
) -> None:
    case = case_named("attic.shop.cow.missing-expired-manifest")
    attic = AtticApp(tmp_path, case.now_ms)
    (lost,) = case.answer["removed_before_the_call"]
    attic.buckets["s3://attic"].delete([parse(lost).key])
    before = attic.stored()
    result = attic.expire(case.table, arguments_of(case))
    assert [each.path for each in result.failures] == [lost]
    gone = {identity(path) for path in before - attic.stored()}
    assert gone <= deletable(case)
    assert gone


@pytest.mark.parametrize("overrides", [frozenset(), OVERRIDES])
def test_a_table_that_says_so_is_not_expired(overrides: frozenset[str], tmp_path: Path) -> None:
    case = case_named("attic.shop.nogc.cutoff")
    attic = AtticApp(tmp_path, case.now_ms)
    before = attic.stored()
    with pytest.raises(RefusedError, match=r"gc\.enabled"):
        attic.expire(case.table, arguments_of(case), overrides=overrides, keep_files=True)
    assert attic.stored() == before


def test_a_dry_run_shows_everything_and_changes_nothing(tmp_path: Path) -> None:
    case = case_named("attic.shop.cow.head-only")
    attic = AtticApp(tmp_path, case.now_ms)
    before, previews = attic.stored(), list[IcebergExpiryPreview]()
    result = attic.expire(case.table, arguments_of(case), confirm=previews.append, dry_run=True)
    assert attic.stored() == before
    assert sum(result.deleted.values()) == len(deletable(case))
    assert not isinstance(result.snapshots, UnsetType)
    assert [each.expires for each in result.snapshots] == [
        each.snapshot_id in result.expired_snapshots for each in result.snapshots
    ]
    kept = [each for each in result.snapshots if not each.expires]
    assert all(each.reasons for each in kept)
    assert sum(each.bytes for each in result.snapshots) > 0
    assert not (tmp_path / ".lakesweep").exists()


def test_a_file_that_a_catalog_points_to_is_expired_without_its_files(tmp_path: Path) -> None:
    """The entry of the catalog does not move, so it still needs every snapshot."""
    case = case_named("attic.shop.source.head-only")
    attic = AtticApp(tmp_path, case.now_ms)
    before = attic.stored()
    path = case.metadata_before
    out = f"{path.rpartition('/')[0]}/expired.metadata.json"
    result = attic.expire(path, arguments_of(case), metadata_out=out, overrides=OVERRIDES)
    assert result.expired_snapshots
    assert before <= attic.stored()


def test_guards_hold_for_the_state_that_is_committed_too(tmp_path: Path) -> None:
    """Somebody empties the table while a person looks at what would expire."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("shop", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    rows = pa.table({"id": list(range(120))})
    table = catalog.create_table("db.orders", schema=rows.schema)
    with table.update_spec() as spec:
        spec.add_field("id", IdentityTransform())
    table.append(rows)
    table.append(rows.slice(0, 1))
    roots = [{"type": "iceberg-catalog", "name": "shop", "properties": {"type": "sql", "uri": uri}}]
    lake = {"locations": [f"{tmp_path}/warehouse"], "roots": roots}
    app = App(Config.model_validate({"lakes": {"l": lake}}), folder=tmp_path)

    def empty(_: IcebergExpiryPreview) -> None:
        catalog.load_table("db.orders").overwrite(rows.slice(0, 0))

    request = ExpireTablesRequest(
        refs=("shop.db.orders",), terms=ExpiryTerms(RetentionArguments(older_than_ms=2**52))
    )
    with pytest.raises(RefusedError, match="121 of the 121 data and delete files"):
        expire_table(app, "shop.db.orders", request, empty)
    data = list((tmp_path / "warehouse").rglob("*.parquet"))
    assert len(data) == 121
    assert len(catalog.load_table("db.orders").snapshots()) > 1
