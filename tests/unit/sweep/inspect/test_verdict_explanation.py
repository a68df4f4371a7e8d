"""Why files are kept or deleted, in words that can be acted upon."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakesweep.config import LakeSection
from lakesweep.errors import DeniedError, NotFoundError
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail
from lakesweep.sweep.inspect.verdict_explanation import Explanation, _proof, explain, find_row
from lakesweep.sweep.judge.live_set import MatchMode
from lakesweep.sweep.mark.marks import Marks
from lakesweep.sweep.plan.stored_plan import StoredPlan
from lakesweep.sweep.verdicts import Reason
from tests.iceberg_tables import BUCKET, Bucket, Names, Table
from tests.planned import Desk, deletes, rows_of

ORPHAN = f"{BUCKET}/one/data/odd [1]{{a}},*?.parquet"


class Lake:
    """Two tables, one of which opted out, and files for which there are all sorts of reasons."""

    def __init__(self, **section: Any) -> None:
        self.bucket = Bucket()
        one, two = Table(self.bucket, "one"), Table(self.bucket, "two")
        two.document["properties"] = {"gc.enabled": "false"}
        self.names = Names({"one": self._fill(one), "two": self._fill(two)})
        for path in (ORPHAN, f"{BUCKET}/two/data/orphan.parquet", f"{BUCKET}/one/_SUCCESS"):
            self.bucket.write(path, b"")
        self.bucket.write(f"{BUCKET}/one/keep/x.parquet", b"")
        self.bucket.write(f"{BUCKET}/one/what", b"")
        settings = {"locations": (BUCKET,), "exclude": ("one/keep/**",), **section}
        self.desk = Desk(self.bucket.stores, LakeSection(**settings), [self.names])

    def _fill(self, table: Table) -> str:
        self.bucket.write(table.path("data/a.parquet"), b"1234567")
        table.snapshot(table.manifest("m0.avro", table.data("a.parquet")))
        return table.commit()


@pytest.fixture
def lake() -> Lake:
    return Lake()


def words(explanation: Explanation) -> str:
    return "\n".join(explanation.evidence)


@pytest.mark.parametrize(
    ("path", "reason", "because"),
    [
        ("one/data/a.parquet", Reason.REFERENCED, "1 root keeps it alive"),
        ("two/data/orphan.parquet", Reason.OPTED_OUT, "two, which says gc.enabled=false"),
        ("one/keep/x.parquet", Reason.EXCLUDED, "one/keep/**"),
        ("one/_SUCCESS", Reason.HIDDEN, "begins with . or _"),
        ("one/what", Reason.UNKNOWN_KIND, "named like no file of a table"),
    ],
)
def test_a_file_that_stays_has_a_reason_in_words(
    lake: Lake, path: str, reason: Reason, because: str
) -> None:
    found = explain(lake.desk.plan(), f"{BUCKET}/{path}")
    assert (found.row["verdict"], found.row["reason"]) == ("keep", reason)
    assert because in words(found)
    assert not found.would_be_kept_by


def test_every_file_of_a_plan_can_be_explained(lake: Lake) -> None:
    plan = lake.desk.plan()
    for row in rows_of(plan):
        found = explain(plan, row["path"])
        assert found.row == row
        assert found.evidence


def test_a_referenced_file_leads_up_to_its_root(lake: Lake) -> None:
    [reference] = explain(lake.desk.plan(), f"{BUCKET}/one/data/a.parquet").references
    assert reference.root.name == "one"
    assert reference.through[0] == lake.names.pointers["one"]
    assert reference.through[-1].endswith("m0.avro")


def test_any_spelling_of_an_address_finds_the_file(lake: Lake) -> None:
    row = find_row(lake.desk.plan(), "s3a://lake/one/data/a.parquet")
    assert row is not None
    assert row["path"] == f"{BUCKET}/one/data/a.parquet"


def test_a_file_that_goes_comes_with_the_proof(lake: Lake) -> None:
    found = explain(lake.desk.plan(), ORPHAN)
    assert found.row["verdict"] == "delete"
    assert "none of 2 roots references it" in words(found)
    assert "before the cut-off" in words(found)
    assert "it lies in a folder of one" in words(found)
    assert "never committed" in words(found)


@pytest.mark.parametrize("rule", [None, "a guess of another version"])
def test_a_file_without_a_known_guess_is_explained_all_the_same(
    lake: Lake, rule: str | None
) -> None:
    plan = lake.desk.plan()
    row = {**(find_row(plan, ORPHAN) or {}), "rule": rule}
    assert "it lies in a folder of one" in list(_proof(plan.document, row))


def setting(explanation: Explanation, name: str) -> Any:
    """What the lake should say, as an explanation has it."""
    [line] = [each for each in explanation.would_be_kept_by if each.startswith(f"{name} = ")]
    return tomllib.loads(line)[name]


def test_the_exclude_that_is_offered_keeps_the_file(lake: Lake) -> None:
    pattern = setting(explain(lake.desk.plan(), ORPHAN), "exclude")
    assert deletes(Lake(exclude=tuple(pattern)).desk.plan()) == {f"{BUCKET}/one/keep/x.parquet"}


def test_the_grace_that_is_offered_keeps_the_file(lake: Lake) -> None:
    days = int(setting(explain(lake.desk.plan(), ORPHAN), "grace").removesuffix("d"))
    assert ORPHAN not in deletes(lake.desk.plan(grace=timedelta(days=days)))
    assert ORPHAN in deletes(lake.desk.plan(grace=timedelta(days=days - 1)))


def test_unknown_is_offered_where_it_would_help() -> None:
    plan = Lake(unknown="delete").desk.plan()
    assert setting(explain(plan, f"{BUCKET}/one/_SUCCESS"), "unknown") == "keep"
    assert not [e for e in explain(plan, ORPHAN).would_be_kept_by if e.startswith("unknown")]


def test_a_new_file_may_go_later(lake: Lake) -> None:
    found = explain(lake.desk.plan(grace=timedelta(days=31)), ORPHAN)
    assert found.row["reason"] == "too-new"
    assert "a plan may delete it from" in words(found)


def test_what_a_root_that_cannot_be_read_may_keep_names_the_root(lake: Lake) -> None:
    lake.bucket.write(f"{BUCKET}/one/metadata/m0.avro", b"broken")
    found = explain(lake.desk.plan(), ORPHAN)
    assert found.row["reason"] == "incomplete-root"
    assert "one may reference it, and could not be read" in words(found)
    assert "m0.avro" in words(found)


def test_a_file_that_a_filter_took_for_live_is_told_so(lake: Lake) -> None:
    plan = lake.desk.plan(mode=MatchMode.BLOOM)
    del lake.names.pointers["one"]
    without = lake.desk.plan(name="plan-without").marks()

    class Erring(StoredPlan):
        """As if the filter had taken the files of a table for live that no root names."""

        def marks(self) -> Marks:
            return without

    erring = Erring(plan.stores, plan.record, plan.document)
    assert "took it for live by mistake" in words(explain(erring, f"{BUCKET}/one/data/a.parquet"))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("s3://other/x", "lies outside of what"),
        (f"{BUCKET}-2/x", "lies outside of what"),
        (f"{BUCKET}/one/data/nothing", "is not stored, and was not"),
    ],
)
def test_a_file_that_is_not_in_the_plan_is_told_with_the_reason(
    lake: Lake, path: str, why: str
) -> None:
    with pytest.raises(NotFoundError, match=why):
        explain(lake.desk.plan(), path)


def test_a_file_that_came_after_the_listing_is_newer_than_the_plan(lake: Lake) -> None:
    plan = lake.desk.plan()
    path = lake.bucket.write(f"{BUCKET}/one/data/new.parquet", b"")
    with pytest.raises(NotFoundError, match="newer than the plan"):
        explain(plan, path)


def test_a_file_that_is_referenced_and_gone_is_a_matter_for_check(lake: Lake) -> None:
    lake.bucket.delete(f"{BUCKET}/one/data/a.parquet")
    with pytest.raises(NotFoundError, match="although one references it") as caught:
        explain(lake.desk.plan(), f"{BUCKET}/one/data/a.parquet")
    assert caught.value.hint == "lakesweep check prod"


def test_a_store_that_does_not_answer_is_told(lake: Lake) -> None:
    plan = lake.desk.plan()
    denied = StorageFault(fail(DeniedError, "no right"), frozenset({"head"}))
    stores = Stores(replace={BUCKET: Faulty(lake.bucket.store, [denied])})
    with pytest.raises(NotFoundError, match=r"cannot be looked at: .*no right"):
        explain(replace(plan, stores=stores), f"{BUCKET}/one/data/nothing")
