"""The XML of S3: what is read is complete, what is written is exact."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from lakesweep.storage.s3.xml_bodies import (
    BadAnswerError,
    ErrorBody,
    ObjectVersion,
    complete_body,
    delete_body,
    parse_deletions,
    parse_error,
    parse_page,
    parse_status,
    parse_text,
    parse_versions,
)

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
OBJECT = (
    "<Contents><Key>{}</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified>"
    "<ETag>&quot;abc-2&quot;</ETag><Size>12</Size><StorageClass>STANDARD</StorageClass></Contents>"
)
END = "<IsTruncated>false</IsTruncated>"


def listing(content: str, namespace: str = NAMESPACE) -> bytes:
    return f"<ListBucketResult {namespace}>{content}</ListBucketResult>".encode()


@pytest.mark.parametrize("namespace", [NAMESPACE, 'xmlns="urn:other"', ""])
def test_a_page_is_read_under_any_namespace(namespace: str) -> None:
    page = parse_page(listing(OBJECT.format("a%2Bb") + END, namespace))
    size_bytes, modified, etag = page.columns
    assert page.keys == ["a%2Bb"]
    assert size_bytes.to_pylist() == [12]
    assert modified.to_pylist() == [datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)]
    assert etag.to_pylist() == ["abc-2"]
    assert (page.encoded, page.token, page.folders) == (False, None, [])


def test_a_page_written_over_many_lines_is_read_the_same() -> None:
    indented = OBJECT.format("k").replace("><", ">\n    <")
    page = parse_page(listing(f"\n  {indented}\n  {END}\n"))
    assert page.keys == ["k"]
    assert page.columns[2].to_pylist() == ["abc-2"]


def test_spaces_at_the_ends_of_a_key_stay() -> None:
    assert parse_page(listing(OBJECT.format("  k \n") + END)).keys == ["  k \n"]


def test_folders_and_the_way_on_are_read() -> None:
    content = (
        "<Prefix>p/</Prefix><CommonPrefixes><Prefix>p/a%20/</Prefix></CommonPrefixes>"
        "<IsTruncated>true</IsTruncated><NextContinuationToken>t=</NextContinuationToken>"
        "<EncodingType>url</EncodingType><KeyCount>1</KeyCount>"
    )
    page = parse_page(listing(content))
    assert (page.keys, page.folders) == ([], ["p/a%20/"])
    assert (page.token, page.encoded) == ("t=", True)


def test_nanoseconds_are_cut_to_microseconds() -> None:
    content = OBJECT.format("k").replace(".678Z", ".123456789Z") + END
    assert parse_page(listing(content)).columns[1].to_pylist() == [
        datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
    ]


def test_what_not_every_object_has_is_unknown_for_the_whole_page() -> None:
    without = OBJECT.format("k").replace("<ETag>&quot;abc-2&quot;</ETag>", "")
    page = parse_page(listing(OBJECT.format("j") + without + END))
    assert page.keys == ["j", "k"]
    assert page.columns[2].to_pylist() == [None, None]
    assert page.columns[0].to_pylist() == [12, 12]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"no XML",
        listing(OBJECT.format("k") + END)[:-5],
        listing(OBJECT.format("k")),
        listing("<IsTruncated>maybe</IsTruncated>"),
        listing("<IsTruncated>true</IsTruncated>"),
        listing("<IsTruncated>false</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
        listing("<KeyCount>2</KeyCount>" + OBJECT.format("k") + END),
        listing(OBJECT.format("") + END),
        listing("<Contents><Size>1</Size></Contents>" + END),
        listing(OBJECT.format("k").replace("12", "twelve") + END),
        listing(OBJECT.format("k").replace("2026-01-02", "yesterday") + END),
        f"<Other {NAMESPACE}/>".encode(),
    ],
)
def test_a_page_that_is_not_complete_is_refused(body: bytes) -> None:
    with pytest.raises(BadAnswerError):
        parse_page(body)


def test_a_bare_carriage_return_makes_line_breaks_doubtful() -> None:
    assert parse_page(listing(OBJECT.format("a\rb") + END)).doubtful_breaks
    assert not parse_page(listing(OBJECT.format("a&#13;b") + END)).doubtful_breaks


def test_an_error_is_read_with_the_region_it_names() -> None:
    body = b"<Error><Code>C</Code><Message>m</Message><Region>eu-west-1</Region></Error>"
    assert parse_error(body) == ErrorBody("C", "m", "eu-west-1")
    assert str(parse_error(body)) == "C: m"


@pytest.mark.parametrize("body", [b"", b"<html></html>", b"<Error><Code>"])
def test_what_is_no_error_has_no_code(body: bytes) -> None:
    assert parse_error(body) == ErrorBody()


def test_both_halves_of_a_delete_result_are_read() -> None:
    body = (
        f"<DeleteResult {NAMESPACE}><Deleted><Key>a&#13;&amp;</Key></Deleted>"
        "<Error><Key>b</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
    )
    result = parse_deletions(body.encode())
    assert result.deleted == {"a\r&"}
    assert result.errors == {"b": ErrorBody("AccessDenied", "no")}


def test_the_keys_of_a_delete_come_back_from_a_parser_as_they_were() -> None:
    keys = ["a//b", " lead", "tab\t", "line\nfeed", "<&>\"'", "]]>", "é", "e\u0301", "\U0001f600"]
    root = ET.fromstring(delete_body(keys))
    assert [element.text for element in root.iter() if element.tag.endswith("Key")] == keys
    assert b"VersionId" not in delete_body(keys)
    assert b"Quiet" not in delete_body(keys)


def test_parts_are_completed_in_order() -> None:
    texts = [element.text for element in ET.fromstring(complete_body(['"x"', '"y"'])).iter()]
    assert [text for text in texts if text] == ["1", '"x"', "2", '"y"']


def test_a_wanted_text_that_is_missing_is_a_bad_answer() -> None:
    body = b"<CopyObjectResult><ETag>e</ETag></CopyObjectResult>"
    assert parse_text(body, "CopyObjectResult/ETag") == "e"
    with pytest.raises(BadAnswerError, match="no UploadId"):
        parse_text(body, "CopyObjectResult/UploadId")


def test_etags_stand_beside_their_keys() -> None:
    body = delete_body(["a&b", "c\td", "e"], ["abc-2", None, "<x>"])
    root = ET.fromstring(body)
    objects = [[(part.tag.rpartition("}")[2], part.text) for part in one] for one in root]
    assert objects == [
        [("Key", "a&b"), ("ETag", '"abc-2"')],
        [("Key", "c\td")],
        [("Key", "e"), ("ETag", '"<x>"')],
    ]
    assert b"c&#9;d" in body


@pytest.mark.parametrize("namespace", [NAMESPACE, ""])
def test_versions_and_markers_are_read_in_their_order(namespace: str) -> None:
    body = f"""<ListVersionsResult {namespace}>
      <DeleteMarker><Key>k</Key><VersionId>3</VersionId><IsLatest>true</IsLatest></DeleteMarker>
      <Version><Key>k</Key><VersionId>2</VersionId><IsLatest>false</IsLatest>
        <ETag>&quot;abc&quot;</ETag><Size>12</Size></Version>
      <Version><Key>k2</Key><VersionId>null</VersionId><IsLatest>true</IsLatest>
        <Size>0</Size></Version>
    </ListVersionsResult>"""
    assert parse_versions(body.encode()) == [
        ObjectVersion("k", "3", is_latest=True, is_marker=True, size_bytes=0, etag=None),
        ObjectVersion("k", "2", is_latest=False, is_marker=False, size_bytes=12, etag="abc"),
        ObjectVersion("k2", "null", is_latest=True, is_marker=False, size_bytes=0, etag=None),
    ]


@pytest.mark.parametrize(
    "content",
    [
        "<Version><Key>k</Key><Size>1</Size></Version>",
        "<Version><VersionId>1</VersionId><Size>1</Size></Version>",
        "<Version><Key>k</Key><VersionId>1</VersionId><Size>big</Size></Version>",
    ],
)
def test_a_version_that_says_too_little_is_refused(content: str) -> None:
    with pytest.raises(BadAnswerError):
        parse_versions(f"<ListVersionsResult>{content}</ListVersionsResult>".encode())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (f"<VersioningConfiguration {NAMESPACE}><Status>Enabled</Status>{{}}", "Enabled"),
        ("<GetBucketVersioningResponse><Status>Suspended</Status>{}", "Suspended"),
        ("<VersioningConfiguration>{}", ""),
    ],
)
def test_the_state_of_versioning_is_read_under_any_name(body: str, status: str) -> None:
    name = body[1:].split(">", maxsplit=1)[0].split(maxsplit=1)[0]
    assert parse_status(body.format(f"</{name}>").encode()) == status


@pytest.mark.parametrize("body", [b"", b"<Error><Code>AccessDenied</Code></Error>", b"<Versioning"])
def test_an_answer_without_a_state_is_refused(body: bytes) -> None:
    with pytest.raises(BadAnswerError):
        parse_status(body)


@pytest.mark.parametrize(
    "body",
    [
        b'<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;">]><ListBucketResult>&b;</ListBucketResult>',
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><ListBucketResult/>',
        '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE x><ListBucketResult/>'.encode("utf-16"),
    ],
    ids=["entities", "external", "utf-16"],
)
def test_a_document_type_is_refused(body: bytes) -> None:
    with pytest.raises(BadAnswerError, match="document type"):
        parse_page(body)


@pytest.mark.parametrize("size", ["9223372036854775808", "9" * 5_000, "-", "1e3", "٣x"])
def test_a_size_that_no_object_has_is_refused(size: str) -> None:
    page = (
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>k</Key>"
        f"<Size>{size}</Size></Contents></ListBucketResult>"
    )
    with pytest.raises(BadAnswerError):
        parse_page(page.encode())
    version = f"<Version><Key>k</Key><VersionId>1</VersionId><Size>{size}</Size></Version>"
    with pytest.raises(BadAnswerError):
        parse_versions(f"<ListVersionsResult>{version}</ListVersionsResult>".encode())
