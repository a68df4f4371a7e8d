"""What S3 gives a quarantine: conditional deletes, moves and versions, on servers good and bad."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakesweep.errors import (
    ChangedError,
    DeniedError,
    ExistsError,
    LakesweepError,
    MissingError,
    StorageError,
    ThrottledError,
    UnavailableError,
    UnsupportedError,
)
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.deleting.quarantine import empty_quarantine, held_files, quarantine_files
from lakesweep.storage.deleting.quarantine_store import QuarantineFolders
from lakesweep.storage.deleting.restore import restore_files
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import Expected, Outcome, expected_of
from lakesweep.storage.s3.deletes import probe_beside
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.stores import Stores
from tests.scripted import Script, ScriptedServer, error, http, scripted_server
from tests.servers import S3Server

LISTED = Expected(4, None, "abc")

CREATED = http(200, b"", {"ETag": '"probe"'})
COPIED = http(200, b"<CopyObjectResult><ETag>e</ETag></CopyObjectResult>")
GONE = http(204)
MISSING = http(404)


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def store(scripted: ScriptedServer) -> S3Store:
    return S3Store("bucket", scripted.options())


def head(size: int = 4, etag: str = "abc", storage_class: str = "STANDARD") -> bytes:
    """An answer to HEAD: the length is that of the object, whose bytes do not come."""
    told = {"ETag": f'"{etag}"', "x-amz-storage-class": storage_class}
    return http(200, b"", {**told, "Content-Length": str(size)})


def delete_all(request: bytes) -> bytes:
    """A bulk delete that knows no conditions."""
    keys = re.findall(rb"<Key>.*?</Key>", request)
    return _result(b"".join(b"<Deleted>" + key + b"</Deleted>" for key in keys))


def refuse_all(request: bytes) -> bytes:
    """A bulk delete none of whose conditions holds."""
    keys = re.findall(rb"<Key>.*?</Key>", request)
    code = b"<Code>PreconditionFailed</Code>"
    return _result(b"".join(b"<Error>" + key + code + b"</Error>" for key in keys))


def _result(body: bytes) -> bytes:
    return http(200, b"<DeleteResult>" + body + b"</DeleteResult>")


def bucket_of(server: S3Server, *, versioning: str | None = None) -> str:
    bucket = server.make_bucket(f"bucket-{uuid4().hex}")
    if versioning is not None:
        server.boto3().put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": versioning}
        )
    return bucket


# ── conditional deletes


def test_etags_go_with_the_keys_of_a_server_that_heeds_them(
    scripted: ScriptedServer, store: S3Store
) -> None:
    scripted.play(CREATED, refuse_all, delete_all, GONE, delete_all)
    store.delete(["p/a", "p/b", "p/c"], [LISTED, None, Expected(size_bytes=4)])
    assert store.capabilities.verified_deletes
    assert scripted.requests[-1].endswith(
        b'<Object><Key>p/a</Key><ETag>"abc"</ETag></Object>'
        b"<Object><Key>p/b</Key></Object><Object><Key>p/c</Key></Object></Delete>"
    )
    scripted.play(refuse_all)
    (deletion,) = store.delete(["p/a"], [LISTED])
    assert (deletion.outcome, deletion.reason) == (
        Outcome.CHANGED,
        "has changed since it was listed",
    )
    assert len(scripted.requests) == 6


def test_a_probe_lies_beside_the_key_and_is_removed(
    scripted: ScriptedServer, store: S3Store
) -> None:
    scripted.play(CREATED, refuse_all, delete_all, GONE, delete_all)
    store.delete(["p/a"], [LISTED])
    put, _, _, removed, _ = scripted.targets
    assert re.fullmatch(r"PUT /bucket/p/\.lakesweep-probe-[0-9a-f]{32}", put)
    assert removed == put.replace("PUT", "DELETE")


@pytest.mark.parametrize(
    ("key", "folder"),
    [("p/" + "x" * 1_000 + "/a", "p"), ("p/" + "\u00e4" * 500 + "/b/a", "p"), ("x" * 1_024, "")],
)
def test_a_probe_fits_however_long_the_key_is(key: str, folder: str) -> None:
    """A server refuses longer keys, and would be taken for one that heeds no conditions."""
    probe = probe_beside(key)
    assert probe.rpartition("/")[0] == folder
    assert len(probe.encode()) <= 1_024


@pytest.mark.parametrize(
    "answers",
    [
        (CREATED, delete_all, delete_all, GONE),  # it ignores them
        (CREATED, refuse_all, refuse_all, GONE),  # it never finds them met
        (CREATED, error(400, "MalformedXML"), error(400, "MalformedXML"), GONE),
        (error(403, "AccessDenied"),),  # nothing may be written there
    ],
)
def test_a_server_that_does_not_heed_etags_gets_plain_deletes(
    scripted: ScriptedServer, store: S3Store, answers: tuple[Script, ...]
) -> None:
    scripted.play(*answers, delete_all, delete_all)
    for _ in range(2):
        assert store.delete(["k"], [LISTED])[0].outcome is Outcome.DELETED
    assert not store.capabilities.verified_deletes
    assert not any(b"ETag" in request for request in scripted.requests[-2:])


@pytest.mark.parametrize("answer", [error(503, "SlowDown"), error(500, "InternalError")])
def test_a_probe_without_an_answer_says_nothing(
    scripted: ScriptedServer, store: S3Store, answer: bytes
) -> None:
    scripted.play(answer, CREATED, refuse_all, delete_all, GONE, refuse_all)
    with pytest.raises((ThrottledError, UnavailableError)):
        store.delete(["k"], [LISTED])
    assert store.delete(["k"], [LISTED])[0].outcome is Outcome.CHANGED


def test_single_deletes_have_conditions_of_their_own(moto: S3Server) -> None:
    store = S3Store(bucket_of(moto), moto.options(delete_batch=1))
    for key in ("same", "changed"):
        store.write(key, b"1")
    listed = [expected_of(store.head(key)) for key in ("same", "changed")]
    store.write("changed", b"2")
    outcomes = store.delete(["same"], listed[:1]), store.delete(["changed"], listed[1:])
    assert [one.outcome for (one,) in outcomes] == [Outcome.DELETED, Outcome.CHANGED]
    assert store.list("").entries["key"].to_pylist() == ["changed"]


def test_a_server_that_ignores_conditions_is_not_believed(moto: S3Server) -> None:
    store = S3Store(bucket_of(moto), moto.options())
    store.write("a", b"1")
    assert store.delete(["a"], [LISTED])[0].outcome is Outcome.DELETED
    assert not store.capabilities.verified_deletes
    assert store.list("").entries.num_rows == 0


# ── moves


def test_a_move_is_a_copy_of_what_was_seen_and_then_a_delete(
    scripted: ScriptedServer, store: S3Store
) -> None:
    stored = head(storage_class="STANDARD_IA")
    heeded = (CREATED, error(412, "PreconditionFailed"), GONE, GONE)
    scripted.play(stored, MISSING, COPIED, head(), *heeded, GONE)
    store.move("a", "b", LISTED)
    assert [line.split("-probe-")[0] for line in scripted.targets] == [
        "HEAD /bucket/a",
        "HEAD /bucket/b",
        "PUT /bucket/b",
        "HEAD /bucket/b",
        "PUT /bucket/.lakesweep",
        "DELETE /bucket/.lakesweep",
        "DELETE /bucket/.lakesweep",
        "DELETE /bucket/.lakesweep",
        "DELETE /bucket/a",
    ]
    copy, removal = scripted.requests[2], scripted.requests[8]
    for header in (
        b"x-amz-copy-source: /bucket/a",
        b'x-amz-copy-source-if-match: "abc"',
        b"x-amz-storage-class: STANDARD_IA",
        b"If-None-Match: *",
    ):
        assert header + b"\r\n" in copy
    assert b'If-Match: "abc"\r\n' in removal


#: How a server that heeds no conditions answers to a probe.
IGNORED = (CREATED, GONE, GONE, GONE)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((MISSING,), MissingError),
        ((head(etag="new"),), ChangedError),
        ((head(), head()), ExistsError),
        ((head(), MISSING, error(412, "PreconditionFailed"), head()), ExistsError),
        ((head(), MISSING, error(412, "PreconditionFailed"), MISSING), ChangedError),
        ((head(), MISSING, error(404, "NoSuchKey")), MissingError),
        ((head(), MISSING, COPIED, head(size=3)), StorageError),
        ((head(), MISSING, COPIED, MISSING), UnavailableError),
        ((head(), MISSING, error(403, "InvalidObjectState", "archived")), StorageError),
        ((head(), MISSING, error(403, "AccessDenied")), DeniedError),
    ],
)
def test_a_move_that_cannot_be_made_deletes_nothing(
    scripted: ScriptedServer,
    store: S3Store,
    answers: tuple[bytes, ...],
    expected: type[LakesweepError],
) -> None:
    scripted.play(*answers)
    with pytest.raises(expected) as caught:
        store.move("a", "b", LISTED)
    assert type(caught.value) is expected
    assert "DELETE /bucket/a" not in scripted.targets
    assert scripted.answers == []


def test_a_server_without_conditional_copies_gets_a_plain_one(
    scripted: ScriptedServer, store: S3Store
) -> None:
    copying = (MISSING, error(501, "NotImplemented"), COPIED, head())
    scripted.play(head(), *copying, *IGNORED, GONE)
    store.move("a", "b", LISTED)
    assert [b"If-None-Match" in request for request in scripted.requests[2:4]] == [True, False]


def test_a_source_that_cannot_be_deleted_keeps_its_copy(
    scripted: ScriptedServer, store: S3Store
) -> None:
    scripted.play(head(), MISSING, COPIED, head(), *IGNORED, error(403, "AccessDenied"))
    with pytest.raises(DeniedError, match="was copied but could not be deleted"):
        store.move("a", "b", LISTED)
    assert scripted.targets[-1] == "DELETE /bucket/a"


# ── versions


@pytest.mark.parametrize(
    ("versioning", "kept"), [("Enabled", True), ("Suspended", False), (None, False)]
)
def test_versions_are_kept_only_while_versioning_is_on(
    moto: S3Server, versioning: str | None, kept: bool
) -> None:
    store = S3Store(bucket_of(moto, versioning=versioning), moto.options())
    assert store.keeps_versions() is kept


@pytest.mark.parametrize(
    "answer", [error(403, "AccessDenied"), error(501, "NotImplemented"), error(400, "Odd")]
)
def test_a_bucket_that_will_not_say_is_taken_to_keep_nothing(
    scripted: ScriptedServer, store: S3Store, answer: bytes
) -> None:
    scripted.play(answer)
    assert not store.keeps_versions()
    with pytest.raises(UnsupportedError):
        store.undelete("k")
    assert scripted.targets == ["GET /bucket?versioning="]


def test_no_answer_is_not_remembered(scripted: ScriptedServer, store: S3Store) -> None:
    on = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    scripted.play(error(503, "SlowDown"), http(200, on))
    with pytest.raises(ThrottledError):
        store.keeps_versions()
    assert store.keeps_versions()


@pytest.mark.parametrize("status", ["Enabled", "Suspended"])
@pytest.mark.parametrize("key", ["a\x01b +%41", "a b+c"])
def test_only_markers_of_exactly_this_key_are_removed(
    scripted: ScriptedServer, store: S3Store, key: str, status: str
) -> None:
    told = f"<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>"
    spelled = "a%01b+%2B%2541" if "\x01" in key else key
    marker = (
        "<DeleteMarker><Key>{}</Key><VersionId>{}</VersionId><IsLatest>{}</IsLatest></DeleteMarker>"
    )
    version = (
        "<Version><Key>{}</Key><VersionId>{}</VersionId><IsLatest>{}</IsLatest>"
        "<Size>4</Size><ETag>&quot;abc&quot;</ETag></Version>"
    )
    others = marker.format(spelled + "2", "m9", "true")
    first = marker.format(spelled, "m2", "true") + version.format(spelled, "v1", "false")
    last = version.format(spelled, "v1", "true") + marker.format(spelled, "m0", "false")
    pages = (_versions(first + others), GONE, _versions(last + others))
    scripted.play(http(200, told.encode()), *pages)
    store.undelete(key, LISTED)
    removed = [line for line in scripted.targets if line.startswith("DELETE")]
    assert [line.rpartition("?")[2] for line in removed] == ["versionId=m2"]


def test_markers_that_do_not_go_are_not_removed_for_ever(
    scripted: ScriptedServer, store: S3Store
) -> None:
    on = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    page = _versions(
        "<DeleteMarker><Key>k</Key><VersionId>m1</VersionId><IsLatest>true</IsLatest>"
        "</DeleteMarker><Version><Key>k</Key><VersionId>v1</VersionId><IsLatest>false</IsLatest>"
        "<Size>4</Size><ETag>&quot;abc&quot;</ETag></Version>"
    )
    scripted.play(http(200, on), page, GONE, page)
    with pytest.raises(StorageError, match="delete markers stay"):
        store.undelete("k", LISTED)


def _versions(content: str) -> bytes:
    return http(200, f"<ListVersionsResult>{content}</ListVersionsResult>".encode())


# ── quarantine


FILES = {"t/a": b"a", "t//b": b"bb", "t/%2Fc d": b"ccc", "t/\u2603": b""}


@pytest.fixture(params=["moto", "versioned", "rclone"])
def lake(request: pytest.FixtureRequest) -> tuple[Stores, str]:
    """Stores as programs open them, and a location with files of odd names."""
    kind = request.param
    server: S3Server = request.getfixturevalue("rclone" if kind == "rclone" else "moto")
    bucket = bucket_of(server, versioning="Enabled" if kind == "versioned" else None)
    stores = Stores({f"s3://{bucket}": server.options()})
    store = stores.open(f"s3://{bucket}")
    for name, data in FILES.items():
        if kind != "rclone" or "//" not in name:
            store.write(f"lake/{name}", data)
    return stores, f"s3://{bucket}/lake"


def paths(stores: Stores, location: str) -> list[str]:
    batches = list_files(stores, location + "/")
    return sorted(path for batch in batches for path in batch["path"].to_pylist())


def listed(stores: Stores, location: str) -> pa.RecordBatch:
    table = pa.Table.from_batches(list_files(stores, location + "/"), FILE_SCHEMA)
    return table.sort_by("path").combine_chunks().to_batches()[0]


def content(stores: Stores, files: pa.RecordBatch) -> dict[str, bytes]:
    store = stores.open(files["path"][0].as_py())
    keys = [path.split("/", 3)[3] for path in files["path"].to_pylist()]
    return {key: store.read(key) for key in keys}


def places_of(location: str) -> QuarantineFolders:
    return QuarantineFolders.of([(location, f"{location}/_lakesweep/quarantine/plan-1")])


def outcomes(batches: Iterable[pa.RecordBatch]) -> set[str]:
    return {outcome for batch in batches for outcome in batch["outcome"].to_pylist()}


def test_files_go_and_come_back_on_every_server(lake: tuple[Stores, str]) -> None:
    stores, location = lake
    places, files = places_of(location), listed(stores, location)
    before = content(stores, files)
    for _ in range(2):  # a second attempt at any step changes nothing
        assert outcomes(quarantine_files(stores, [files], places)) == {"quarantined"}
    assert not set(files["path"].to_pylist()) & set(paths(stores, location))
    (held,) = held_files(stores, [files], places)
    for _ in range(2):
        assert outcomes(restore_files(stores, [held])) == {"restored"}
    assert content(stores, files) == before
    assert paths(stores, location) == files["path"].to_pylist()


def test_the_hold_ends_on_every_server(lake: tuple[Stores, str]) -> None:
    stores, location = lake
    files = listed(stores, location)
    done = list(quarantine_files(stores, [files], places_of(location)))
    way = done[0]["way"][0].as_py()
    assert outcomes(empty_quarantine(stores, done)) == {"held" if way == "marker" else "deleted"}
    assert paths(stores, location) == []
    back = outcomes(restore_files(stores, done))
    assert back == {"restored" if way == "marker" else "absent"}


@pytest.mark.parametrize("is_held", [False, True])
def test_what_was_written_again_with_the_same_bytes_stays(
    lake: tuple[Stores, str], is_held: bool
) -> None:
    """Its ETag is the same, and some servers ignore even that. It is new, and may be in use."""
    stores, location = lake
    store = stores.open(location)
    for number in range(5):
        store.write(f"lake/t/same-{number}", b"the same")
    files = listed(stores, location)
    again = pc.match_substring(files["path"], "same-")
    earlier = pc.subtract(files["modified"], pa.scalar(3_600_000_000, pa.duration("us")))
    modified = pc.if_else(again, earlier, files["modified"])
    batch = files.set_column(files.schema.get_field_index("modified"), "modified", modified)
    if is_held:
        done = quarantine_files(stores, [batch], places_of(location))
    else:
        done = delete_files(stores, [batch], verify=True)
    outcome = [each for one in done for each in one["outcome"].to_pylist()]
    gone = {"quarantined" if is_held else "deleted"}
    assert {
        each for each, is_same in zip(outcome, again.to_pylist(), strict=True) if not is_same
    } == gone
    assert {
        path.rpartition("/")[2]
        for path in paths(stores, location)
        if "/t/" in path and "_lakesweep" not in path
    } == {f"same-{number}" for number in range(5)}
