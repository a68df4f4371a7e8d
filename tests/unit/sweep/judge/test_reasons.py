from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from lakesweep.storage.address import identities
from lakesweep.sweep.columns import LISTING, VERDICTS
from lakesweep.sweep.judge.reasons import JudgeRules, judge
from lakesweep.sweep.paths.file_names import FormatFamily
from tests.sweep_rows import NOW, OLD, RULES, folders, listing

UUID = "5c2f9b1e-0a1b-4c2d-8e3f-0123456789ab"
DATA = "s3://b/wh/t/data/a.parquet"


Reasons = list[tuple[str, str | None]]


def verdicts(
    rules: JudgeRules, *rows: tuple[str, datetime | None], referenced: tuple[str, ...] = ()
) -> pa.RecordBatch:
    batch = listing(*rows)
    live = pa.array([path in referenced for path, _ in rows])
    return judge(batch, identities(batch["path"]), live, rules)


def reasons(rules: JudgeRules, *paths: str, modified: datetime | None = OLD) -> Reasons:
    rows = verdicts(rules, *((path, modified) for path in paths))
    return list(zip(rows["reason"].to_pylist(), rows["rule"].to_pylist(), strict=True))


class TestVerdicts:
    def test_keep_what_is_referenced_and_delete_the_rest(self) -> None:
        other = "s3://b/wh/t/data/b.parquet"
        rows = verdicts(RULES, (DATA, OLD), (other, OLD), referenced=(other,))
        assert rows["verdict"].to_pylist() == ["delete", "keep"]
        assert rows["reason"].to_pylist() == ["unreferenced", "referenced"]
        assert rows["rule"].to_pylist() == ["aborted-write", None]

    def test_carry_all_that_was_listed_and_the_table(self) -> None:
        batch = listing((DATA, OLD), ("s3://b/wh/x/b.parquet", None))
        rows = judge(batch, batch["path"], pa.array([False, True]), RULES)
        assert rows.schema == VERDICTS
        for name in LISTING.names:
            assert rows[name] == batch[name]
        assert rows["table"].to_pylist() == ["shop.t", None]

    def test_of_nothing_are_none(self) -> None:
        assert verdicts(RULES).num_rows == 0

    def test_want_to_know_of_each_file_whether_it_is_referenced(self) -> None:
        batch = listing((DATA, OLD), (DATA, OLD))
        for referenced in (pa.array([True, None]), pa.array([True])):
            with pytest.raises(ValueError, match="must be known"):
                judge(batch, batch["path"], referenced, RULES)

    def test_are_the_same_with_rules_that_were_sent_elsewhere(self) -> None:
        rules = pickle.loads(pickle.dumps(replace(RULES, excludes=("*.parquet",))))
        assert reasons(rules, DATA) == [("excluded", "*.parquet")]


class TestFolders:
    def test_of_pins_keep_files_and_all_that_lies_below(self) -> None:
        pins = folders((DATA + "/", "a pin"), ("s3://b/wh/kept/", "a folder"))
        rules = replace(RULES, pinned=pins)
        kept = reasons(rules, DATA, "s3://b/wh/kept/x.parquet", "s3://b/wh/kept2/x.parquet")
        assert kept == [
            ("pinned", "a pin"),
            ("pinned", "a folder"),
            ("unreferenced", "dropped-table"),
        ]

    @pytest.mark.parametrize(
        ("rules", "reason"),
        [
            (replace(RULES, own=folders(("s3://b/wh/t/", "plans"))), "own"),
            (replace(RULES, foreign=folders(("s3://b/wh/t/", "lake x"))), "foreign"),
            (replace(RULES, incomplete=folders(("s3://b/wh/t/", "shop.t"))), "incomplete-root"),
            (replace(RULES, opted_out=folders(("s3://b/wh/t/", "shop.t"))), "opted-out"),
        ],
    )
    def test_keep_all_below_them_and_nothing_beside(self, rules: JudgeRules, reason: str) -> None:
        found = reasons(rules, DATA, "s3://b/wh/t", "s3://b/wh/t1/data/a.parquet")
        assert [each for each, _ in found] == [reason, reason, "unreferenced"]
        assert found[0][1] is not None

    def test_hold_what_lies_in_no_location(self) -> None:
        found = reasons(RULES, "s3://b/wh2/a.parquet", "s3://b/a.parquet", "s3://b/wh")
        assert found == [("outside", None)] * 3

    def test_of_other_formats_are_seen_by_their_names(self) -> None:
        path = f"s3://b/wh/p/bucket-0/data-{UUID}-0.parquet"
        assert reasons(RULES, path) == [("foreign", "looks like paimon")]
        assert reasons(replace(RULES, keep_unknown=False), path)[0][0] == "foreign"

    def test_of_formats_that_a_root_reads_are_judged(self) -> None:
        rules = replace(RULES, families=frozenset({FormatFamily.ICEBERG, FormatFamily.PAIMON}))
        paths = (f"s3://b/wh/p/bucket-0/data-{UUID}-0.parquet", "s3://b/wh/p/snapshot/snapshot-1")
        assert [each for each, _ in reasons(rules, *paths)] == ["unreferenced", "unreferenced"]


