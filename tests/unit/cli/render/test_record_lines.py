""""""

from __future__ import annotations

import msgspec
import pytest

from lakesweep.cli.render.record_lines import commit_lines, reference_text, run_table, run_text
from lakesweep.clock import micros
from lakesweep.operations.lakes.runs import RunView
from lakesweep.operations.store.log import CommitView, ReferenceView, readable_key
from lakesweep.runs.records import RunKind, RunRecord, RunStatus
from lakesweep.store import Change, Commit, Stored, key
from lakesweep.store.backends.rows import Reference
from lakesweep.untrusted.text import printable_lines
from tests.moments import NOON

RUNNING = RunRecord(run="apply-1", lake="prod", kind=RunKind.APPLY, started_at=micros(NOON))
DONE = RunRecord(
    run="plan-1",
    lake="prod",
    kind=RunKind.PLAN,
    started_at=micros(NOON),
    finished_at=micros(NOON) + 1_500_000,
    status=RunStatus.INCOMPLETE,
    message="1 root could not be read",
    spec={"inventory": None, "overridden": ["grace", "share"]},
    figures={"plan": "plan-1", "listed": 1200, "seconds": {"list": 0.5}},
)


def test_a_run_that_ended_says_how_and_when() -> None:
    line = RunView.of(DONE)
    assert line.seconds == 1.5
    assert line.plan == "plan-1"
    for word in ("plan-1", "incomplete", "1.5 s", "prod", "1 root could not be read"):
        assert word in run_text(line)


def test_a_run_shows_what_it_deleted_and_who_ran_it() -> None:
    figures = {"deleted": 3, "bytes_deleted": 2_000, "quarantined": 1, "bytes_quarantined": 500}
    record = msgspec.structs.replace(RUNNING, user="ada", host="box", figures=figures)
    assert run_text(RunView.of(record)).endswith("prod  4 files, 2.5 kB  ada@box")


def test_a_run_over_a_table_shows_its_address() -> None:
    spec = {"paimon": "s3://lake/shop.db/orders", "quarantine": False, "fast": True}
    view = RunView.of(msgspec.structs.replace(RUNNING, lake="paimon-1f", spec=spec))
    assert "s3://lake/shop.db/orders" in run_text(view)
    rows = {row[0]: row[1] for row in run_table(view).rows}
    assert "asked for quarantine" not in rows
    assert rows["asked for fast"] == "yes"


def test_a_run_under_way_has_no_end() -> None:
    line = RunView.of(RUNNING)
    assert (line.finished, line.seconds, line.plan) == (None, None, None)
    assert "running" in run_text(line)


def test_all_figures_are_shown_one_a_row() -> None:
    rows = {row[0]: row[1] for row in run_table(RunView.of(DONE)).rows}
    assert rows["found listed"] == "1,200"
    assert rows["found seconds list"] == "0.5"
    assert rows["asked for overridden"] == "grace, share"
    assert "asked for inventory" not in rows


def test_a_standing_decision_is_shown_in_words() -> None:
    decision = {"guard": "missing", "subject": "shop.orders", "until": "2027-01-31"}
    record = msgspec.structs.replace(DONE, spec={"accepted": [decision]})
    rows = {row[0]: row[1] for row in run_table(RunView.of(record)).rows}
    assert rows["asked for accepted"] == "guard missing, subject shop.orders, until 2027-01-31"


def _commit(*changes: Change, message: str = "why", author: str = "who") -> Stored[Commit]:
    commit = Commit(
        seq=3, committed_at=micros(NOON), message=message, author=author, changes=changes
    )
    return Stored(2**62, commit, micros(NOON))


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (key("shop", "orders"), "shop/orders"),
        (key("shop", 7, -1), "shop/7/-1"),
        (key(b"\x00\xff"), "00ff"),
        (b"soup", "soup"),
        ("Käse".encode(), "Käse"),
        (b"\xff\xfe", "0xfffe"),
        (b"a\nb", "0x610a62"),
        (b"", ""),
    ],
)
def test_keys_are_readable(stored: bytes, shown: str) -> None:
    assert readable_key(stored) == shown


def test_a_commit_is_shown_with_all_that_it_says() -> None:
    line = CommitView.of(
        _commit(Change("add", key("a")), Change("rename", key("b"), before=key("c")))
    )
    assert commit_lines(line) == [
        f"{2**62}  seq 3  {NOON:%Y-%m-%dT%H:%M:%SZ}  who:  why",
        "    add     a",
        "    rename  b  (before: c)",
    ]


def test_programs_get_the_exact_key_as_well() -> None:
    [change] = CommitView.of(_commit(Change("add", b"soup"))).changes
    assert bytes.fromhex(change.key_hex) == b"soup"


def test_what_a_commit_does_not_say_takes_no_room() -> None:
    line = CommitView.of(_commit(message="", author=""))
    assert commit_lines(line) == [f"{2**62}  seq 3  {NOON:%Y-%m-%dT%H:%M:%SZ}"]


def test_people_see_the_first_changes_and_programs_all() -> None:
    line = CommitView.of(_commit(*(Change("add", key(number)) for number in range(1_025))))
    assert commit_lines(line)[-1] == "    and 1,005 more; --json shows all"
    assert len(line.changes) == 1_025


def test_a_reference_without_commits_has_no_head() -> None:
    line = ReferenceView.of(Reference("main", None, 0, 0), None)
    assert reference_text(line).split() == ["-", "-", "-", "main"]


def test_a_reference_that_cannot_be_read_says_why() -> None:
    line = ReferenceView(reference="main", head="7", problem="the head is missing")
    assert reference_text(line).split(maxsplit=3) == ["-", "-", "7", "main  (the head is missing)"]


def test_no_name_or_message_begins_a_line_of_its_own() -> None:
    forged = "a\n       9  -  -  b"
    reference = Reference(forged, None, 0, 0)
    commit = _commit(Change("add", key(forged)), message=forged, author=forged)
    shown = reference_text(ReferenceView.of(reference, None))
    assert len(printable_lines(shown).splitlines()) == 1
    assert len(printable_lines(commit_lines(CommitView.of(commit))).splitlines()) == 2
