"""Which snapshots stay: the answers of Iceberg itself, and what we keep beyond them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from lakesweep.errors import DamagedError, RefusedError, UsageError
from lakesweep.upkeep.history import HistoryRef, HistorySnapshot, SnapshotHistory, parse_history
from lakesweep.upkeep.snapshot_retention import (
    KeptFor,
    RetentionArguments,
    RetentionDecision,
    SnapshotStanding,
    ValueSource,
    decide,
)
from tests.expiry_lake import ExpiryCase, expiry_cases, object_at

NOW = 1_000_000_000
DAY = 86_400_000


def arguments_of(case: ExpiryCase, **others: Any) -> RetentionArguments:
    given = case.answer["arguments"]
    return RetentionArguments(
        older_than_ms=given["older_than_ms"],
        retain_last=given["retain_last"],
        snapshot_ids=tuple(given["snapshot_ids"]),
        **others,
    )


def history_of(case: ExpiryCase) -> SnapshotHistory:
    return parse_history(case.metadata_before, object_at(case.metadata_before))


def answered(case: ExpiryCase) -> bool:
    """Whether the case says what is to stay."""
    return str(case.answer["outcome"]) != "refused"


def refused(case: ExpiryCase) -> bool:
    return case.answer["outcome"] == "refused" and "GC is disabled" not in str(case.answer)


# A clock ran back along the branch. The engine stops at the first old ancestor and drops a younger
# one behind it; we keep that.
CLOCK_RAN_BACK = "attic.shop.clocks.cut-between-back-and-ahead"


@pytest.mark.parametrize("case", [*filter(answered, expiry_cases())], ids=str)
def test_the_same_snapshots_and_refs_stay_as_with_the_engine(case: ExpiryCase) -> None:
    decision = decide(history_of(case), arguments_of(case), case.now_ms)
    # Where the engine failed without need, the rule has the answer.
    answer = {**case.answer, **case.answer["rule"]}
    retained = set(answer["snapshots_retained"])
    if case.name == CLOCK_RAN_BACK:
        assert retained < set(decision.kept)
        return
    assert set(decision.kept) == retained
    assert set(decision.kept_refs) == set(answer["refs_after"])
    assert all(decision.kept.values())


@pytest.mark.parametrize("case", [*filter(refused, expiry_cases())], ids=str)
def test_what_the_engine_refuses_is_refused(case: ExpiryCase) -> None:
    with pytest.raises((RefusedError, UsageError)):
        decide(history_of(case), arguments_of(case), case.now_ms)


def table(*snapshots: dict[str, Any], refs: Any = None, **fields: Any) -> SnapshotHistory:
    """A table whose newest snapshot is current, unless refs say otherwise."""
    document = {
        "snapshots": [*snapshots],
        "current-snapshot-id": snapshots[-1]["snapshot-id"],
        **({} if refs is None else {"refs": refs}),
        **fields,
    }
    return parse_history("t.metadata.json", json.dumps(document).encode())


def snapshot(number: int, at: int, parent: int | None = None, **summary: str) -> dict[str, Any]:
    return {
        "snapshot-id": number,
        "timestamp-ms": at,
        "summary": summary,
        **({} if parent is None else {"parent-snapshot-id": parent}),
    }


def chain(count: int, **summaries: dict[str, str]) -> list[dict[str, Any]]:
    """Snapshots 1 to `count`, a day apart, the newest a day old."""
    return [
        snapshot(
            number,
            NOW - (count - number + 1) * DAY,
            number - 1 or None,
            **summaries.get(f"s{number}", {}),
        )
        for number in range(1, count + 1)
    ]


ALL_OLD = RetentionArguments(older_than_ms=NOW)


def expired(decision: RetentionDecision) -> list[int]:
    return [each.id for each in decision.expiring]


def test_a_kept_snapshot_has_all_its_reasons() -> None:
    history = table(*chain(3), refs={"tag": {"snapshot-id": 1, "type": "tag"}})
    kept = decide(history, RetentionArguments(NOW - DAY, retain_last=2), NOW).kept
    assert {number: [(each.why, each.ref) for each in found] for number, found in kept.items()} == {
        1: [(KeptFor.HEAD, "tag")],
        2: [(KeptFor.COUNT, "main")],
        3: [(KeptFor.HEAD, "main"), (KeptFor.COUNT, "main"), (KeptFor.AGE, "main")],
    }


def test_the_nearest_source_of_a_value_counts() -> None:
    properties = {"history.expire.min-snapshots-to-keep": "2"}
    by_property = decide(table(*chain(3), properties=properties), ALL_OLD, NOW)
    assert [each.bound and each.bound.source for each in by_property.kept[2]] == [
        ValueSource.PROPERTY
    ]
    refs = {"main": {"snapshot-id": 3, "type": "branch", "min-snapshots-to-keep": 3}}
    by_ref = decide(table(*chain(3), properties=properties, refs=refs), ALL_OLD, NOW)
    assert expired(by_ref) == []


def test_a_property_that_is_no_number_stops() -> None:
    history = table(*chain(2), properties={"history.expire.max-snapshot-age-ms": "5 days"})
    with pytest.raises(DamagedError, match="5 days"):
        decide(history, RetentionArguments(), NOW)


@pytest.mark.parametrize(
    "summary",
    [
        {"flink.job-id": "j", "flink.operator-id": "o", "flink.max-committed-checkpoint-id": "7"},
        {"spark.sql.streaming.queryId": "q", "spark.sql.streaming.epochId": "3"},
        {"kafka.connect.offsets.topic.group": "{}"},
    ],
    ids=["flink", "spark", "kafka"],
)
def test_the_chain_to_the_newest_marker_of_a_writer_stays(summary: dict[str, str]) -> None:
    history = table(*chain(5, s2=summary, s3=summary))
    decision = decide(history, ALL_OLD, NOW)
    assert expired(decision) == [1, 2]
    assert [each.why for each in decision.kept[3]] == [KeptFor.WRITER]
    without = RetentionArguments(NOW, marker_age=timedelta(days=2))
    assert expired(decide(history, without, NOW)) == [1, 2, 3, 4]


def test_each_writer_keeps_its_own_chain() -> None:
    history = table(
        *chain(
            4,
            s2={"kafka.connect.offsets.slow": "1"},
            s4={"kafka.connect.offsets.fast": "9"},
        )
    )
    assert expired(decide(history, ALL_OLD, NOW)) == [1]


def test_ids_alone_expire_nothing_else() -> None:
    arguments = RetentionArguments(snapshot_ids=(2, 99), only_ids=True)
    decision = decide(table(*chain(9)), arguments, NOW)
    assert expired(decision) == [2]
    assert decision.unknown_ids == (99,)
    assert [each.why for each in decision.kept[1]] == [KeptFor.NOT_NAMED]


def test_staged_and_rolled_back_snapshots_are_told_apart() -> None:
    history = table(
        snapshot(1, NOW - 5 * DAY),
        snapshot(2, NOW - 4 * DAY, 1),
        snapshot(3, NOW - 3 * DAY, 1, **{"wap.id": "audit"}),
        snapshot(4, NOW - 3 * DAY, 1, **{"wap.id": "published"}),
        snapshot(5, NOW - DAY, 1, **{"published-wap-id": "published"}),
        **{"snapshot-log": [{"timestamp-ms": 0, "snapshot-id": each} for each in (1, 2, 5)]},
    )
    standings = {each.id: each.standing for each in decide(history, ALL_OLD, NOW).expiring}
    assert standings == {
        1: SnapshotStanding.ANCESTOR,
        2: SnapshotStanding.ROLLED_BACK,
        3: SnapshotStanding.STAGED,
        4: SnapshotStanding.UNREFERENCED,
    }
    careful = RetentionArguments(NOW, keep_staged=True)
    assert expired(decide(history, careful, NOW)) == [1, 2, 4]


def test_a_limit_expires_the_oldest_first() -> None:
    decision = decide(table(*chain(5)), RetentionArguments(NOW, limit=2), NOW)
    assert expired(decision) == [1, 2]
    assert [each.why for each in decision.kept[3]] == [KeptFor.LIMIT]


def test_a_cycle_of_parents_ends() -> None:
    history = table(snapshot(1, NOW - 3 * DAY, 2), snapshot(2, NOW - 2 * DAY, 1))
    assert expired(decide(history, ALL_OLD, NOW)) == [1]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"refs": {"t": {"snapshot-id": 9, "type": "tag"}}}, "does not exist"),
        ({"refs": {"main": {"snapshot-id": 1, "type": "branch"}}}, "2 is current"),
        ({"refs": {"t": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 0}}}, "max-ref-age"),
        ({"snapshots": chain(1) * 2, "current-snapshot-id": 1}, "has 2 snapshots 1"),
    ],
)
def test_a_history_that_contradicts_itself_is_damaged(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(DamagedError, match=words):
        table(*chain(2), **fields)


def test_a_ref_expires_by_the_age_of_its_head() -> None:
    refs = {"old": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": DAY}}
    decision = decide(table(*chain(2), refs=refs), RetentionArguments(), NOW)
    (gone,) = decision.removed_refs
    assert (gone.name, gone.snapshot_id, gone.age_ms) == ("old", 1, 2 * DAY)
    assert (gone.max_age.value, gone.max_age.source) == (DAY, ValueSource.REF)
    assert not decision.is_empty
    assert expired(decision) == []


def test_floors_keep_more_than_a_branch_asks_for() -> None:
    snapshots = {
        number: HistorySnapshot(number, 1000 * number, number - 1 or None) for number in range(1, 6)
    }
    own = HistoryRef(5, min_snapshots_to_keep=1, max_snapshot_age_ms=1, max_ref_age_ms=1)
    history = SnapshotHistory("t", snapshots, {"main": own, "old": own})
    expired = decide(history, RetentionArguments(), 6000)
    assert ([each.id for each in expired.expiring], len(expired.removed_refs)) == ([1, 2, 3, 4], 1)
    by_age = decide(history, RetentionArguments(floor_age_ms=3000), 6000)
    assert ([each.id for each in by_age.expiring], by_age.removed_refs) == ([1, 2], ())
    by_number = decide(history, RetentionArguments(floor_keep=4), 6000)
    assert [each.id for each in by_number.expiring] == [1]