class TestExcludes:
    def test_are_globs_below_the_location(self) -> None:
        rules = replace(RULES, excludes=("t/x/**", "*.bak", "/top.parquet"))
        paths = ("s3://b/wh/t/x/a.parquet", "s3://b/wh/t/a.bak", "s3://b/wh/top.parquet")
        assert reasons(rules, *paths) == [
            ("excluded", "t/x/**"), ("excluded", "*.bak"), ("excluded", "/top.parquet"),
        ]  # fmt: skip
        others = ("s3://b/wh/u/t/x/a.parquet", "s3://b/wh/t/top.parquet")
        assert [each for each, _ in reasons(rules, *others)] == ["unreferenced", "unreferenced"]

    def test_tell_the_first_glob_that_matches(self) -> None:
        rules = replace(RULES, excludes=("*.x", "*.parquet", "**/a.*"))
        assert reasons(rules, DATA) == [("excluded", "*.parquet")]

    def test_are_tried_below_each_of_nested_locations(self) -> None:
        nested = folders(("s3://b/wh/", "outer"), ("s3://b/wh/t/", "inner"))
        rules = replace(RULES, locations=nested, excludes=("t/data/**",))
        assert reasons(rules, DATA) == [("excluded", "t/data/**")]

    def test_count_characters_and_not_bytes_of_the_location(self) -> None:
        rules = replace(RULES, locations=folders(("s3://b/žž/", "it")), excludes=("/ab",))
        assert reasons(rules, "s3://b/žž/ab") == [("excluded", "/ab")]


class TestAge:
    @pytest.mark.parametrize(
        "modified", [None, *(datetime(year, 1, 1, 1, tzinfo=UTC) for year in (1969, 1970, 1980))]
    )
    def test_that_is_not_known_keeps(self, modified: datetime | None) -> None:
        assert reasons(RULES, DATA, modified=modified) == [("age-unknown", "no time")]

    def test_in_the_future_is_not_believed(self) -> None:
        later = NOW + timedelta(microseconds=1)
        assert reasons(RULES, DATA, modified=later) == [("age-unknown", "in the future")]

    def test_counts_from_the_cut_off_on(self) -> None:
        before = RULES.cutoff - timedelta(microseconds=1)
        assert reasons(RULES, DATA, modified=before)[0][0] == "unreferenced"
        for modified in (RULES.cutoff, NOW):
            assert reasons(RULES, DATA, modified=modified) == [("too-new", None)]

    def test_needs_moments_that_make_sense(self) -> None:
        for now, cutoff in ((NOW, NOW + timedelta(1)), (NOW.replace(tzinfo=None), OLD)):
            with pytest.raises(ValueError, match="moments"):
                JudgeRules(now, cutoff, folders())


