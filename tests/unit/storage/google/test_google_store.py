"""What is sent to Google Cloud Storage, and what its answers mean."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from collections.abc import Callable, Iterator

import pytest

from lakesweep.errors import (
    ChangedError,
    DeniedError,
    ExistsError,
    InexactKeyError,
    LakesweepError,
    MissingError,
    StorageError,
    UnavailableError,
)
from lakesweep.storage.azure.store import AzureStore
from lakesweep.storage.google.account import GoogleEndpoint
from lakesweep.storage.google.store import GoogleStore
from lakesweep.storage.object_store import Expected, ObjectStore, Outcome
from lakesweep.storage.options import StorageOptions
from tests.scripted import Script, ScriptedServer, http, scripted_server

AZURE = "container@account.dfs.core.windows.net"
ANONYMOUS = StorageOptions(anonymous=True)
TIME = "2026-01-02T03:04:05.678Z"
MISSING = http(404, b'{"error": {"code": 404, "message": "No such object: bucket/k"}}')
UNMET = http(412, b'{"error": {"errors": [{"reason": "conditionNotMet"}]}}')
COPIED = http(200, b'{"done": true}')
GONE = http(204)


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def store(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> GoogleStore:
    """A bucket on a server that passes for Google's own."""
    monkeypatch.setattr(GoogleEndpoint, "is_google", True)
    return GoogleStore("bucket", StorageOptions(endpoint=scripted.endpoint, anonymous=True))


def state(size: int = 4, generation: str = "7", **more: object) -> bytes:
    document = {"size": str(size), "generation": generation, "updated": TIME, **more}
    return http(200, json.dumps(document).encode())


def page(*names: str, token: str = "", folders: tuple[str, ...] = (), **changes: str) -> bytes:
    item = {"size": "1", "generation": "7", "updated": TIME, **changes}
    document = {"items": [{"name": name, **item} for name in names], "prefixes": folders}
    return http(200, json.dumps({**document, "nextPageToken": token}).encode())


def batch(*statuses: int) -> Script:
    """A response to a batch with a status for each part, by its number; 0 leaves it out."""

    def answer(request: bytes) -> bytes:
        numbers = re.findall(rb"Content-ID: (\d+)", request)
        parts = [
            b"--b\r\nContent-Type: application/http\r\nContent-ID: <response-%s>\r\n\r\n"
            b"HTTP/1.1 %d Status\r\nContent-Length: 0\r\n\r\n\r\n" % (number, status)
            for number, status in zip(numbers, statuses, strict=True)
            if status
        ]
        return http(
            200, b"".join(parts) + b"--b--\r\n", {"Content-Type": "multipart/mixed; boundary=b"}
        )

    return answer


def test_bulk_limits_are_those_of_the_stores() -> None:
    stores: tuple[ObjectStore, ...] = (
        GoogleStore("bucket", ANONYMOUS),
        AzureStore(AZURE, ANONYMOUS),
        AzureStore(AZURE, StorageOptions(anonymous=True, delete_batch=10)),
    )
    assert [store.capabilities.delete_batch for store in stores] == [100, 256, 10]
    assert [store.base for store in stores[:2]] == ["gs://bucket/", f"abfss://{AZURE}/"]


def test_stores_travel_without_their_clients() -> None:
    for store in (GoogleStore("bucket", ANONYMOUS), AzureStore(AZURE, ANONYMOUS)):
        other = pickle.loads(pickle.dumps(store))
        assert (other.base, other.capabilities) == (store.base, store.capabilities)


# ── keys and listings


def test_a_key_is_one_segment_of_a_path(scripted: ScriptedServer, store: GoogleStore) -> None:
    scripted.play(state())
    store.head("x/../y//%2F é")
    path = "/storage/v1/b/bucket/o/x%2F..%2Fy%2F%2F%252F%20%C3%A9"
    assert scripted.targets == [f"GET {path}?fields=size%2Cupdated%2Cgeneration"]


@pytest.mark.parametrize("key", ["", ".", "..", "a\nb", "a\rb", "\ud800"])
def test_keys_that_google_cannot_have_are_never_sent(
    key: str, scripted: ScriptedServer, store: GoogleStore
) -> None:
    with pytest.raises(InexactKeyError):
        store.head(key)
    with pytest.raises(InexactKeyError):
        store.move("a", key)
    assert store.delete([key])[0].outcome is Outcome.FAILED
    assert scripted.requests == []


