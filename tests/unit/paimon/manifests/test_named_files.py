"""Sidecars that name packs, byte by byte."""

from __future__ import annotations

import struct
import zlib

import pytest

from lakesweep.errors import DamagedError, TruncatedError
from lakesweep.paimon.manifests.named_files import parse_blob_references


def sidecar(*texts: bytes, count: int | None = None, version: int = 1) -> bytes:
    """A sidecar with a right checksum, whatever it holds."""
    content = struct.pack(">Bi", version, len(texts) // 2 if count is None else count)
    content += b"".join(struct.pack(">H", len(text)) + text for text in texts)
    return b"PBLR" + content + struct.pack(">I", zlib.crc32(content))


def test_a_sidecar_names_packs_by_folder_and_name() -> None:
    data = sidecar(b"s3://b/t/bucket-0", b"data-a.managed.blob", b"file:/x", b"data-b.managed.blob")
    assert parse_blob_references("x", data) == [
        "s3://b/t/bucket-0/data-a.managed.blob",
        "file:/x/data-b.managed.blob",
    ]


def test_a_sidecar_may_name_none() -> None:
    assert parse_blob_references("x", sidecar()) == []


def test_the_bytes_are_those_that_java_writes() -> None:
    written = "50424c52 01 00000001 0004 66 3a 2f 61 0003 622e63".replace(" ", "")
    content = bytes.fromhex(written)[4:]
    data = bytes.fromhex(written) + struct.pack(">I", zlib.crc32(content))
    assert parse_blob_references("x", data) == ["f:/a/b.c"]


def test_names_are_in_modified_utf8() -> None:
    smile = b"\xed\xa0\xbd\xed\xb8\x80"  # two surrogates, as Java writes them
    data = sidecar(b"/w/" + smile, b"caf\xc3\xa9\xc0\x80.blob")
    assert parse_blob_references("x", data) == ["/w/\N{GRINNING FACE}/café\0.blob"]


@pytest.mark.parametrize("size", [0, 4, 12])
def test_what_is_too_short_is_truncated(size: int) -> None:
    with pytest.raises(TruncatedError):
        parse_blob_references("x", sidecar()[:size])


@pytest.mark.parametrize(
    "data",
    [
        b"PBLX" + sidecar()[4:],
        sidecar(version=2),
        sidecar(count=-1),
        sidecar(count=1),
        sidecar(b"only a folder", count=1),
        sidecar(b"/a", b"\xff", count=1),
        sidecar(b"/a", b"\xed\xa0\xbd", count=1),
        sidecar(b"/a", b"b")[:-1] + b"?",
        sidecar(b"/a", b"b")[:-5] + sidecar()[-4:],
    ],
)
def test_what_contradicts_itself_is_damaged(data: bytes) -> None:
    with pytest.raises(DamagedError):
        parse_blob_references("x", data)
