from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from lakesweep.errors import DamagedError, FormatError, LakesweepError, LimitError, TruncatedError
from lakesweep.lakefs.refs.dumps import parse_manifest
from lakesweep.runs.fencing import RunFence
from lakesweep.storage.datasets.reader import load_dataset
from lakesweep.storage.listing.inventory import open_inventory
from lakesweep.storage.stores import Stores
from lakesweep.sweep.mark.marks import load_marks
from lakesweep.untrusted.documents import (
    LARGEST_LONG,
    Long,
    PathText,
    Size,
    decode_json,
    inflate_gzip,
    parse_long,
)
from lakesweep.untrusted.limits import ReadLimits

_PATH = "s3://lake/t/metadata/v1.metadata.json"


class _Text(msgspec.Struct):
    number: Long | None = None
    size: Size | None = None
    path: PathText | None = None
    anything: Any = None


def test_a_gzip_bomb_is_refused_before_it_is_inflated() -> None:
    bomb = gzip.compress(bytes(8 << 20))
    with pytest.raises(LimitError, match=r"v1.metadata.json: inflates to more than 65,536 bytes"):
        inflate_gzip(_PATH, bomb, ReadLimits(inflated_bytes=2**16))


def test_a_limit_names_the_setting_that_raises_it() -> None:
    with pytest.raises(LimitError) as caught:
        inflate_gzip(_PATH, gzip.compress(bytes(2**17)), ReadLimits(inflated_bytes=2**16))
    assert "limits.inflated_bytes" in caught.value.hint


def test_members_of_a_gzip_file_count_together() -> None:
    data = gzip.compress(b"a" * 60) * 2
    assert bytes(inflate_gzip(_PATH, data, ReadLimits(inflated_bytes=120))) == b"a" * 120
    with pytest.raises(LimitError):
        inflate_gzip(_PATH, data, ReadLimits(inflated_bytes=119))


def test_data_that_is_not_compressed_stays_as_it_is() -> None:
    assert inflate_gzip(_PATH, b"{}") == b"{}"


@pytest.mark.parametrize(
    "data", [b"", gzip.compress(b"{}", mtime=0)[:-3]], ids=["empty", "without its trailer"]
)
def test_what_ends_too_early_is_truncated(data: bytes) -> None:
    with pytest.raises(TruncatedError):
        inflate_gzip(_PATH, data)


@pytest.mark.parametrize(
    "text",
    [
        f'{{"number": {LARGEST_LONG + 1}}}',
        f'{{"number": {-LARGEST_LONG - 2}}}',
        '{"number": %s}' % ("9" * 5000),
        '{"anything": %s}' % ("9" * 5000),
        '{"anything": 1e400}',
        '{"size": -1}',
        f'{{"size": {LARGEST_LONG + 1}}}',
        r'{"path": "a\u0000b"}',
        '{"anything": "\udcff"}',
        '{"anything": %s' % ("[" * 100_000),
        "NaN",
        "",
    ],
)
def test_what_no_column_could_hold_is_refused_with_the_name_of_the_file(text: str) -> None:
    with pytest.raises(FormatError, match=r"v1\.metadata\.json"):
        decode_json(_PATH, text.encode(errors="surrogateescape"), _Text, "metadata")


def test_the_largest_numbers_are_read() -> None:
    found = decode_json(_PATH, b'{"number": %d, "size": 0}' % -(2**63), _Text, "metadata")
    assert (found, found.anything) == (_Text(-(2**63), 0), None)


def test_another_type_is_damage() -> None:
    with pytest.raises(DamagedError, match="is not metadata"):
        decode_json(_PATH, b'{"number": "1"}', _Text, "metadata")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-7", -7),
        (str(LARGEST_LONG), LARGEST_LONG),
        (str(LARGEST_LONG + 1), None),
        ("9" * 5000, None),
        ("", None),
        ("1e3", None),
        ("\N{ARABIC-INDIC DIGIT ONE}", None),
    ],
)
def test_digits_are_read_up_to_64_bits(text: str, number: int | None) -> None:
    assert parse_long(text) == number


def _fence(stores: Stores) -> None:
    RunFence(stores, "memory://deep/folder", "run", 1).check()


#: Files of ours that others can write, each with a reader.
OURS: dict[str, Callable[[Stores], object]] = {
    "_dataset.json": lambda stores: load_dataset(stores, "memory://deep/folder"),
    "marks.json": lambda stores: load_marks(stores, "memory://deep/folder"),
    "control.json": _fence,
    "dump.json": lambda stores: parse_manifest(
        "memory://deep/folder/dump.json", stores.open("memory://deep/").read("folder/dump.json")
    ),
    "manifest.json": lambda stores: open_inventory(stores, "memory://deep/folder/manifest.json"),
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("start", [b"[", b'{"version":', b'{"x":[', b'{"parts":[{"x":'])
def test_a_file_of_ours_that_is_nested_too_deeply_is_named(name: str, start: bytes) -> None:
    stores = Stores()
    stores.open("memory://deep/").write(f"folder/{name}", start * 100_000)
    with pytest.raises(LakesweepError) as caught:
        OURS[name](stores)
    assert caught.value.exit_code in (4, 5)
    assert "run" in caught.value.message if name == "control.json" else name in caught.value.message
