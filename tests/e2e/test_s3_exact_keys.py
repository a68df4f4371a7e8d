"""Each key of S3 is listed, read, copied and deleted as itself, never as a look-alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from uuid import uuid4

import pytest
import urllib3

from lakesweep.errors import InexactKeyError
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.store import S3Store
from tests.scripted import ScriptedServer, error, http, page, scripted_server
from tests.servers import S3Server

KEYS = [
    "a/b",
    "a//b",
    "a///b",
    "/a/b",
    "/lead",
    "//lead",
    "lead",
    "trail/",
    "trail//",
    "trail",
    "x/./y",
    "x/y",
    "x/../z",
    "z",
    "./dot",
    "dot",
    "tab\there",
    "tab here",
    "return\rhere",
    "q?x#y",
    "q",
    "a%2Fb",
    "a%252Fb",
    "a b",
    "a+b",
    "a%20b",
    "a%2Bb",
    unicodedata.normalize("NFC", "café"),
    unicodedata.normalize("NFD", "café"),
    "Case",
    "case",
    "control\x01",
    "control\x7f\x85",
    "\ufffe\uffff",
    "long" * 256,
    "emoji \U0001f600",
    "&<>\"'",
    "&amp;",
    "]]>",
    "back\\slash",
    "dt=2026-01-01/~-_.!*()'",
    " lead and trail ",
    "s3://a/b",
    "%",
    "%zz",
]


def content(key: str) -> bytes:
    return b"content of " + key.encode()


@pytest.fixture
def store(moto: S3Server) -> S3Store:
    store = S3Store(moto.make_bucket(f"exact-{uuid4().hex}"), moto.options())
    for key in KEYS:
        store.write(key, content(key))
    return store


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


def listed(store: S3Store, prefix: str = "") -> list[str]:
    return list(store.list(prefix).entries["key"].to_pylist())


def test_every_key_is_listed_as_itself_and_in_order(store: S3Store) -> None:
    assert listed(store) == sorted(KEYS, key=str.encode)


def test_every_key_is_what_another_client_stored(moto: S3Server, store: S3Store) -> None:
    other = moto.boto3()
    bucket = store.base.removeprefix("s3://").removesuffix("/")
    for key in KEYS:
        assert other.get_object(Bucket=bucket, Key=key)["Body"].read() == content(key)


@pytest.mark.parametrize("key", KEYS, ids=ascii)
def test_each_key_reads_and_copies_as_itself(moto: S3Server, key: str) -> None:
    store = S3Store(moto.make_bucket(f"one-{uuid4().hex}"), moto.options())
    store.write(key, content(key))
    assert store.head(key).size_bytes == len(content(key))
    assert store.read(key) == content(key)
    assert store.read_range(key, 3, 4) == content(key)[3:7]
    store.copy(key, "copies/of it")
    store.copy("copies/of it", f"copies/{key[:1000]}")
    assert store.read(f"copies/{key[:1000]}") == content(key)
    assert set(listed(store)) == {key, "copies/of it", f"copies/{key[:1000]}"}


@pytest.mark.parametrize("delete_batch", [None, 1], ids=["bulk", "single"])
def test_deleting_one_leaves_its_look_alikes_alive(
    moto: S3Server, store: S3Store, delete_batch: int | None
) -> None:
    bucket = store.base.removeprefix("s3://").removesuffix("/")
    store = S3Store(bucket, moto.options(delete_batch=delete_batch))
    alive = set(KEYS)
    for key in KEYS:
        assert [deletion.outcome for deletion in store.delete([key])] == [Outcome.DELETED]
        alive.remove(key)
        assert set(listed(store)) == alive
    assert alive == set()


def test_what_is_left_by_a_delete_can_still_be_read(store: S3Store) -> None:
    victims, survivors = KEYS[::2], KEYS[1::2]
    assert {deletion.outcome for deletion in store.delete(victims)} == {Outcome.DELETED}
    assert listed(store) == sorted(survivors, key=str.encode)
    assert [store.read(key) for key in survivors] == [content(key) for key in survivors]


@pytest.mark.parametrize(
    "prefix", ["a/", "a//", "/", "//", "x/", "x/./", "trail/", "dt=2026-01-01/"]
)
def test_a_prefix_is_exact(store: S3Store, prefix: str) -> None:
    assert listed(store, prefix) == sorted(
        (key for key in KEYS if key.startswith(prefix)), key=str.encode
    )


def test_folders_are_exact(store: S3Store) -> None:
    top = store.list("", one_level=True)
    assert set(top.folders) == {key[: key.index("/") + 1] for key in KEYS if "/" in key}
    assert set(top.entries["key"].to_pylist()) == {key for key in KEYS if "/" not in key}
    assert store.list("a/", one_level=True).folders == ("a//",)


def test_an_empty_key_never_means_the_bucket(store: S3Store) -> None:
    with pytest.raises(InexactKeyError, match="empty key"):
        store.read("")
    with pytest.raises(InexactKeyError, match="empty key"):
        store.write("", b"")
    with pytest.raises(InexactKeyError, match="empty key"):
        store.copy("", "target")
    with pytest.raises(InexactKeyError, match="empty key"):
        store.copy("a/b", "")
    assert [deletion.outcome for deletion in store.delete([""])] == [Outcome.FAILED]
    assert len(listed(store)) == len(KEYS)


def test_a_key_that_is_no_text_is_refused(store: S3Store) -> None:
    for ask in (store.read, store.head, store.list, lambda key: store.copy(key, "x")):
        with pytest.raises(InexactKeyError, match="not valid Unicode"):
            ask("a\ud800b/")
    assert [deletion.outcome for deletion in store.delete(["a\ud800b"])] == [Outcome.FAILED]


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("x/./y", "x/./y"),
        ("x/../z", "x/../z"),
        ("a//b", "a//b"),
        ("/lead", "/lead"),
        ("a b+c", "a%20b%2Bc"),
        ("é", "%C3%A9"),
        ("q?x#y", "q%3Fx%23y"),
        ("100%", "100%25"),
        ("line\nfeed", "line%0Afeed"),
    ],
)
def test_a_key_goes_over_the_wire_unchanged(
    scripted: ScriptedServer, key: str, target: str
) -> None:
    store = S3Store("bucket", scripted.options())
    scripted.play(http(200, b"x"), http(204))
    store.read(key)
    S3Store("bucket", scripted.options(delete_batch=1)).delete([key])
    assert scripted.targets == [f"GET /bucket/{target}", f"DELETE /bucket/{target}"]


@pytest.mark.parametrize("target", ["//lead", "///", "//a%3Ab/./c", "//%20/../x?y=%2F"])
def test_the_http_library_leaves_a_target_alone(scripted: ScriptedServer, target: str) -> None:
    scripted.play(http(200))
    with urllib3.connection_from_url(scripted.endpoint) as pool:
        pool.urlopen("GET", target, retries=False)
    assert scripted.targets == [f"GET {target}"]


def test_a_copy_names_its_source_exactly(scripted: ScriptedServer) -> None:
    scripted.play(http(200, b"<CopyObjectResult><ETag>e</ETag></CopyObjectResult>"))
    S3Store("bucket", scripted.options()).copy("/a//b+c é", "t")
    assert b"\r\nx-amz-copy-source: /bucket//a//b%2Bc%20%C3%A9\r\n" in scripted.requests[0]


def test_line_feeds_and_tabs_are_references_in_a_bulk_delete(scripted: ScriptedServer) -> None:
    result = "<DeleteResult><Deleted><Key>a&#10;b\t</Key></Deleted></DeleteResult>"
    scripted.play(http(200, result.encode()))
    (deletion,) = S3Store("bucket", scripted.options()).delete(["a\nb\t"])
    assert deletion.outcome is Outcome.DELETED
    assert b"<Key>a&#10;b&#9;</Key>" in scripted.requests[0]


def test_what_xml_cannot_carry_is_deleted_by_a_request_of_its_own(
    scripted: ScriptedServer,
) -> None:
    scripted.play(
        http(200, b"<DeleteResult><Deleted><Key>plain</Key></Deleted></DeleteResult>"),
        http(204),
        http(204),
    )
    deletions = S3Store("bucket", scripted.options()).delete(["a\x01", "plain", "a\rb"])
    assert [deletion.key for deletion in deletions] == ["a\x01", "plain", "a\rb"]
    assert {deletion.outcome for deletion in deletions} == {Outcome.DELETED}
    assert scripted.targets[1:] == ["DELETE /bucket/a%01", "DELETE /bucket/a%0Db"]


@pytest.mark.parametrize("key", ["a b", "a+b"])
def test_a_plus_in_a_listing_is_looked_up_once(scripted: ScriptedServer, key: str) -> None:
    store = S3Store("bucket", scripted.options())
    scripted.play(page("a+b"), page(key, encoded=False), page("a+b"))
    assert listed(store) == [key]
    assert listed(store) == [key]
    encoded, plain = "encoding-type=url&list-type=2&max-keys=1000", "list-type=2&max-keys=1000"
    assert scripted.targets == [f"GET /bucket?{query}" for query in (encoded, plain, encoded)]


def test_a_plus_is_settled_by_the_objects_where_xml_cannot_be_plain(
    scripted: ScriptedServer,
) -> None:
    scripted.play(page("a+b", "x%01"), page("a b", "x\x01", encoded=False), http(200), http(404))
    assert listed(S3Store("bucket", scripted.options())) == ["a b", "x\x01"]
    assert scripted.targets[2:] == ["HEAD /bucket/a%20b", "HEAD /bucket/a%2Bb"]


def test_a_plus_that_nothing_settles_stops_the_listing(scripted: ScriptedServer) -> None:
    scripted.play(page("a+b"), page("c", encoded=False), http(404), http(404))
    with pytest.raises(InexactKeyError, match=r"s3://bucket/a\+b"):
        listed(S3Store("bucket", scripted.options()))


def test_a_listed_key_that_is_not_utf8_stops_the_listing(scripted: ScriptedServer) -> None:
    scripted.play(page("k%FF"), error(500, "InternalError"))
    scripted.answers.extend([http(404)] * 20)
    with pytest.raises(InexactKeyError, match="k%FF"):
        listed(S3Store("bucket", scripted.options()))


def test_a_line_break_that_may_be_another_one_stops_the_listing(scripted: ScriptedServer) -> None:
    scripted.play(page("a\r\nb", encoded=False))
    with pytest.raises(InexactKeyError, match="line break"):
        listed(S3Store("bucket", scripted.options()))


def test_a_key_outside_the_prefix_stops_the_listing(scripted: ScriptedServer) -> None:
    scripted.play(page("t1/a", "t10/a"))
    with pytest.raises(InexactKeyError, match="t10/a"):
        listed(S3Store("bucket", scripted.options()), "t1/")


def test_a_key_listed_twice_stops_the_listing(scripted: ScriptedServer) -> None:
    scripted.play(page("a", "a"))
    with pytest.raises(InexactKeyError, match="twice"):
        listed(S3Store("bucket", scripted.options()))


def test_keys_on_a_server_over_files(rclone: S3Server) -> None:
    keys = ["a b", "a+b", "a%2Fb", "café", "cafe\u0301", "dt=1/x", "&<>\"'", "q?x#y", "~"]
    store = S3Store(rclone.make_bucket(f"exact-{uuid4().hex}"), rclone.options())
    for key in keys:
        store.write(key, content(key))
    assert listed(store) == sorted(keys, key=str.encode)
    assert [store.read(key) for key in keys] == [content(key) for key in keys]
    store.delete(["a b", "café"])
    assert set(listed(store)) == {*keys} - {"a b", "café"}


def test_anonymous_requests_carry_no_signature(scripted: ScriptedServer) -> None:
    scripted.play(http(200, b"x"))
    options = StorageOptions(endpoint=scripted.endpoint, anonymous=True)
    assert S3Store("bucket", options).read("a//b") == b"x"
    assert b"authorization" not in scripted.requests[0].lower()
    assert b"GET /bucket/a//b " in scripted.requests[0]
