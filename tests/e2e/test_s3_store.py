"""The S3 store against real servers, and against servers that answer badly."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from lakesweep.clock import SystemClock
from lakesweep.errors import (
    ConfigError,
    DeniedError,
    ExistsError,
    LakesweepError,
    LockedError,
    MissingError,
    StorageError,
    ThrottledError,
    UnavailableError,
    UnsupportedError,
)
from lakesweep.storage.object_store import (
    CHANGED,
    Deletion,
    Expected,
    ListingPage,
    Outcome,
    expected_of,
)
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.client import S3Client
from lakesweep.storage.s3.endpoint import S3Request
from lakesweep.storage.s3.errors import Operation
from lakesweep.storage.s3.multipart_copy import MultipartCopy
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.wrappers.retry import Retrying
from tests.scripted import SILENCE, ScriptedServer, error, http, page, scripted_server
from tests.servers import S3Server

MEBIBYTE = 1 << 20


@pytest.fixture(params=["moto", "rclone"])
def server(request: pytest.FixtureRequest) -> S3Server:
    server: S3Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def store(server: S3Server) -> S3Store:
    return S3Store(server.make_bucket(f"bucket-{uuid4().hex}"), server.options())


@pytest.fixture
def moto_store(moto: S3Server) -> S3Store:
    return S3Store(moto.make_bucket(f"bucket-{uuid4().hex}"), moto.options())


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def scripted_store(scripted: ScriptedServer) -> S3Store:
    return S3Store("bucket", scripted.options())


def pages(store: S3Store, prefix: str, **arguments: object) -> list[ListingPage]:
    found = [store.list(prefix, **arguments)]  # type: ignore[arg-type]
    while found[-1].next is not None:
        found.append(store.list(prefix, cursor=found[-1].next, **arguments))  # type: ignore[arg-type]
    return found


def keys(found: list[ListingPage]) -> list[str]:
    return [key for page in found for key in page.entries["key"].to_pylist()]


# ── listing


def test_a_long_listing_comes_in_pages_without_gap_or_repetition(server: S3Server) -> None:
    count = 2_100 if server.folder else 1_100  # moto takes its time to write
    names = [f"t/{number:05}" for number in range(count)]
    bucket = server.make_bucket(f"bucket-{uuid4().hex}")
    store = S3Store(bucket, server.options())
    fill(server, bucket, store, names)
    found = pages(store, "t/")
    assert [page.entries.num_rows for page in found] == [1000] * (count // 1000) + [100]
    assert keys(found) == names
    assert keys(pages(store, "t/", after="t/00049")) == names[50:]


def fill(server: S3Server, bucket: str, store: S3Store, names: list[str]) -> None:
    if server.folder is not None:
        for name in names:
            (server.folder / bucket / name).parent.mkdir(parents=True, exist_ok=True)
            (server.folder / bucket / name).write_bytes(b"x")
    else:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: store.write(name, b"x"), names))


def test_one_level_folds_deeper_keys_into_folders(store: S3Store) -> None:
    for key in ["p/a", "p/b/c", "p/b/d/e", "p/c/f", "pq", "p2/g"]:
        store.write(key, b"")
    found = store.list("p/", one_level=True)
    assert found.entries["key"].to_pylist() == ["p/a"]
    assert sorted(found.folders) == ["p/b/", "p/c/"]


def test_an_entry_says_what_the_store_knows(store: S3Store) -> None:
    store.write("k", b"hello")
    (entry,) = store.list("").entries.to_pylist()
    assert (entry["key"], entry["size_bytes"]) == ("k", 5)
    assert entry["etag"] == "5d41402abc4b2a76b9719d911017c592"
    assert abs(entry["modified"] - datetime.now(UTC)) < timedelta(minutes=5)
    info = store.head("k")
    assert (info.size_bytes, info.etag) == (5, entry["etag"])
    assert info.modified is not None
    assert abs(info.modified - entry["modified"]) < timedelta(seconds=2)


def test_an_empty_prefix_is_an_empty_page(store: S3Store) -> None:
    found = store.list("nothing/")
    assert (found.entries.num_rows, found.folders, found.next) == (0, (), None)


def test_a_store_out_of_order_says_so(scripted: ScriptedServer, scripted_store: S3Store) -> None:
    scripted.play(page("b", "a"))
    before = scripted_store.capabilities
    assert keys(pages(scripted_store, "")) == ["b", "a"]
    assert (before.ordered, scripted_store.capabilities.ordered) == (True, False)
    with pytest.raises(UnsupportedError, match="in order"):
        scripted_store.list("", after="a")


@pytest.mark.parametrize("answer", [page("c", "b"), page("a", "b")])
def test_a_listing_after_a_key_stands_on_order(
    scripted: ScriptedServer, scripted_store: S3Store, answer: bytes
) -> None:
    scripted.play(answer)
    with pytest.raises(UnsupportedError, match="in order"):
        scripted_store.list("", after="a")


def test_order_is_watched_across_pages(scripted: ScriptedServer, scripted_store: S3Store) -> None:
    scripted.play(page("m", token="t"), page("a"))
    assert keys(pages(scripted_store, "")) == ["m", "a"]
    assert not scripted_store.capabilities.ordered


def test_a_directory_bucket_has_no_order(scripted: ScriptedServer) -> None:
    store = S3Store("name--use1-az4--x-s3", scripted.options())
    assert not store.capabilities.ordered
    with pytest.raises(UnsupportedError, match="in order"):
        store.list("", after="a")


def test_a_directory_bucket_of_amazon_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="S3 Express"):
        S3Store("name--use1-az4--x-s3", StorageOptions(region="us-east-1", anonymous=True))


@pytest.mark.parametrize(
    "answer",
    [
        http(200, b""),
        http(200, b"<html>welcome</html>"),
        http(200, page("a").partition(b"\r\n\r\n")[2][:-30]),
        page("a", more="<KeyCount>7</KeyCount>"),
        page("a").replace(b"false", b"true "),
        page("a")[:-10],
        page("a").replace(b"Content-Length", b"Content-Left"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n<ListBucket",
        b"garbage\r\n\r\n",
        b"",
    ],
    ids=lambda answer: str(answer[-25:]),
)
def test_a_page_that_is_not_whole_is_never_a_short_listing(
    scripted: ScriptedServer, scripted_store: S3Store, answer: bytes
) -> None:
    scripted.play(answer)
    with pytest.raises(UnavailableError):
        scripted_store.list("")


# ── reading


def test_a_range_ends_where_the_object_does(store: S3Store) -> None:
    store.write("k", b"0123456789")
    assert store.read_range("k", 0, 4) == b"0123"
    assert store.read_range("k", 8, 100) == b"89"
    assert store.read_range("k", 10, 1) == b""
    assert store.read_range("k", 500, 7) == b""
    assert store.read_range("k", 3, 0) == b""


def test_an_empty_object_is_read(store: S3Store) -> None:
    store.write("empty", b"")
    assert store.read("empty") == b""
    assert store.read_range("empty", 0, 10) == b""
    assert store.head("empty").size_bytes == 0


def test_a_compressed_object_is_read_as_it_is_stored(moto: S3Server, moto_store: S3Store) -> None:
    bucket = moto_store.base.removeprefix("s3://").removesuffix("/")
    data = b"\x1f\x8b not really gzip"
    moto.boto3().put_object(Bucket=bucket, Key="z", Body=data, ContentEncoding="gzip")
    assert moto_store.read("z") == data


@pytest.mark.parametrize(
    "answer",
    [
        http(200, b"half", {"Content-Length": "8"}),
        b"HTTP/1.1 200 OK\r\n\r\nnobody knows how long",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nx",
    ],
)
def test_an_object_cut_short_is_never_returned(
    scripted: ScriptedServer, scripted_store: S3Store, answer: bytes
) -> None:
    scripted.play(answer)
    with pytest.raises(UnavailableError):
        scripted_store.read("k")


@pytest.mark.parametrize(
    "answer",
    [
        http(200, b"0123456789"),
        http(206, b"0123"),
        http(206, b"0123", {"Content-Range": "bytes 0-3/10"}),
        http(206, b"23", {"Content-Range": "bytes 2-3/10"}),
        http(206, b"23", {"Content-Range": "bytes 2-5/10"}),
        http(206, b"2345", {"Content-Range": "bytes 2-5/*"}),
    ],
)
def test_another_range_than_the_one_asked_for_is_refused(
    scripted: ScriptedServer, scripted_store: S3Store, answer: bytes
) -> None:
    scripted.play(answer)
    with pytest.raises(UnavailableError):
        scripted_store.read_range("k", 2, 4)


def test_a_head_without_a_size_is_refused(
    scripted: ScriptedServer, scripted_store: S3Store
) -> None:
    scripted.play(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    with pytest.raises(UnavailableError, match="no size"):
        scripted_store.head("k")


# ── writing


def test_a_write_replaces(store: S3Store) -> None:
    store.write("k", b"one")
    store.write("k", b"two")
    assert store.read("k") == b"two"


def test_a_megabyte_comes_back(store: S3Store) -> None:
    data = bytes(range(256)) * 4096
    store.write("k", data)
    assert store.read("k") == data


def test_one_of_many_writers_creates_the_object(moto_store: S3Store) -> None:
    moto_store.write_new("first/of/all", b"")

    def create(number: int) -> str | None:
        try:
            moto_store.write_new("race/k", str(number).encode())
        except ExistsError:
            return None
        return str(number)

    with ThreadPoolExecutor(8) as pool:
        winners = [winner for winner in pool.map(create, range(24)) if winner is not None]
    assert len(winners) == 1
    assert moto_store.read("race/k") == winners[0].encode()
    assert keys(pages(moto_store, "")) == ["first/of/all", "race/k"]


def test_a_store_that_ignores_conditions_is_found_out_before_harm_is_done(
    rclone: S3Server,
) -> None:
    store = S3Store(rclone.make_bucket(f"bucket-{uuid4().hex}"), rclone.options())
    store.write("folder/k", b"old")
    before = store.capabilities
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="no conditional writes"):
            store.write_new("folder/k", b"new")
    assert (before.write_new, store.capabilities.write_new) == (True, False)
    assert store.read("folder/k") == b"old"
    assert keys(pages(store, "")) == ["folder/k"]


def test_a_store_that_refuses_conditions_has_none(
    scripted: ScriptedServer, scripted_store: S3Store
) -> None:
    scripted.play(error(501, "NotImplemented", "A header implies something else"))
    with pytest.raises(UnsupportedError, match="no conditional writes"):
        scripted_store.write_new("k", b"")
    assert len(scripted.requests) == 1


def test_a_conflict_of_conditional_writes_may_be_repeated(
    scripted: ScriptedServer, scripted_store: S3Store
) -> None:
    exists = error(412, "PreconditionFailed")
    scripted.play(http(200), exists, http(204), error(409, "ConditionalRequestConflict"))
    with pytest.raises(UnavailableError, match="ConditionalRequestConflict"):
        scripted_store.write_new("k", b"")


# ── deleting


def test_a_bulk_delete_keeps_the_order_of_its_keys(store: S3Store) -> None:
    names = [f"k{number}" for number in range(20)]
    for name in names:
        store.write(name, b"")
    asked = [*reversed(names), "never there"]
    assert store.delete(asked) == [Deletion(key, Outcome.DELETED) for key in asked]
    assert keys(pages(store, "")) == []


def without_etag(store: S3Store, key: str) -> Expected:
    """An object as an inventory has it."""
    return expected_of(store.head(key))._replace(etag=None)


def test_what_was_listed_without_an_etag_goes_if_it_is_the_same(store: S3Store) -> None:
    store.write("a", b"1")
    (deletion,) = store.delete(["a"], [without_etag(store, "a")])
    assert deletion.outcome is Outcome.DELETED


def test_what_was_written_again_since_an_inventory_stays(store: S3Store) -> None:
    store.write("a", b"1")
    listed = without_etag(store, "a")
    earlier = listed._replace(modified_micros=(listed.modified_micros or 0) - 60_000_000)
    for told in (earlier, listed._replace(size_bytes=7)):
        (deletion,) = store.delete(["a"], [told])
        assert (deletion.outcome, deletion.reason) == (Outcome.CHANGED, CHANGED)


def test_what_an_inventory_has_and_the_bucket_has_not_is_absent(store: S3Store) -> None:
    outcomes = store.delete(["a", "b"], [Expected(1, 1_000_000), None])
    assert outcomes[0].outcome is Outcome.ABSENT


def test_a_thousand_keys_go_in_one_request(moto_store: S3Store) -> None:
    names = [f"k{number}" for number in range(1000)]
    moto_store.write("k999", b"")
    moto_store.write("l", b"")
    assert {deletion.outcome for deletion in moto_store.delete(names)} == {Outcome.DELETED}
    assert keys(pages(moto_store, "")) == ["l"]


def test_each_key_gets_the_outcome_that_the_answer_gives_it(
    scripted: ScriptedServer, scripted_store: S3Store
) -> None:
    told = {
        "denied": ("AccessDenied", "Access Denied"),
        "locked": ("AccessDenied", "Access Denied because object protected by object lock."),
        "worm": ("InvalidRequest", "Object is WORM protected and cannot be overwritten"),
        "slow": ("SlowDown", "Please reduce your request rate."),
        "broken": ("InternalError", "We encountered an internal error."),
        "odd": ("MethodNotAllowed", "no"),
        "gone": ("NoSuchKey", "no"),
    }
    errors = "".join(
        f"<Error><Key>{key}</Key><Code>{code}</Code><Message>{message}</Message></Error>"
        for key, (code, message) in told.items()
    )
    body = f"<DeleteResult><Deleted><Key>ok</Key></Deleted>{errors}</DeleteResult>"
    scripted.play(http(200, body.encode()))
    deletions = scripted_store.delete(["ok", *told, "forgotten"])
    assert "the credentials need s3:DeleteObject" in (deletions[1].reason or "")
    assert [(d.key, d.outcome, d.may_retry) for d in deletions] == [
        ("ok", Outcome.DELETED, False),
        ("denied", Outcome.DENIED, False),
        ("locked", Outcome.LOCKED, False),
        ("worm", Outcome.LOCKED, False),
        ("slow", Outcome.THROTTLED, True),
        ("broken", Outcome.FAILED, True),
        ("odd", Outcome.FAILED, False),
        ("gone", Outcome.ABSENT, False),
        ("forgotten", Outcome.FAILED, True),
    ]
    assert deletions[3].reason == "InvalidRequest: " + told["worm"][1]
    assert deletions[-1].reason == "no outcome given"


def test_a_key_that_is_both_deleted_and_not_is_not_deleted(
    scripted: ScriptedServer, scripted_store: S3Store
) -> None:
    scripted.play(
        http(
            200,
            b"<DeleteResult><Deleted><Key>k</Key></Deleted>"
            b"<Error><Key>k</Key><Code>AccessDenied</Code></Error></DeleteResult>",
        )
    )
    assert [deletion.outcome for deletion in scripted_store.delete(["k"])] == [Outcome.DENIED]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (error(503, "SlowDown"), ThrottledError),
        (error(500, "InternalError"), UnavailableError),
        (error(403, "AccessDenied"), DeniedError),
        (error(404, "NoSuchBucket"), MissingError),
        (error(200, "InternalError"), UnavailableError),
        (error(200, "SlowDown"), ThrottledError),
        (http(200, b"<DeleteResult><Deleted><Key>k</Key>"), UnavailableError),
        (http(200, b""), UnavailableError),
        (error(501, "NotImplemented"), UnsupportedError),
    ],
)
def test_a_delete_without_an_answer_as_a_whole_raises(
    scripted: ScriptedServer,
    scripted_store: S3Store,
    answer: bytes,
    expected: type[LakesweepError],
) -> None:
    scripted.play(answer)
    with pytest.raises(expected):
        scripted_store.delete(["k", "l"])


@pytest.mark.parametrize(
    ("answer", "outcome", "may_retry"),
    [
        (http(204), Outcome.DELETED, False),
        (error(404, "NoSuchKey"), Outcome.ABSENT, False),
        (http(404), Outcome.ABSENT, False),
        (error(404, "NoSuchBucket"), Outcome.FAILED, False),
        (error(403, "AccessDenied"), Outcome.DENIED, False),
        (http(403), Outcome.DENIED, False),
        (error(403, "AccessDenied", "protected by object lock"), Outcome.LOCKED, False),
        (error(503, "SlowDown"), Outcome.THROTTLED, True),
        (http(503), Outcome.THROTTLED, True),
        (http(502, b"<html>bad gateway</html>"), Outcome.FAILED, True),
        (b"", Outcome.FAILED, True),
    ],
)
def test_a_single_delete_gives_an_outcome(
    scripted: ScriptedServer, answer: bytes, outcome: Outcome, *, may_retry: bool
) -> None:
    store = S3Store("bucket", scripted.options(delete_batch=1))
    assert store.capabilities.delete_batch == 1
    scripted.play(answer)
    (deletion,) = store.delete(["k"])
    assert (deletion.outcome, deletion.may_retry) == (outcome, may_retry)
    assert scripted.targets == ["DELETE /bucket/k"]


def test_no_version_is_ever_named(scripted: ScriptedServer, scripted_store: S3Store) -> None:
    scripted.play(http(200, b"<DeleteResult/>"), http(204))
    scripted_store.delete(["k", "\x01"])
    assert not [request for request in scripted.requests if b"version" in request.lower()]


def test_a_delete_in_a_versioned_bucket_leaves_the_versions(
    moto: S3Server, moto_store: S3Store
) -> None:
    bucket = moto_store.base.removeprefix("s3://").removesuffix("/")
    other = moto.boto3()
    other.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    moto_store.write("k", b"kept")
    moto_store.delete(["k"])
    found = other.list_object_versions(Bucket=bucket)
    assert keys(pages(moto_store, "")) == []
    assert [version["Key"] for version in found["Versions"]] == ["k"]
    assert [marker["Key"] for marker in found["DeleteMarkers"]] == ["k"]


# ── copying


def test_a_copy_replaces_its_target(store: S3Store) -> None:
    store.write("from", b"data")
    store.write("to/here", b"old")
    store.copy("from", "to/here")
    assert store.read("to/here") == store.read("from") == b"data"


def test_a_copy_of_nothing_names_the_source(store: S3Store) -> None:
    with pytest.raises(MissingError, match=r"/nothing: "):
        store.copy("nothing", "target")


def test_an_error_inside_a_successful_copy_is_an_error(
    scripted: ScriptedServer, scripted_store: S3Store
) -> None:
    scripted.play(error(200, "InternalError", "We encountered an internal error."))
    with pytest.raises(UnavailableError, match="InternalError"):
        scripted_store.copy("a", "b")


def test_a_copy_that_nothing_confirms_is_an_error(
    scripted: ScriptedServer, scripted_store: S3Store
) -> None:
    scripted.play(http(200, b"<?xml version='1.0'?>\n   "))
    with pytest.raises(UnavailableError):
        scripted_store.copy("a", "b")


def test_a_large_object_is_copied_in_parts(moto: S3Server, moto_store: S3Store) -> None:
    data = bytes(11 * MEBIBYTE)
    bucket = moto_store.base.removeprefix("s3://").removesuffix("/")
    moto.boto3().put_object(
        Bucket=bucket, Key="a//b", Body=data, ContentType="text/odd", Metadata={"own": "kept"}
    )
    client = S3Client(bucket, moto.options())
    head = client.ask(Operation.READ, S3Request("HEAD", "s3://", "a//b"))
    MultipartCopy(client, "a//b", "copy", head, part_bytes=5 * MEBIBYTE).run()
    copied = moto.boto3().get_object(Bucket=bucket, Key="copy")
    assert copied["Body"].read() == data
    assert (copied["ContentType"], copied["Metadata"]) == ("text/odd", {"own": "kept"})
    assert copied["ETag"].endswith('-3"')


TOO_LARGE = error(
    400,
    "InvalidRequest",
    "The specified copy source is larger than the maximum allowable size for a copy source",
)
SIX_GIB_HEAD = http(200, headers={"Content-Length": str(6 << 30), "ETag": '"abc"'})
STARTED = http(
    200,
    b"<InitiateMultipartUploadResult><UploadId>u+1</UploadId></InitiateMultipartUploadResult>",
)
PART = http(200, b'<CopyPartResult><ETag>"p"</ETag></CopyPartResult>')
COMPLETED = http(
    200, b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
)


def test_an_object_too_large_for_one_request_goes_in_parts(
    scripted: ScriptedServer, scripted_store: S3Store
) -> None:
    scripted.play(TOO_LARGE, SIX_GIB_HEAD, STARTED, *[PART] * 6, COMPLETED)
    scripted_store.copy("big", "target")
    assert scripted.targets[3] == "PUT /bucket/target?partNumber=1&uploadId=u%2B1"
    assert b"x-amz-copy-source-range: bytes=5368709120-6442450943\r\n" in scripted.requests[8]
    assert b'x-amz-copy-source-if-match: "abc"\r\n' in scripted.requests[8]
    assert scripted.requests[9].count(b"<PartNumber>") == 6
    assert scripted.answers == []


@pytest.mark.parametrize(
    "failure",
    [
        [error(412, "PreconditionFailed", "the source has changed")],
        [PART, error(500, "InternalError")],
        [*[PART] * 6, error(200, "InternalError")],
    ],
)
def test_a_copy_in_parts_that_fails_is_aborted(
    scripted: ScriptedServer, scripted_store: S3Store, failure: list[bytes]
) -> None:
    scripted.play(TOO_LARGE, SIX_GIB_HEAD, STARTED, *failure, http(204))
    with pytest.raises(StorageError, match=r"PreconditionFailed|InternalError"):
        scripted_store.copy("big", "target")
    assert scripted.targets[-1] == "DELETE /bucket/target?uploadId=u%2B1"


# ── errors


@pytest.mark.parametrize(
    ("answer", "expected", "hint"),
    [
        (error(404, "NoSuchKey"), MissingError, None),
        (error(404, "NoSuchBucket"), MissingError, "bucket's name"),
        (http(404, b"<html>not S3 at all</html>"), StorageError, None),
        (error(403, "AccessDenied"), DeniedError, "s3:GetObject"),
        (error(403, "InvalidAccessKeyId"), DeniedError, "AWS_ACCESS_KEY_ID"),
        (error(403, "SignatureDoesNotMatch"), DeniedError, "AWS_SECRET_ACCESS_KEY"),
        (error(403, "RequestTimeTooSkewed"), DeniedError, "clock"),
        (error(400, "ExpiredToken"), DeniedError, "expired"),
        (error(403, "AccessDenied", "a legal hold is set"), LockedError, None),
        (http(401), DeniedError, "s3:GetObject"),
        (error(429, "TooManyRequests"), ThrottledError, "files_per_second"),
        (error(503, "SlowDown"), ThrottledError, "files_per_second"),
        (http(503, b"<html>busy</html>"), ThrottledError, "files_per_second"),
        (error(400, "RequestTimeout"), UnavailableError, None),
        (error(500, "InternalError"), UnavailableError, None),
        (http(502), UnavailableError, None),
        (http(504), UnavailableError, None),
        (http(307), UnavailableError, None),
        (error(405, "MethodNotAllowed"), UnsupportedError, "delete_batch"),
        (error(400, "InvalidBucketName"), ConfigError, "bucket's name"),
        (error(400, "KeyTooLongError"), StorageError, None),
    ],
)
def test_an_error_answer_is_told_in_our_terms(
    scripted: ScriptedServer,
    scripted_store: S3Store,
    answer: bytes,
    expected: type[LakesweepError],
    hint: str | None,
) -> None:
    scripted.play(answer)
    with pytest.raises(expected) as caught:
        scripted_store.read("k")
    assert type(caught.value) is expected
    assert "s3://bucket/k" in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")
    assert len(scripted.requests) == 1


@pytest.mark.parametrize(("told", "pause"), [("7", 7.0), ("soon", None)])
def test_a_throttle_tells_how_long_to_wait(
    scripted: ScriptedServer, scripted_store: S3Store, told: str, pause: float | None
) -> None:
    scripted.play(http(503, headers={"Retry-After": told}))
    with pytest.raises(ThrottledError) as caught:
        scripted_store.read("k")
    assert caught.value.retry_after == pause


def ask_list(store: S3Store) -> None:
    store.list("p/")


def ask_write(store: S3Store) -> None:
    store.write("k", b"")


def ask_delete(store: S3Store) -> None:
    store.delete(["k"])


def ask_copy(store: S3Store) -> None:
    store.copy("k", "l")


@pytest.mark.parametrize(
    ("ask", "right"),
    [
        (ask_list, "s3:ListBucket"),
        (ask_write, "s3:PutObject"),
        (ask_delete, "s3:DeleteObject"),
        (ask_copy, "s3:GetObject and s3:PutObject"),
    ],
)
def test_a_denial_names_the_right_that_is_missing(
    scripted: ScriptedServer, scripted_store: S3Store, ask: Callable[[S3Store], None], right: str
) -> None:
    scripted.play(error(403, "AccessDenied"))
    with pytest.raises(DeniedError) as caught:
        ask(scripted_store)
    assert right in (caught.value.hint or "")


def test_a_missing_object_and_a_missing_bucket_differ(server: S3Server, store: S3Store) -> None:
    with pytest.raises(MissingError, match="is not there"):
        store.read("nothing")
    with pytest.raises(MissingError, match="is not there"):
        store.head("nothing")
    nowhere = S3Store("no-such-bucket", server.options())
    for ask in (nowhere.read, nowhere.list):
        with pytest.raises(MissingError, match="bucket does not exist"):
            ask("folder/")


def test_a_refused_connection_names_the_endpoint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
    options = StorageOptions(endpoint=endpoint, anonymous=True)
    with pytest.raises(UnavailableError, match="does not accept connections") as caught:
        S3Store("bucket", options).read("k")
    assert endpoint in caught.value.message
    assert "server is running" in (caught.value.hint or "")


def test_a_silent_server_is_given_up(scripted: ScriptedServer) -> None:
    scripted.play(SILENCE)
    with pytest.raises(UnavailableError, match="in time"):
        S3Store("bucket", scripted.options(timeout_seconds=0.2)).read("k")


def test_a_wrong_secret_is_denied(rclone: S3Server) -> None:
    store = S3Store("bucket", rclone.options(secret_access_key="wrong"))
    with pytest.raises(DeniedError):
        store.list("")


# ── regions


def region_of(request: bytes) -> str:
    return request.split(b"Credential=")[1].split(b"/")[2].decode()


@pytest.mark.parametrize(
    "answer",
    [
        error(400, "AuthorizationHeaderMalformed", more="<Region>eu-west-1</Region>"),
        http(301, headers={"x-amz-bucket-region": "eu-west-1"}),
        http(400, headers={"x-amz-bucket-region": "eu-west-1"}),
    ],
)
def test_a_bucket_is_followed_into_its_region_once(
    scripted: ScriptedServer, scripted_store: S3Store, answer: bytes
) -> None:
    scripted.play(answer, http(200, b"found"), http(200, b"again"))
    assert scripted_store.read("k") == b"found"
    assert scripted_store.read("k") == b"again"
    regions = [region_of(request) for request in scripted.requests]
    assert regions == ["us-east-1", "eu-west-1", "eu-west-1"]


def test_a_bucket_that_sends_us_round_is_an_error(
    scripted: ScriptedServer, scripted_store: S3Store
) -> None:
    scripted.play(*[http(301, headers={"x-amz-bucket-region": r}) for r in ("eu-west-1", "eu-2")])
    with pytest.raises(StorageError, match="301"):
        scripted_store.read("k")
    assert len(scripted.requests) == 2


# ── credentials and endpoints


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any settings of AWS."""
    for name in ("PROFILE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ENDPOINT_URL", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.mark.usefixtures("bare")
def test_missing_credentials_name_the_variables(scripted: ScriptedServer) -> None:
    store = S3Store("bucket", StorageOptions(endpoint=scripted.endpoint))
    with pytest.raises(ConfigError, match="no credentials") as caught:
        store.read("k")
    assert "AWS_ACCESS_KEY_ID" in (caught.value.hint or "")
    assert scripted.requests == []


@pytest.mark.usefixtures("bare")
def test_half_an_access_key_is_refused(scripted: ScriptedServer) -> None:
    store = S3Store("bucket", StorageOptions(endpoint=scripted.endpoint, access_key_id="id"))
    with pytest.raises(ConfigError, match="both"):
        store.read("k")


def test_the_variables_of_the_sdk_are_used(
    bare: pytest.MonkeyPatch, scripted: ScriptedServer
) -> None:
    bare.setenv("AWS_ACCESS_KEY_ID", "from-env")
    bare.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    bare.setenv("AWS_SESSION_TOKEN", "session")
    bare.setenv("AWS_REGION", "eu-north-1")
    bare.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    bare.setenv("AWS_ENDPOINT_URL_S3", scripted.endpoint)
    scripted.play(http(200))
    S3Store("bucket", StorageOptions()).read("k")
    assert b"Credential=from-env/" in scripted.requests[0]
    assert b"\r\nX-Amz-Security-Token: session\r\n" in scripted.requests[0]
    assert region_of(scripted.requests[0]) == "eu-north-1"


PROFILE = """
[profile lake]
region = eu-south-1
services = lake-services
credential_process = {process}
[services lake-services]
s3 =
    endpoint_url = {endpoint}
"""

# Prints credentials that are about to run out, with another id each time.
PROCESS = """#!/bin/sh
echo x >> {log}
id=$(wc -l < {log} | tr -d ' ')
echo '{{"Version": 1, "AccessKeyId": "id-'$id'", "SecretAccessKey": "s", "SessionToken": "t",' \\
  '"Expiration": "{expiration}"}}'
"""


@pytest.mark.usefixtures("bare")
def test_a_profile_gives_endpoint_region_and_credentials_that_are_refreshed(
    scripted: ScriptedServer, tmp_path: Path
) -> None:
    expiration = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    process = tmp_path / "process.sh"
    process.write_text(PROCESS.format(log=tmp_path / "log", expiration=expiration))
    process.chmod(0o755)
    settings = PROFILE.format(process=process, endpoint=scripted.endpoint)
    (tmp_path / "config").write_text(settings)
    scripted.play(http(200), http(200))
    store = S3Store("bucket", StorageOptions(profile="lake"))
    store.read("k")
    store.read("k")
    ids = [request.split(b"Credential=")[1].split(b"/")[0] for request in scripted.requests]
    assert len(set(ids)) == 2
    assert region_of(scripted.requests[0]) == "eu-south-1"


@pytest.mark.usefixtures("bare")
def test_an_unknown_profile_is_a_matter_of_configuration() -> None:
    with pytest.raises(ConfigError, match="nobody"):
        S3Store("bucket", StorageOptions(profile="nobody"))


def test_a_store_travels_to_another_process(moto: S3Server, moto_store: S3Store) -> None:
    moto_store.write("k", b"data")
    there: S3Store = pickle.loads(pickle.dumps(moto_store))
    assert there.base == moto_store.base
    assert there.read("k") == b"data"


def test_many_threads_share_a_store(store: S3Store) -> None:
    # rclone answers 500 now and then while it makes the folder of a bucket's first objects.
    patient = Retrying(store, SystemClock(), Random(0))
    names = [f"k{number:02}" for number in range(40)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: patient.write(name, name.encode()), names))
        assert list(pool.map(patient.read, names)) == [name.encode() for name in names]
    assert keys(pages(store, "")) == names