def test_a_listing_starts_at_an_offset_and_asks_for_no_more_than_it_needs(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    scripted.play(page("t/b", "t/c", token="next"), page("t/d"))
    first = store.list("t/", after="t/b")
    assert first.entries["key"].to_pylist() == ["t/c"]
    assert first.entries["etag"].to_pylist() == ["7"]
    second = store.list("t/", after="t/b", cursor=first.next)
    assert (second.entries["key"].to_pylist(), second.next) == (["t/d"], None)
    fields = "items%28name%2Csize%2Cupdated%2Cgeneration%29%2Cprefixes%2CnextPageToken"
    query = f"fields={fields}&maxResults=1000"
    start = "prefix=t%2F&startOffset=t%2Fb"
    assert [target.partition("?")[2] for target in scripted.targets] == [
        f"{query}&{start}",
        f"{query}&pageToken=next&{start}",
    ]


def test_one_level_starts_at_the_folder_that_the_offset_lies_in(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    scripted.play(page("t/c", folders=("t/b/", "t/d/")))
    found = store.list("t/", one_level=True, after="t/b/x")
    assert (found.folders, found.entries["key"].to_pylist()) == (("t/b/", "t/d/"), ["t/c"])
    assert "startOffset=t%2Fb%2F" in scripted.targets[0]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (page("t/b", "t/a"), StorageError),
        (page("t/a", "t/a"), StorageError),
        (page("u/a"), InexactKeyError),
        (page("t/a", size="many"), UnavailableError),
        (page("t/a", generation=""), UnavailableError),
        (http(200, b'{"items": [{"name": "t/a"'), UnavailableError),
        (http(200, b"<html>"), UnavailableError),
    ],
)
def test_a_doubtful_page_is_an_error(
    scripted: ScriptedServer, store: GoogleStore, answer: bytes, error: type[LakesweepError]
) -> None:
    scripted.play(answer)
    with pytest.raises(error):
        store.list("t/")