class TestNames:
    PATHS = ("s3://b/wh/t/_x/a.parquet", "s3://b/wh/t/.a.parquet", "s3://b/wh/t/readme.txt")

    def test_that_nobody_knows_keep(self) -> None:
        assert reasons(RULES, *self.PATHS) == [
            ("hidden", None), ("hidden", None), ("unknown-kind", None),
        ]  # fmt: skip

    def test_say_nothing_when_told_so(self) -> None:
        rules = replace(RULES, keep_unknown=False)
        assert [each for each, _ in reasons(rules, *self.PATHS)] == ["unreferenced"] * 3

    def test_of_partitions_of_their_table_are_not_hidden(self) -> None:
        tables = folders(("s3://b/wh/t/", "t"), ("s3://b/wh/u/", "u"))
        rules = replace(RULES, tables=tables, hidden_fields={0: frozenset({"_x"})})
        paths = [f"s3://b/wh/{name}/a.parquet" for name in ("t/_x=1", "t/_y=1", "u/_x=1", "_x=1")]
        found = [each for each, _ in reasons(rules, *paths)]
        assert found == ["unreferenced", "hidden", "hidden", "hidden"]


def test_the_first_reason_counts() -> None:
    """Each step takes one protection away; the next one in the order shows."""
    here = folders(("s3://b/wh/", "it"))
    path, modified = "s3://b/wh/t/_x/readme.txt", NOW + timedelta(1)
    rules = replace(
        RULES, pinned=here, own=here, foreign=here, incomplete=here, opted_out=here,
        excludes=("**",), locations=folders(),
    )  # fmt: skip
    none = folders()
    steps = [
        ("pinned", {"pinned": none}), ("own", {"own": none}), ("outside", {"locations": here}),
        ("foreign", {"foreign": none}), ("incomplete-root", {"incomplete": none}),
        ("opted-out", {"opted_out": none}), ("excluded", {"excludes": ()}),
    ]  # fmt: skip
    assert (
        verdicts(rules, (path, modified), referenced=(path,))["reason"][0].as_py() == "referenced"
    )
    for reason, change in steps:
        assert reasons(rules, path, modified=modified)[0][0] == reason
        rules = replace(rules, **change)  # type: ignore[arg-type]
    assert reasons(rules, path, modified=modified)[0][0] == "age-unknown"
    assert reasons(rules, path, modified=NOW)[0][0] == "too-new"
    assert reasons(rules, path)[0][0] == "hidden"
    assert reasons(rules, "s3://b/wh/t/readme.txt")[0][0] == "unknown-kind"
    assert reasons(rules, DATA)[0][0] == "unreferenced"


def test_files_of_ours_that_a_crash_left_go_once_they_are_old() -> None:
    rules = replace(RULES, locations=folders(("/wh/", "it")))
    ours = "/wh/t/metadata/.lakesweep-tmp-0123456789abcdef"
    assert reasons(rules, ours) == [("unreferenced", "temporary")]
    assert reasons(rules, ours, modified=NOW)[0][0] == "too-new"
    assert verdicts(rules, (ours, OLD), referenced=(ours,))["reason"][0].as_py() == "referenced"
    for other in (f"{ours}0", f"{ours}/x.parquet", "/wh/t/.lakesweep-tmp-x"):
        assert reasons(rules, other)[0][0] == "hidden"
    elsewhere = "s3://b/wh/t/metadata/.lakesweep-tmp-0123456789abcdef"
    assert reasons(RULES, elsewhere)[0][0] == "hidden"
    probe = "s3://b/wh/t/data/.lakesweep-probe-0123456789abcdef0123456789abcdef"
    assert reasons(RULES, probe)[0][0] == "unreferenced"
    assert reasons(RULES, probe, modified=NOW)[0][0] == "too-new"


def test_folders_that_only_lakesweep_makes_are_its_own() -> None:
    rules = replace(RULES, keep_unknown=False)
    path = "s3://b/wh/x/_lakesweep/quarantine/plan-1/wh/t/a.parquet"
    assert reasons(rules, path) == [("own", None)]
