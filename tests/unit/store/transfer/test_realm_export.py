from __future__ import annotations

import hashlib
from collections import Counter
from datetime import timedelta

import msgspec
import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import RealmMissingError, RefusedError, UsageError
from lakesweep.store import Store
from lakesweep.store.backends.rows import RowKey
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.transfer import ExportKind, content_hash, export_realm
from tests.libraries import Shelf, commit, export_bytes, fill, open_store
from tests.moments import NOON


@pytest.fixture(scope="module")
def store() -> Store:
    store = open_store()
    fill(store)
    return store


def _kinds(data: bytes) -> Counter[str]:
    return Counter(msgspec.json.decode(line)["line"] for line in data.splitlines())


def test_a_live_export_has_each_reference_and_each_object(store: Store) -> None:
    rows = list(store.backend.scan_rows("acme"))
    kinds = _kinds(export_bytes(store))
    assert kinds == {
        "export": 1,
        "reference": 9,
        "object": len({row.id for row in rows}),
        "piece": 2,
        "end": 1,
    }


def test_an_export_of_rows_has_each_row(store: Store) -> None:
    rows = list(store.backend.scan_rows("acme"))
    kinds = _kinds(export_bytes(store, kind=ExportKind.ROWS))
    assert kinds == {"export": 1, "reference": 9, "row": len(rows), "end": 1}


def test_rows_are_exported_byte_for_byte_also_damaged_and_lost_ones() -> None:
    store = open_store()
    realm = store.create_realm("acme")
    lost = commit(realm, "root", lambda _: Shelf())
    [row] = realm.backend.fetch("acme", [RowKey(lost)]).values()
    odd = [row._replace(id=1, part=7, value=b"\x00\xffodd"), row._replace(id=2, value=b"")]
    realm.backend.write("acme", odd)
    lines = map(msgspec.json.decode, export_bytes(store, kind=ExportKind.ROWS).splitlines())
    values = {(line["id"], line["part"]): line["value"] for line in lines if line["line"] == "row"}
    assert values["1", 7] == "AP9vZGQ="
    assert values["2", 0] == ""


def test_the_hash_is_what_the_document_says(store: Store) -> None:
    """The sum of the SHA-256 of all lines but the first and the last, without their checksums."""
    *lines, end = export_bytes(store).splitlines()
    digests = (hashlib.sha256(line[: line.rindex(b',"crc32"')] + b"}") for line in lines[1:])
    total = sum(int(digest.hexdigest(), 16) for digest in digests)
    assert msgspec.json.decode(end)["hash"] == f"{total % 2**256:064x}"


def test_the_hash_of_an_export_is_that_of_the_content(store: Store) -> None:
    end = msgspec.json.decode(export_bytes(store).splitlines()[-1])
    assert end["hash"] == content_hash(store.realm("acme"))


def test_as_much_of_each_log_has_the_same_hash(store: Store) -> None:
    end = msgspec.json.decode(export_bytes(store, history=2).splitlines()[-1])
    assert end["hash"] == content_hash(store.realm("acme"), history=2)
    assert end["hash"] != content_hash(store.realm("acme"))


def test_the_same_state_at_the_same_moment_is_the_same_export(store: Store) -> None:
    assert export_bytes(store) == export_bytes(store)


def test_another_moment_is_another_export(store: Store) -> None:
    headers = [
        export_realm(store, "acme", len, clock=ManualClock(NOON + timedelta(seconds=n))).header
        for n in (0, 1)
    ]
    assert headers[0].export != headers[1].export


def test_any_change_shows_in_the_hash() -> None:
    store = open_store()
    realm = store.create_realm("acme")
    hashes = [content_hash(realm)]
    for _ in range(3):
        commit(realm, "root", lambda _: Shelf())
        hashes.append(content_hash(realm))
    realm.references.create("other")
    hashes.append(content_hash(realm))
    assert len(set(hashes)) == 5


def test_an_inactive_realm_is_exported() -> None:
    store = open_store()
    fill(store)
    before = export_bytes(store)
    store.realms.move(store.realms.get("acme"), RealmStatus.INACTIVE)
    assert export_bytes(store) == before


@pytest.mark.parametrize("status", [RealmStatus.PURGING, RealmStatus.LOADING])
def test_a_realm_that_is_not_complete_is_refused(status: RealmStatus) -> None:
    store = open_store()
    store.realms.move(store.realms.create("acme"), status)
    with pytest.raises(RefusedError, match=f"realm acme is {status}"):
        export_bytes(store)


def test_there_must_be_a_realm(store: Store) -> None:
    with pytest.raises(RealmMissingError):
        export_bytes(store, "nobody")


def test_the_system_realm_is_not_exported(store: Store) -> None:
    with pytest.raises(UsageError, match="reserved for the system"):
        export_bytes(store, "::system::")


def test_writers_do_not_disturb_an_export_under_way() -> None:
    store = open_store()
    realm = fill(store)
    before = content_hash(realm)
    lines: list[bytes] = []

    def write(line: bytes) -> None:
        if len(lines) % 100 == 50:
            commit(realm, "main", lambda attempt: attempt.head or Shelf())
            commit(realm, "root", lambda _: Shelf())
        lines.append(line)

    assert export_realm(store, "acme", write).end.hash == before
    assert content_hash(realm) != before
