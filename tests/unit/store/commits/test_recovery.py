from __future__ import annotations

import pytest

from lakesweep.errors import ContendedError, HeadMissingError, NewerRowError, WrongTypeError
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import RowKey
from lakesweep.store.commits.recovery import diagnose, recover, reset_reference
from tests.stores import REALM, Note, Paper, Writer, add, open_writer


@pytest.fixture
def writer() -> Writer:
    writer = open_writer(MemoryBackend())
    writer.references.create("main")
    return writer


def _commit(writer: Writer, count: int) -> list[int]:
    heads = [writer.commits.commit("main", Note, add(str(number))).head for number in range(count)]
    return [head.id for head in heads if head is not None]


def test_a_reference_without_commits_stays_as_it_is(writer: Writer) -> None:
    assert recover(writer.references, writer.objects, "main").version == 0


def test_a_readable_head_stays(writer: Writer) -> None:
    ids = _commit(writer, 3)
    before = writer.references.fetch("main")
    assert recover(writer.references, writer.objects, "main") == before
    assert before.pointer == ids[-1]


def test_the_newest_readable_commit_becomes_the_head_and_takes_commits(writer: Writer) -> None:
    ids = _commit(writer, 25)
    writer.backend.delete(REALM, [RowKey(ids[-1])])
    _overwrite(writer, ids[-2], b"")
    assert recover(writer.references, writer.objects, "main").pointer == ids[-3]
    writer.commits.commit("main", Note, add("next"))
    keys = [commit.value.changes[0].key for commit in writer.log.oldest_first("main")]
    assert keys == [*(str(number).encode() for number in range(23)), b"next"]


def test_without_any_readable_commit_nothing_is_changed(writer: Writer) -> None:
    ids = _commit(writer, 5)
    writer.backend.delete(REALM, [RowKey(number) for number in ids])
    with pytest.raises(HeadMissingError, match="nor any of its 4 recent commits") as caught:
        recover(writer.references, writer.objects, "main")
    assert "backup" in caught.value.hint
    assert writer.references.fetch("main").pointer == ids[-1]


def test_what_is_wrong_is_told_and_nothing_is_changed(writer: Writer) -> None:
    ids = _commit(writer, 4)
    writer.backend.delete(REALM, [RowKey(ids[-1])])
    _overwrite(writer, ids[-2], b"")
    before = writer.references.fetch("main")
    diagnosis = diagnose(writer.references, writer.objects, "main")
    assert [lost.id for lost in diagnosis.lost] == [ids[-1], ids[-2]]
    assert "missing" in diagnosis.lost[0].reason
    assert "truncated" in diagnosis.lost[1].reason
    assert diagnosis.target is not None
    assert (diagnosis.target.id, diagnosis.target.value.seq) == (ids[1], 2)
    assert writer.references.fetch("main") == before


def test_a_head_of_an_unknown_type_is_as_good_as_any_other(writer: Writer) -> None:
    _commit(writer, 2)
    diagnosis = diagnose(writer.references, writer.objects.undecoded(), "main")
    assert diagnosis.lost == ()


def test_a_head_from_a_newer_program_is_not_given_up(writer: Writer) -> None:
    ids = _commit(writer, 3)
    _overwrite(writer, ids[-1], b"\x09newer")
    with pytest.raises(NewerRowError, match="format 9") as caught:
        recover(writer.references, writer.objects, "main")
    assert "upgrade Lakesweep" in caught.value.hint
    assert writer.references.fetch("main").pointer == ids[-1]


def test_a_pointer_to_something_else_than_commits_is_left_alone(writer: Writer) -> None:
    writer.objects.write(1000, Paper("pinned"))
    writer.references.create("pin", 1000)
    with pytest.raises(WrongTypeError, match="not a commit"):
        recover(writer.references, writer.objects, "pin")


def test_a_reference_that_moved_since_is_left_alone(writer: Writer) -> None:
    ids = _commit(writer, 3)
    writer.backend.delete(REALM, [RowKey(ids[-1])])
    diagnosis = diagnose(writer.references, writer.objects, "main")
    writer.references.swap(diagnosis.reference, ids[0])
    with pytest.raises(ContendedError, match="moved"):
        reset_reference(writer.references, diagnosis)
    assert writer.references.fetch("main").pointer == ids[0]


def test_a_second_recovery_follows_the_log_and_not_what_was_given_up(writer: Writer) -> None:
    ids = _commit(writer, 4)
    for damaged in (ids[-1], ids[-2]):
        row = writer.backend.fetch(REALM, [RowKey(damaged)])[RowKey(damaged)]
        _overwrite(writer, damaged, b"")
        diagnosis = diagnose(writer.references, writer.objects, "main")
        assert [lost.id for lost in diagnosis.lost] == [damaged]
        reset_reference(writer.references, diagnosis)
        writer.backend.write(REALM, [row])  # what was given up may be readable again
    assert writer.references.fetch("main").pointer == ids[1]


def test_commits_after_a_recovery_are_gone_back_from_one_by_one(writer: Writer) -> None:
    ids = _commit(writer, 3)
    writer.backend.delete(REALM, [RowKey(ids[-1])])
    recover(writer.references, writer.objects, "main")
    [newer] = _commit(writer, 1)
    writer.backend.delete(REALM, [RowKey(newer), RowKey(ids[1])])
    diagnosis = diagnose(writer.references, writer.objects, "main")
    assert [lost.id for lost in diagnosis.lost] == [newer, ids[1]]


def _overwrite(writer: Writer, number: int, value: bytes) -> None:
    row = writer.backend.fetch(REALM, [RowKey(number)])[RowKey(number)]
    writer.backend.write(REALM, [row._replace(value=value)])
