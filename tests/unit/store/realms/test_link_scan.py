from __future__ import annotations

import msgspec
import pytest

from lakesweep.errors import DamagedRowError, FormatError
from lakesweep.store.index import BYTES, LINKS, Codec, Index, IndexUpdate, NodeCache, Packed
from lakesweep.store.index.object_nodes import IndexNode, seal
from lakesweep.store.objects.links import IndexRoot, Link, ValueKind, pack
from lakesweep.store.realms.link_scan import (
    WHOLE,
    CommitLineage,
    LinkRole,
    commit_lineage,
    scan_links,
)

_ENCODER = msgspec.msgpack.Encoder(enc_hook=pack)


class Nodebook:
    """Nodes of indexes, by id."""

    def __init__(self) -> None:
        self.nodes: dict[int, bytes] = {}

    def write(self, data: bytes) -> int:
        number = 1_000 + len(self.nodes)
        self.nodes[number] = data
        return number

    def index(self, entries: dict[bytes, object], codec: Codec[object]) -> IndexRoot:
        nodes = NodeCache(lambda ids: [self.nodes[number] for number in ids])
        update = IndexUpdate(Index.empty(codec, nodes), self.write)
        for key, value in entries.items():
            update.put(key, value)
        return seal(update)

    def payload(self, number: int) -> bytes:
        return msgspec.msgpack.encode(IndexNode(self.nodes[number]))


def _follow(book: Nodebook, payload: bytes) -> tuple[set[int], set[LinkRole]]:
    """All whole objects that an object leads to through its indexes, and the roles on the way."""
    whole, roles, waiting = set[int](), set[LinkRole](), [(WHOLE, payload)]
    while waiting:
        role, data = waiting.pop()
        for found, ids in scan_links(data, role).items():
            if found == WHOLE:
                whole.update(ids)
            else:
                roles.add(found)
                waiting += [(found, book.payload(number)) for number in ids]
    return whole, roles


def test_links_lead_to_whole_objects() -> None:
    payload = _ENCODER.encode({"a": [Link(3), Link(1)], "b": Link(3), "c": 7})
    assert scan_links(payload, WHOLE) == {WHOLE: [3, 1, 3]}


def test_an_object_without_links_leads_nowhere() -> None:
    assert scan_links(_ENCODER.encode({"a": 1, "b": IndexRoot()}), WHOLE) == {}


@pytest.mark.parametrize("count", [3, 60, 3_000])
def test_an_index_leads_to_all_its_links_however_deep(count: int) -> None:
    book = Nodebook()
    long = "x" * 1_000 if count == 3_000 else ""
    entries: dict[bytes, object] = {f"{n:05}{long}".encode(): Link(n) for n in range(count)}
    root = book.index(entries, LINKS)  # type: ignore[arg-type]
    whole, roles = _follow(book, _ENCODER.encode({"index": root}))
    assert whole == set(range(count))
    assert len(roles) == {3: 0, 60: 0, 3_000: 3}[count]


def test_packed_values_lead_on_and_so_do_indexes_inside_of_them() -> None:
    book = Nodebook()
    inner = book.index({b"k": Link(5)}, LINKS)  # type: ignore[arg-type]
    root = book.index({b"k": {"link": Link(4), "index": inner}}, Packed(object))
    assert scan_links(_ENCODER.encode([root]), WHOLE) == {WHOLE: [4, 5]}


def test_bytes_in_an_index_are_no_links() -> None:
    book = Nodebook()
    entries: dict[bytes, object] = {f"{n:04}".encode(): bytes(1_000) for n in range(200)}
    root = book.index(entries, BYTES)  # type: ignore[arg-type]
    whole, roles = _follow(book, _ENCODER.encode([root]))
    assert not whole
    assert roles == {LinkRole(0, ValueKind.OPAQUE)}


def test_removed_keys_lead_nowhere() -> None:
    book = Nodebook()
    nodes = NodeCache(lambda ids: [book.nodes[number] for number in ids])
    update = IndexUpdate(Index.empty(LINKS, nodes), book.write)
    for number in range(100):
        update.put(b"%03d" % number + b"x" * 1_000, Link(number))
    update = IndexUpdate(update.finish(), book.write)
    update.remove(b"%03d" % 5 + b"x" * 1_000)
    payload = _ENCODER.encode([seal(update)])
    assert WHOLE not in scan_links(payload, WHOLE)


def test_the_tail_of_a_commit_are_the_ids_before_it() -> None:
    commit = {"seq": 3, "tail": [2, 1], "committed_at": 7, "index": IndexRoot()}
    assert commit_lineage(_ENCODER.encode(commit)) == CommitLineage((2, 1), 7)


@pytest.mark.parametrize("value", [{}, {"seq": 1}, [1, 2], "text", None])
def test_what_is_no_commit_has_no_tail(value: object) -> None:
    assert commit_lineage(_ENCODER.encode(value)) == CommitLineage()


@pytest.mark.parametrize("tail", ["ab", [1.5], ["1"], 7])
def test_a_tail_of_anything_but_ids_is_damage(tail: object) -> None:
    with pytest.raises(DamagedRowError, match="not ids"):
        commit_lineage(_ENCODER.encode({"tail": tail}))


@pytest.mark.parametrize(
    ("payload", "role"),
    [
        (b"\xc1", WHOLE),
        (_ENCODER.encode([IndexRoot.of(b"nothing", ValueKind.LINKS)]), WHOLE),
        (_ENCODER.encode("not an index node"), LinkRole(0, ValueKind.LINKS)),
        (_ENCODER.encode([b"no run"]), LinkRole(1, ValueKind.LINKS)),
    ],
)
def test_bytes_that_cannot_be_followed_are_damage(payload: bytes, role: LinkRole) -> None:
    with pytest.raises((DamagedRowError, FormatError)):
        scan_links(payload, role)


def test_a_link_that_is_no_id_is_damage() -> None:
    book = Nodebook()
    root = book.index({b"k": b"\xff" * 8}, BYTES)  # type: ignore[arg-type]
    payload = _ENCODER.encode([IndexRoot.of(root.data, ValueKind.LINKS)])
    with pytest.raises(DamagedRowError, match="not an id"):
        scan_links(payload, WHOLE)
