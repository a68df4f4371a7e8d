"""What a root of any configured lake references in a repository stays, whatever a policy says."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.config import IcebergMetadataRoot, IcebergScanRoot, PinnedRoot, Root
from lakesweep.errors import IncompleteError
from lakesweep.storage.address import parse
from tests.iceberg_tables import BUCKET, Bucket, File, Table
from tests.lakefs import RealRepositories
from tests.lifecycle_plans import Office, recorded
from tests.planned import deletes, reasons

RULES = {"events": {"prefix": "events", "days": 90}, "state": {"prefix": "state", "days": 30}}


@pytest.fixture
def office(lakefs_repositories: RealRepositories, tmp_path: Path) -> Office:
    return Office(recorded(lakefs_repositories, "analytics", tmp_path), stores=Bucket().stores)


def pinned(tmp_path: Path, path: str) -> Root:
    """A list of what is kept, with one line."""
    file = tmp_path / "pins.txt"
    file.write_text(f"{path}\n")
    return PinnedRoot(type="pinned", file=str(file))


def registered(office: Office, path: str) -> Root:
    """A table that was registered with a data file by the address of an object."""
    bucket = Bucket()
    bucket.store = office.stores.open(parse(BUCKET))
    table = Table(bucket, "adopted")
    table.snapshot(table.manifest("m0.avro", File(path)))
    return IcebergMetadataRoot(type="iceberg-metadata", files=(table.commit(),))


def test_what_a_pinned_list_names_stays(office: Office, tmp_path: Path) -> None:
    path = min(deletes(office.plan(RULES)))
    office.roots = (pinned(tmp_path, path),)
    plan = office.plan(RULES)
    assert reasons(plan)[path] == "pinned"
    assert path not in deletes(plan) != set()


def test_what_a_table_references_by_its_address_stays(office: Office) -> None:
    path = min(deletes(office.plan(RULES)))
    office.roots = (registered(office, path),)
    plan = office.plan(RULES)
    assert reasons(plan)[path] == "referenced"
    assert path not in deletes(plan) != set()


@pytest.mark.parametrize("how", ["pinned", "registered"])
def test_a_root_that_is_configured_after_the_plan_keeps_its_objects(
    office: Office, tmp_path: Path, how: str
) -> None:
    plan = office.plan(RULES)
    path = min(deletes(plan))
    root = pinned(tmp_path, path) if how == "pinned" else registered(office, path)
    office.roots = (root,)
    assert office.apply(plan).kept_by_remark == 1
    assert Path(path).exists()


def test_a_root_that_cannot_be_read_lets_no_plan_be_made(office: Office, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.metadata.json")
    office.roots = (IcebergMetadataRoot(type="iceberg-metadata", files=(gone,)),)
    with pytest.raises(IncompleteError, match=r"gone\.metadata\.json could not be read") as caught:
        office.plan(RULES)
    assert "remove it from the configuration" in caught.value.hint


def test_a_root_that_cannot_be_read_any_more_stops_before_the_first_delete(
    office: Office, tmp_path: Path
) -> None:
    plan, before = office.plan(RULES), office.stored()
    office.roots = (PinnedRoot(type="pinned", file=str(tmp_path / "gone.txt")),)
    with pytest.raises(IncompleteError, match=r"gone\.txt"):
        office.apply(plan)
    assert office.stored() == before


def test_a_hold_does_not_end_for_what_a_table_references(office: Office) -> None:
    plan = office.plan(RULES)
    doomed = deletes(plan)
    office.apply(plan, quarantine=True)
    office.roots = (registered(office, min(doomed)),)
    released = office.empty(plan)
    assert released.referenced == [min(doomed)]
    assert released.tally.deleted == len(doomed) - 1


def test_a_scan_is_asked_by_its_own_lake_only(office: Office, tmp_path: Path) -> None:
    doomed = deletes(office.plan(RULES))
    scan = IcebergScanRoot(type="iceberg-scan", path=str(tmp_path), keep=True)
    office.roots = (scan,)
    assert deletes(office.plan(RULES)) == doomed


def test_the_lake_of_a_repository_alone_asks_nobody_else(office: Office) -> None:
    assert [root.kind for root in office.plan(RULES).marks().roots] == ["lakefs"]