def test_a_time_that_cannot_be_read_is_unknown(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    scripted.play(page("a", updated="yesterday"))
    assert store.list("").entries["modified"].to_pylist() == [None]


# ── deletes


def test_a_batch_sends_generations_and_has_an_outcome_for_each_key(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    scripted.play(batch(204, 404, 412, 403, 429, 503, 500, 0))
    keys = ["a/b", "b", "c", "d", "e", "f", "g", "h"]
    deletions = store.delete(keys, [Expected(4, None, "7"), *[None] * 7])
    assert [deletion.outcome for deletion in deletions] == [
        *(Outcome.DELETED, Outcome.ABSENT, Outcome.CHANGED, Outcome.DENIED),
        *(Outcome.THROTTLED, Outcome.THROTTLED, Outcome.FAILED, Outcome.FAILED),
    ]
    assert [deletion.may_retry for deletion in deletions] == [False] * 4 + [True] * 4
    assert scripted.targets == ["POST /batch/storage/v1"]
    (request,) = scripted.requests
    assert b"DELETE /storage/v1/b/bucket/o/a%2Fb?ifGenerationMatch=7 HTTP/1.1\r\n" in request
    assert b"DELETE /storage/v1/b/bucket/o/b HTTP/1.1\r\n" in request


def test_a_server_without_batches_gets_single_deletes(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    scripted.play(http(404), GONE, GONE, GONE, GONE)
    for _ in range(2):
        assert [one.outcome for one in store.delete(["a", "b"])] == [Outcome.DELETED] * 2
    assert len(scripted.requests) == 5


def test_objects_listed_without_a_generation_are_looked_at_first(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    same = 1_767_323_045_678_000
    scripted.play(state(generation="9"), GONE)
    assert store.delete(["k"], [Expected(4, same)])[0].outcome is Outcome.DELETED
    assert scripted.targets[-1] == "DELETE /storage/v1/b/bucket/o/k?ifGenerationMatch=9"
    scripted.play(state(generation="9"))
    # The etag of an inventory is no generation.
    moved_on = Expected(4, same - 60_000_000, "CJ+g1Mw=")
    assert store.delete(["k"], [moved_on])[0].outcome is Outcome.CHANGED
    assert len(scripted.requests) == 3


def test_an_emulator_is_not_trusted_with_conditions(scripted: ScriptedServer) -> None:
    store = GoogleStore("bucket", StorageOptions(endpoint=scripted.endpoint, anonymous=True))
    scripted.play(state(generation="8"))
    assert store.delete(["k"], [Expected(4, None, "7")])[0].outcome is Outcome.CHANGED
    assert [target.split()[0] for target in scripted.targets] == ["GET"]


def test_an_object_under_a_hold_is_locked(scripted: ScriptedServer, store: GoogleStore) -> None:
    held = {"message": "held", "errors": [{"reason": "objectUnderActiveHold"}]}
    scripted.play(http(403, json.dumps({"error": held}).encode()))
    assert store.delete(["k"])[0].outcome is Outcome.LOCKED


def test_a_denied_delete_names_the_right_that_is_missing(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    told = {"message": "sweeper does not have access", "errors": [{"reason": "forbidden"}]}
    scripted.play(http(403, json.dumps({"error": told}).encode()))
    (deletion,) = store.delete(["k"])
    assert deletion.reason == (
        "delete was refused: forbidden: sweeper does not have access; "
        "the credentials need the right to delete (storage.objects.delete, in the role Storage "
        "Object User)"
    )


@pytest.mark.parametrize(
    ("act", "right"),
    [
        (lambda store: store.list(""), "storage.objects.list"),
        (lambda store: store.read("k"), "storage.objects.get"),
        (lambda store: store.write("k", b""), "storage.objects.create"),
    ],
    ids=["list", "read", "write"],
)
def test_what_else_is_denied_names_its_right(
    scripted: ScriptedServer, store: GoogleStore, act: Callable[[ObjectStore], object], right: str
) -> None:
    scripted.play(http(403, b'{"error": {"errors": [{"reason": "forbidden"}]}}'))
    with pytest.raises(DeniedError, match="was refused: forbidden") as caught:
        act(store)
    assert right in (caught.value.hint or "")


# ── reads, writes and moves


def test_packed_objects_are_read_as_they_are_stored(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    packed = gzip.compress(b"content", mtime=0)
    told = {
        "x-goog-stored-content-encoding": "gzip",
        "x-goog-stored-content-length": str(len(packed)),
    }
    scripted.play(http(200, b"content", told), http(200, packed, told))
    assert store.read("k") == packed
    scripted.play(http(200, b"content", told), http(206, packed[:3], told))
    assert store.read_range("k", 0, 3) == packed[:3]
    assert [b"Accept-Encoding: gzip\r\n" in r for r in scripted.requests] == [False, True] * 2


def test_a_download_of_another_length_is_not_believed(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    scripted.play(http(200, b"short", {"x-goog-stored-content-length": "9"}))
    with pytest.raises(UnavailableError, match="5 bytes arrived, but 9 are stored"):
        store.read("k")


def test_a_new_object_is_written_under_a_condition(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    scripted.play(http(200, b"{}"), UNMET)
    store.write_new("a b", b"data")
    with pytest.raises(ExistsError):
        store.write_new("a b", b"data")
    query = "ifGenerationMatch=0&name=a%20b&uploadType=media"
    assert scripted.targets == [f"POST /upload/storage/v1/b/bucket/o?{query}"] * 2


def test_a_move_copies_what_was_seen_in_steps_and_then_deletes_that(
    scripted: ScriptedServer, store: GoogleStore
) -> None:
    stored = state(storageClass="COLDLINE", metadata={"owner": "x"}, contentType="text/csv")
    step = http(200, b'{"done": false, "rewriteToken": "more"}')
    scripted.play(stored, MISSING, step, COPIED, state(), GONE)
    store.move("a", "b/c", Expected(4, None, "7"))
    path = "POST /storage/v1/b/bucket/o/a/rewriteTo/b/bucket/o/b%2Fc"
    query = "ifGenerationMatch=0&ifSourceGenerationMatch=7"
    assert scripted.targets[2:4] == [f"{path}?{query}", f"{path}?{query}&rewriteToken=more"]
    assert scripted.targets[-1] == "DELETE /storage/v1/b/bucket/o/a?ifGenerationMatch=7"
    body = json.loads(scripted.requests[2].partition(b"\r\n\r\n")[2])
    assert body == {
        "contentType": "text/csv",
        "metadata": {"owner": "x"},
        "storageClass": "COLDLINE",
    }


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((MISSING,), MissingError),
        ((state(generation="8"),), ChangedError),
        ((state(), state()), ExistsError),
        ((state(), MISSING, UNMET, state()), ExistsError),
        ((state(), MISSING, UNMET, MISSING), ChangedError),
        ((state(), MISSING, COPIED, state(size=3)), StorageError),
        ((state(), MISSING, COPIED, MISSING), UnavailableError),
    ],
)
def test_a_move_that_cannot_be_made_deletes_nothing(
    scripted: ScriptedServer,
    store: GoogleStore,
    answers: tuple[bytes, ...],
    expected: type[LakesweepError],
) -> None:
    scripted.play(*answers)
    with pytest.raises(expected) as caught:
        store.move("a", "b", Expected(4, None, "7"))
    assert type(caught.value) is expected
    assert not any(target.startswith("DELETE") for target in scripted.targets)
    assert scripted.answers == []
