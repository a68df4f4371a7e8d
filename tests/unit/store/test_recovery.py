from __future__ import annotations

import pytest

from lakesweep.errors import HeadMissingError
from lakesweep.store.backend import RowKey
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.recovery import recover
from tests.stores import REALM, Note, Writer, add, open_writer


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
    damaged = writer.backend.fetch(REALM, [RowKey(ids[-2])])[RowKey(ids[-2])]
    writer.backend.write(REALM, [damaged._replace(value=b"")])
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
