"""The contract suite: checks that every backend must pass, including your own.

Each check takes an empty backend whose schema has been created, and raises AssertionError if the
backend breaks the contract of `Backend`:

    for check in CHECKS:
        check(open_an_empty_backend())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise, product

from lakesweep.store.backends.backend import SCAN_ROWS, Backend
from lakesweep.store.backends.rows import (
    EVERY_ID,
    MAX_NAME_BYTES,
    MAX_REALM_BYTES,
    MAX_VALUE_BYTES,
    IdSpan,
    ObjectRow,
    Reference,
    ReferenceGuard,
    RowKey,
)

REALM = "acme"
#: Names that databases tend to confuse.
LOOK_ALIKES = (
    *(" ", "  ", "a", "a ", " a", "a  ", "A", "\u00e4", "a\u0308", "\u00c4", "ae", "a\u0000"),
    *("\u00df", "ss", "SS", "i", "I", "\u0130", "\u0131", "1", "01", "1.0", "1e0", "+1", "\uff11"),
    *(
        "a%",
        "a_",
        "a\\",
        "'",
        '"',
        "a\n",
        "a\t",
        "\u200b",
        "\ufeff",
        "\U0001f600",
        "null",
        "\u3042",
    ),
)
LARGEST_ID = EVERY_ID.last
_WRITERS = 8
_ROUNDS = 25


def creates_a_reference_once(backend: Backend) -> None:
    """The second insert of a name changes nothing, even with the same row."""
    first = _reference("main", pointer=7)
    assert backend.insert_reference(REALM, first)
    assert not backend.insert_reference(REALM, first)
    assert not backend.insert_reference(REALM, _reference("main", pointer=8))
    assert backend.fetch_references(REALM, ["main"]) == {"main": first}


def creates_many_references_and_keeps_those_there(backend: Backend) -> None:
    """Repeating it is harmless, and so is an empty call."""
    there = _reference("b", pointer=5, recent=(4, 3))
    backend.insert_reference(REALM, there)
    wanted = [_reference(name) for name in "abc"]
    for _ in range(2):
        backend.insert_references(REALM, wanted)
    backend.insert_references(REALM, [])
    found = backend.fetch_references(REALM, ["a", "b", "c", "d"])
    assert found == {"a": wanted[0], "b": there, "c": wanted[2]}
    assert backend.fetch_references(REALM, []) == {}


def creates_what_is_missing_among_those_there(backend: Backend) -> None:
    """However many exist already, they stay unchanged."""
    for there, total in product((0, 1, 2), (1, 2, 3, 5, 10)):
        realm = f"{there} of {total}"
        old = [_reference(str(number), pointer=7) for number in range(min(there, total))]
        new = [_reference(str(number)) for number in range(total)]
        backend.insert_references(realm, old)
        backend.insert_references(realm, new)
        assert sorted(backend.scan_references(realm), key=_name) == [*old, *new[len(old) :]]


def fetches_many_references_at_once(backend: Backend) -> None:
    """More than one request can name, and some that do not exist."""
    references = [_reference(f"name {number}", pointer=number) for number in range(_many(backend))]
    backend.insert_references(REALM, references[::2])
    found = backend.fetch_references(REALM, [reference.name for reference in references])
    assert found == {reference.name: reference for reference in references[::2]}


def keeps_references_as_they_are(backend: Backend) -> None:
    """Pointers may be absent or as large as an id can be, and twenty recent ones fit."""
    references = [
        _reference("empty"),
        _reference("zero", pointer=0),
        Reference("full", LARGEST_ID, 2**40, 2**52, tuple(range(LARGEST_ID - 20, LARGEST_ID))),
    ]
    backend.insert_references(REALM, references)
    assert sorted(backend.scan_references(REALM), key=_name) == sorted(references, key=_name)


def swaps_a_reference_only_from_what_is_there(backend: Backend) -> None:
    """A different pointer, version or creation time, or a missing row, fails."""
    old = _reference("main", pointer=7)
    new = Reference("main", 8, old.version + 1, old.created_at, (7,))
    assert not backend.update_reference(REALM, new, old)
    backend.insert_reference(REALM, old)
    for wrong in _wrong(old):
        assert not backend.update_reference(REALM, new, wrong)
    assert not backend.update_reference("other", new, old)
    assert backend.fetch_references(REALM, ["main"]) == {"main": old}
    assert backend.update_reference(REALM, new, old)
    assert not backend.update_reference(REALM, new, old)
    assert backend.fetch_references(REALM, ["main"]) == {"main": new}


def commits_rows_together_with_the_swap(backend: Backend) -> None:
    """Few rows and many, small and large; existing rows are replaced."""
    reference = _reference("main")
    backend.insert_reference(REALM, reference)
    backend.write(REALM, [_row(1, value=b"old")])
    large = bytes(MAX_VALUE_BYTES)
    for rows in (
        [_row(1), _row(2, part=3, token=7)],
        [],
        [_row(number) for number in range(10, 10 + _many(backend))],
        [_row(number, value=large) for number in range(3_000, 3_004)],
    ):
        new = replace(reference, pointer=reference.version, version=reference.version + 1)
        assert backend.commit(REALM, rows, new, reference)
        assert backend.fetch_references(REALM, ["main"]) == {"main": new}
        found = backend.fetch(REALM, [row.key for row in rows])
        assert all(found[row.key] == row for row in rows)
        reference = new


def commits_nothing_if_the_reference_moved(backend: Backend) -> None:
    """An atomic commit that fails leaves no row behind, small or large."""
    there = _reference("main", pointer=7)
    backend.insert_reference(REALM, there)
    backend.write(REALM, [_row(1)])
    new = replace(there, pointer=8, version=1)
    replaced, large = _row(1, value=b"new"), _row(2, value=bytes(MAX_VALUE_BYTES))
    for wrong, extra in product(_wrong(there), ([], [large])):
        assert not backend.commit(REALM, [replaced, *extra], new, wrong)
    assert not backend.commit("other", [replaced], new, there)
    assert backend.fetch_references(REALM, ["main"]) == {"main": there}
    if backend.capabilities.atomic_commits:
        assert _keys(backend, REALM) == [(1, 0)]
        assert _values(backend, REALM, 1) == [b"value"]
        assert list(backend.realms()) == [REALM]


def lets_one_of_many_commits_win(backend: Backend) -> None:
    """Each commit that won has all of its rows; as in use, no two commits share an id."""
    backend.insert_reference(REALM, _reference("main", pointer=0))
    with ThreadPoolExecutor(_WRITERS) as pool:
        wins = list(pool.map(lambda writer: _commit_often(backend, writer), range(_WRITERS)))
    won = [number for numbers in wins for number in numbers]
    reference = backend.fetch_references(REALM, ["main"])["main"]
    assert reference.version == len(won)
    assert reference.pointer in won
    keys = [RowKey(number, part) for number in won for part in (0, 1)]
    assert {row.value for row in backend.fetch(REALM, keys).values()} == {b"won"}
    assert len(backend.fetch(REALM, keys)) == len(keys)


def swaps_a_row_for_one_like_it(backend: Backend) -> None:
    """A match counts, even if the new row equals the old one."""
    reference = _reference("main", pointer=7)
    backend.insert_reference(REALM, reference)
    assert backend.update_reference(REALM, reference, reference)
    row = _row(1, token=5)
    backend.insert_row(REALM, row)
    assert backend.update_row(REALM, row, 5)


def swaps_a_reference_from_no_pointer(backend: Backend) -> None:
    """No pointer is a state like any other."""
    old = _reference("main")
    backend.insert_reference(REALM, old)
    new = replace(old, pointer=1, version=1)
    assert not backend.update_reference(REALM, new, replace(old, pointer=0))
    assert backend.update_reference(REALM, new, old)


def deletes_a_reference_only_as_expected(backend: Backend) -> None:
    """A reference that moved is kept."""
    old = _reference("main", pointer=7)
    backend.insert_references(REALM, [old, _reference("other")])
    for wrong in _wrong(old):
        assert not backend.delete_reference(REALM, wrong)
    assert backend.delete_reference(REALM, old)
    assert not backend.delete_reference(REALM, old)
    assert list(backend.fetch_references(REALM, ["main", "other"])) == ["other"]


def tells_all_names_apart(backend: Backend) -> None:
    """Names differ if their bytes do, whatever the collation."""
    names = [*LOOK_ALIKES, "n" * MAX_NAME_BYTES]
    references = [_reference(name, pointer=number) for number, name in enumerate(names)]
    for reference in references:
        assert backend.insert_reference(REALM, reference), repr(reference.name)
    found = backend.fetch_references(REALM, names)
    assert found == {reference.name: reference for reference in references}
    for reference in references:
        moved = replace(reference, pointer=1000, version=1)
        assert backend.update_reference(REALM, moved, reference)
        assert backend.delete_reference(REALM, moved)
    assert list(backend.scan_references(REALM)) == []


def tells_all_realms_apart(backend: Backend) -> None:
    """Realms differ if their bytes do, even if one is a prefix of another."""
    realms = [*LOOK_ALIKES, "r" * MAX_REALM_BYTES]
    for number, realm in enumerate(realms):
        assert backend.insert_reference(realm, _reference("main", pointer=number))
        assert backend.insert_row(realm, _row(1, value=realm.encode()))
    assert list(backend.realms()) == sorted(realms, key=str.encode)
    for number, realm in enumerate(realms):
        assert backend.fetch_references(realm, ["main"])["main"].pointer == number
        assert _values(backend, realm, 1) == [realm.encode()]


def writes_and_replaces_rows(backend: Backend) -> None:
    """Missing rows are left out of the result."""
    rows = [_row(1), _row(2, value=b""), _row(2, part=1), _row(LARGEST_ID, part=2**31 - 1)]
    backend.write(REALM, rows)
    backend.write(REALM, [])
    keys = [row.key for row in rows]
    assert backend.fetch(REALM, [*keys, RowKey(3), RowKey(1, 1)]) == dict(
        zip(keys, rows, strict=True)
    )
    assert backend.fetch(REALM, []) == {}
    assert backend.fetch("other", keys) == {}
    firsts = backend.fetch_first_rows(REALM, [2, 3, 1, LARGEST_ID])
    assert sorted(tuple(row) for row in firsts) == [tuple(row) for row in rows[:2]]
    assert not backend.fetch_first_rows(REALM, [])
    newer = ObjectRow(1, 0, "another", 5, None, b"newer")
    backend.write(REALM, [newer])
    assert backend.fetch(REALM, [RowKey(1)]) == {RowKey(1): newer}


def keeps_every_byte_of_a_value(backend: Backend) -> None:
    """Up to the limit of a row, zeros and all."""
    largest = (bytes(range(256)) * (MAX_VALUE_BYTES // 256 + 1))[:MAX_VALUE_BYTES]
    backend.write(REALM, [_row(1, value=largest), _row(2, value=bytes(1_000))])
    assert _values(backend, REALM, 1, 2) == [largest, bytes(1_000)]


def takes_more_bytes_than_a_request_can_carry(backend: Backend) -> None:
    """Many rows of the maximum size, with bytes that are hard to write as text."""
    hard = (b"'\\\x00\"\n%\xff" * MAX_VALUE_BYTES)[:MAX_VALUE_BYTES]
    rows = [_row(number, value=bytes([number]) + hard[1:]) for number in range(60)]
    backend.write(REALM, [*rows, _row(100)])
    found = backend.fetch(REALM, [row.key for row in rows])
    assert all(found[row.key] == row for row in rows)
    assert len(found) == len(rows)
    assert backend.insert_row(REALM, _row(101, value=hard, token=1))
    assert backend.update_row(REALM, _row(101, value=hard[::-1], token=2), 1)
    assert _values(backend, REALM, 100, 101) == [b"value", hard[::-1]]


def takes_more_rows_than_a_statement_can_name(backend: Backend) -> None:
    """Batches are cut inside, not by the caller."""
    rows = [_row(number, part=number % 3) for number in range(_many(backend))]
    backend.write(REALM, rows)
    keys = [row.key for row in rows]
    assert backend.fetch(REALM, keys) == dict(zip(keys, rows, strict=True))
    backend.delete(REALM, keys[1:])
    assert list(backend.fetch(REALM, keys)) == keys[:1]


def deletes_rows_also_those_not_there(backend: Backend) -> None:
    """Only the named part of the named object is deleted."""
    backend.write(REALM, [_row(1), _row(1, part=1), _row(2)])
    backend.write("other", [_row(1)])
    backend.delete(REALM, [RowKey(1), RowKey(9)])
    backend.delete(REALM, [])
    assert _keys(backend, REALM) == [(1, 1), (2, 0)]
    assert _keys(backend, "other") == [(1, 0)]


def names_a_row_by_all_of_its_key(backend: Backend) -> None:
    """Realm, id and part: a conditional write reaches no other row."""
    for realm, number, part in product((REALM, "other"), (1, 2), (0, 1)):
        assert backend.insert_row(realm, _row(number, part=part, token=5))
    assert backend.update_row(REALM, _row(1, part=1, token=6), 5)
    assert backend.delete_row(REALM, RowKey(2, 1), 5)
    tokens = [(head.id, head.part, head.token) for head in backend.scan_rows(REALM)]
    assert tokens == [(1, 0, 5), (1, 1, 6), (2, 0, 5)]
    assert [head.token for head in backend.scan_rows("other")] == [5] * 4


def inserts_a_row_once(backend: Backend) -> None:
    """Whichever call wrote the existing row."""
    first = _row(1, token=5)
    assert backend.insert_row(REALM, first)
    assert not backend.insert_row(REALM, first)
    backend.write(REALM, [_row(2)])
    assert not backend.insert_row(REALM, _row(2, token=6))
    assert backend.fetch(REALM, [RowKey(1), RowKey(2)]) == {RowKey(1): first, RowKey(2): _row(2)}


def updates_a_row_only_by_its_token(backend: Backend) -> None:
    """A missing row, another token or no token at all fails."""
    new = _row(1, token=6, value=b"new")
    assert not backend.update_row(REALM, new, 5)
    backend.insert_row(REALM, _row(1, token=5))
    assert not backend.update_row(REALM, new, 4)
    assert backend.update_row(REALM, new, 5)
    assert not backend.update_row(REALM, new, 5)
    assert backend.fetch(REALM, [RowKey(1)]) == {RowKey(1): new}
    backend.write(REALM, [_row(2)])
    assert not backend.update_row(REALM, _row(2, token=1), 0)


def deletes_a_row_only_by_its_token(backend: Backend) -> None:
    """A missing row, another token or no token at all fails."""
    backend.insert_row(REALM, _row(1, token=5))
    backend.write(REALM, [_row(2)])
    assert not backend.delete_row(REALM, RowKey(1), 4)
    assert not backend.delete_row(REALM, RowKey(2), 0)
    assert not backend.delete_row(REALM, RowKey(3), 5)
    assert backend.delete_row(REALM, RowKey(1), 5)
    assert not backend.delete_row(REALM, RowKey(1), 5)
    assert _keys(backend, REALM) == [(2, 0)]


def deletes_rows_only_as_scanned(backend: Backend) -> None:
    """A row that was written again, by whatever call, is a different one."""
    rows = [_row(1), _row(1, part=1), _row(2, token=5), _row(3, token=6), _row(4), _row(5)]
    backend.write(REALM, rows)
    backend.write("other", rows)
    scanned = list(backend.scan_rows(REALM))
    backend.write(REALM, [_row(4)._replace(created_at=rows[0].created_at + 1)])
    assert backend.update_row(REALM, _row(3, token=7), 6)
    wrong = [scanned[2]._replace(token=None), scanned[5]._replace(token=0)]
    assert backend.delete_expected(REALM, wrong) == 0
    assert backend.delete_expected(REALM, scanned[:-1]) == 3
    assert backend.delete_expected(REALM, scanned[:-1]) == 0
    assert backend.delete_expected(REALM, []) == 0
    assert _keys(backend, REALM) == [(3, 0), (4, 0), (5, 0)]
    assert len(_keys(backend, "other")) == len(rows)
    ids = IdSpan(10, 9 + _many(backend))
    numbers = range(ids.first, ids.last + 1)
    many = [_row(number, part=number % 2, token=number % 3 or None) for number in numbers]
    backend.write(REALM, many)
    heads = list(backend.scan_rows(REALM, ids))
    assert backend.delete_expected(REALM, heads[1:]) == len(many) - 1
    assert _keys(backend, REALM) == [(3, 0), (4, 0), (5, 0), (10, 0)]


def scans_each_row_of_a_realm_once(backend: Backend) -> None:
    """In order, also over several pages, and without rows of other realms."""
    rows = [_row(number // 2, part=number % 2, token=number) for number in range(_pages(backend))]
    backend.write(REALM, rows)
    backend.write("acme2", [_row(1)])
    assert [tuple(head) for head in backend.scan_rows(REALM)] == [tuple(row)[:5] for row in rows]
    assert _paged(backend, REALM, EVERY_ID) == [tuple(row)[:5] for row in rows]
    assert _paged(backend, REALM, IdSpan(10, 12)) == [tuple(row)[:5] for row in rows[20:26]]
    assert _paged(backend, "empty", EVERY_ID) == []
    for size in (1, 2, 3, 1_000):
        inside = IdSpan(10, 500)
        assert _paged(backend, REALM, inside, size) == [tuple(row)[:5] for row in rows[20:1_002]]
    large = [_row(5_000, part=part, token=part % 3 or None) for part in range(300)]
    backend.write(REALM, large)
    found = _paged(backend, REALM, IdSpan(1_140, 5_000), 7)
    assert found == [tuple(row)[:5] for row in (*rows[2_280:], *large)]
    assert _paged(backend, REALM, IdSpan(5_001)) == []
    backend.delete(REALM, [row.key for row in large])
    some = backend.scan_rows(REALM, IdSpan(10, 12))
    assert [(head.id, head.part) for head in some] == [
        (number, part) for number in (10, 11, 12) for part in (0, 1)
    ]
    assert list(backend.scan_rows("empty")) == []


def scans_each_reference_of_a_realm_once(backend: Backend) -> None:
    """Also over several pages."""
    numbers = range(_pages(backend))
    references = [_reference(f"{number:05}", pointer=number) for number in numbers]
    backend.insert_references(REALM, references)
    backend.insert_references("acme2", references[:1])
    assert sorted(backend.scan_references(REALM), key=_name) == references


def splits_scans_without_gap_or_overlap(backend: Backend) -> None:
    """Whatever the ids, the spans of a split cover every possible id."""
    assert _is_cover(backend.split_rows(REALM, 4))
    ids = [5, 6, 2**40, 2**40 + 1, LARGEST_ID - 1]
    backend.write(REALM, [_row(number) for number in ids])
    for count in (1, 2, 3, 7):
        spans = backend.split_rows(REALM, count)
        assert len(spans) <= count
        assert _is_cover(spans)
        found = [head.id for span in spans for head in backend.scan_rows(REALM, span)]
        assert found == ids


def lets_rows_go_while_they_are_scanned(backend: Backend) -> None:
    """The caller of a scan may delete what it returns."""
    numbers = range(_pages(backend))
    backend.write(REALM, [_row(number) for number in numbers])
    for head in backend.scan_rows(REALM):
        if head.id % 4 == 0:
            backend.delete(REALM, [RowKey(head.id, head.part)])
    assert _keys(backend, REALM) == [(number, 0) for number in numbers if number % 4]


def scans_what_stays_while_others_come_and_go(backend: Backend) -> None:
    """Rows are deleted and written on both sides of the scan; unchanged rows come once."""
    backend.write(REALM, [_row(number) for number in range(0, 5_000, 2)])
    seen = []
    for head in backend.scan_rows(REALM):
        seen.append(head.id)
        if head.id % 500 == 0:
            backend.delete(REALM, [RowKey(head.id), RowKey(head.id + 4), RowKey(head.id - 6)])
            backend.write(REALM, [_row(head.id + 1), _row(abs(head.id - 3)), _row(head.id + 301)])
    assert seen == sorted(set(seen))
    gone = {number + away for number in range(0, 5_000, 500) for away in (0, 4, -6)}
    assert set(range(0, 5_000, 2)) - gone <= set(seen)


def deletes_one_realm_of_many(backend: Backend) -> None:
    """All rows of it, and none of the others."""
    if not backend.capabilities.deletes_realms:
        return
    realms = ["acme", "acme ", "acme2", "\u00e4", "a\u0308"]
    references = [_reference(f"{number}", pointer=number) for number in range(20)]
    rows = [_row(number, part=part, token=number) for number in range(20) for part in (0, 1)]
    for realm in realms:
        backend.insert_references(realm, references)
        backend.write(realm, rows)
    while realms:
        backend.delete_realm(realms.pop())
        assert list(backend.realms()) == sorted(realms, key=str.encode)
        for realm in realms:
            assert len(list(backend.scan_references(realm))) == len(references)
            assert [tuple(head) for head in backend.scan_rows(realm)] == [row[:5] for row in rows]


def deletes_a_realm_and_no_other(backend: Backend) -> None:
    """`acme` is not treated as a prefix of `acme2`, and a second delete is harmless."""
    if not backend.capabilities.deletes_realms:
        return
    for realm in ("acme", "acme2", "acm", "Acme"):
        backend.insert_references(realm, [_reference("main")])
        backend.write(realm, [_row(1), _row(1, part=1)])
    for _ in range(2):
        backend.delete_realm("acme")
        assert list(backend.realms()) == ["Acme", "acm", "acme2"]
    assert _keys(backend, "acme2") == [(1, 0), (1, 1)]


def deletes_a_realm_only_while_its_guard_is_unmoved(backend: Backend) -> None:
    """A different pointer, version or creation time, or a missing guard, fails."""
    if not backend.capabilities.deletes_realms:
        return
    guard = _reference("guard", pointer=7)
    backend.insert_references("acme", [_reference("main")])
    backend.write("acme", [_row(1), _row(1, part=1)])
    assert not backend.delete_realm("acme", ReferenceGuard("other", guard))
    backend.insert_references("other", [guard])
    for wrong in _wrong(guard):
        assert not backend.delete_realm("acme", ReferenceGuard("other", wrong))
    assert _keys(backend, "acme") == [(1, 0), (1, 1)]
    assert backend.delete_realm("acme", ReferenceGuard("other", guard))
    assert list(backend.realms()) == ["other"]


def lets_one_of_many_writers_win(backend: Backend) -> None:
    """Of competing swaps, inserts or updates of one row, one wins."""
    backend.insert_reference(REALM, _reference("main", pointer=0))
    backend.insert_row(REALM, _row(1, token=0))
    with ThreadPoolExecutor(_WRITERS) as pool:
        wins = list(pool.map(lambda writer: _compete(backend, writer), range(_WRITERS)))
    reference = backend.fetch_references(REALM, ["main"])["main"]
    assert reference.version == sum(swaps for swaps, _, _ in wins)
    row = backend.fetch(REALM, [RowKey(1)])[RowKey(1)]
    assert row.token == sum(updates for _, updates, _ in wins)
    assert sum(inserts for _, _, inserts in wins) == _ROUNDS


def creates_its_schema_again_without_harm(backend: Backend) -> None:
    """Existing data stays."""
    backend.insert_reference(REALM, _reference("main"))
    backend.init_schema()
    backend.check_schema()
    assert list(backend.fetch_references(REALM, ["main"])) == ["main"]


CHECKS: tuple[Callable[[Backend], None], ...] = (
    creates_a_reference_once,
    creates_many_references_and_keeps_those_there,
    creates_what_is_missing_among_those_there,
    fetches_many_references_at_once,
    keeps_references_as_they_are,
    swaps_a_reference_only_from_what_is_there,
    commits_rows_together_with_the_swap,
    commits_nothing_if_the_reference_moved,
    lets_one_of_many_commits_win,
    swaps_a_row_for_one_like_it,
    swaps_a_reference_from_no_pointer,
    deletes_a_reference_only_as_expected,
    tells_all_names_apart,
    tells_all_realms_apart,
    writes_and_replaces_rows,
    keeps_every_byte_of_a_value,
    takes_more_bytes_than_a_request_can_carry,
    takes_more_rows_than_a_statement_can_name,
    deletes_rows_also_those_not_there,
    names_a_row_by_all_of_its_key,
    inserts_a_row_once,
    updates_a_row_only_by_its_token,
    deletes_a_row_only_by_its_token,
    deletes_rows_only_as_scanned,
    scans_each_row_of_a_realm_once,
    scans_each_reference_of_a_realm_once,
    splits_scans_without_gap_or_overlap,
    lets_rows_go_while_they_are_scanned,
    scans_what_stays_while_others_come_and_go,
    deletes_one_realm_of_many,
    deletes_a_realm_and_no_other,
    deletes_a_realm_only_while_its_guard_is_unmoved,
    lets_one_of_many_writers_win,
    creates_its_schema_again_without_harm,
)


def _many(backend: Backend) -> int:
    """More rows than fit in two requests; an even number, and as small as possible."""
    return 300 + 2 * min(backend.capabilities.batch_rows, 1_000)


def _pages(backend: Backend) -> int:
    """The same, and more rows than fit on one page of a scan."""
    return max(_many(backend), 1_100)


def _compete(backend: Backend, writer: int) -> tuple[int, int, int]:
    swaps = updates = inserts = 0
    for number in range(_ROUNDS):
        old = backend.fetch_references(REALM, ["main"])["main"]
        new = replace(old, pointer=writer, version=old.version + 1)
        swaps += backend.update_reference(REALM, new, old)
        token = backend.fetch(REALM, [RowKey(1)])[RowKey(1)].token or 0
        updates += backend.update_row(REALM, _row(1, token=token + 1), token)
        inserts += backend.insert_row(REALM, _row(100 + number))
    return swaps, updates, inserts


def _commit_often(backend: Backend, writer: int) -> list[int]:
    """The ids of the commits that won."""
    won = []
    for number in range(writer * _ROUNDS + 1, (writer + 1) * _ROUNDS + 1):
        old = backend.fetch_references(REALM, ["main"])["main"]
        new = replace(old, pointer=number, version=old.version + 1)
        rows = [_row(number, part=part, value=b"won") for part in (0, 1)]
        if backend.commit(REALM, rows, new, old):
            won.append(number)
    return won


def _reference(name: str, pointer: int | None = None, recent: tuple[int, ...] = ()) -> Reference:
    return Reference(name, pointer, 0, 1_700_000_000_000_000, recent)


def _wrong(reference: Reference) -> list[Reference]:
    return [
        replace(reference, pointer=None),
        replace(reference, pointer=99),
        replace(reference, version=reference.version + 1),
        replace(reference, created_at=reference.created_at + 1),
    ]


def _row(
    number: int, part: int = 0, token: int | None = None, value: bytes = b"value"
) -> ObjectRow:
    return ObjectRow(number, part, "thing", 1_700_000_000_000_000, token, value)


def _name(reference: Reference) -> str:
    return reference.name


def _values(backend: Backend, realm: str, *ids: int) -> list[bytes]:
    found = backend.fetch(realm, [RowKey(number) for number in ids])
    return [found[RowKey(number)].value for number in ids]


def _keys(backend: Backend, realm: str) -> list[tuple[int, int]]:
    return [(head.id, head.part) for head in backend.scan_rows(realm)]


def _paged(
    backend: Backend, realm: str, span: IdSpan, rows: int = SCAN_ROWS
) -> list[tuple[object, ...]]:
    pages = list(backend.scan_pages(realm, span, rows))
    assert all(map(len, pages))
    # No object spans two pages.
    assert all(left.ids[-1] < right.ids[0] for left, right in pairwise(pages))
    for page in pages:
        heads = page.pick(range(len(page)))
        assert [head.id for head in heads] == page.ids.tolist()
        assert [head.created_at for head in heads] == page.created_at.tolist()
        assert [head.type for head in heads] == [page.types[code] for code in page.codes]
    return [tuple(head) for page in pages for head in page.pick(range(len(page)))]


def _is_cover(spans: Iterable[IdSpan]) -> bool:
    ordered = sorted(spans)
    adjacent = all(left.last + 1 == right.first for left, right in pairwise(ordered))
    return adjacent and (ordered[0].first, ordered[-1].last) == tuple(EVERY_ID)
