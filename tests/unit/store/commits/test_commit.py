from __future__ import annotations

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import WrongTypeError
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.commits.commit import fetch_commits
from lakesweep.store.objects.object_types import ObjectTypes, UnknownObject
from lakesweep.store.objects.objects import Objects
from tests.moments import NOON
from tests.stores import REALM, CountingIds, Note, Paper, Writer, add, open_writer


@pytest.fixture
def writer() -> Writer:
    writer = open_writer(MemoryBackend())
    writer.references.create("main")
    return writer


def _stranger(writer: Writer) -> Objects:
    """The same realm, in a program that knows none of the types in it."""
    return Objects(writer.backend, REALM, ObjectTypes({}), ManualClock(NOON), CountingIds())


def test_a_commit_of_a_known_type_comes_whole(writer: Writer) -> None:
    head = writer.commits.commit("main", Note, add("deed")).head
    assert head is not None
    assert fetch_commits(writer.objects, [head.id]) == [head]


def test_a_commit_of_an_unknown_type_can_be_read(writer: Writer) -> None:
    head = writer.commits.commit("main", Note, add("deed"), message="why", author="who").head
    assert head is not None
    [found] = fetch_commits(_stranger(writer), [head.id])
    assert found is not None
    assert (found.value.seq, found.value.message, found.value.author) == (1, "why", "who")
    assert found.value.changes == head.value.changes


def test_a_missing_commit_is_none(writer: Writer) -> None:
    assert fetch_commits(writer.objects, [99]) == [None]


def test_an_object_of_a_known_type_that_is_no_commit_is_refused(writer: Writer) -> None:
    writer.objects.write(7, Paper("text"))
    with pytest.raises(WrongTypeError, match="object 7 is not a commit"):
        fetch_commits(writer.objects, [7])


@pytest.mark.parametrize("payload", [b"", b"\x90", b"\x80", b"\x81\xa3seq\xa1x", b"\xff\xfe"])
def test_an_object_of_an_unknown_type_that_is_no_commit_is_refused(
    writer: Writer, payload: bytes
) -> None:
    writer.objects.write(7, UnknownObject("other", payload))
    with pytest.raises(WrongTypeError, match="object 7 is not a commit"):
        fetch_commits(writer.objects, [7])
