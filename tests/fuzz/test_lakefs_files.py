"""Damaged files of lakeFS are read, or refused by name. Nothing else happens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from lakesweep.errors import FormatError
from lakesweep.lakefs.ranges.reader import decode_metarange, decode_range
from lakesweep.lakefs.refs.dumps import decode_branch, decode_commit, decode_tag, parse_manifest
from tests.fuzz.damage import damaged, damaged_document
from tests.fuzz.samples import samples
from tests.random_tests import Cases

_TABLES = r"/_lakefs/[0-9a-f]{64}$"


@pytest.mark.parametrize("decode", [decode_range, decode_metarange])
def test_ranges(cases: Cases, decode: Callable[[str, bytes, str | None], object]) -> None:
    files = samples("lakefs", _TABLES)
    for chance in cases(1_000):
        with suppress(FormatError):
            decode("range", damaged(chance.choice(files), chance, files), None)


@pytest.mark.parametrize("decode", [decode_commit, decode_branch, decode_tag])
def test_refs(cases: Cases, decode: Callable[[str, bytes], object]) -> None:
    # The records lie uncompressed or in small blocks of the same files.
    files = samples("lakefs", _TABLES)
    for chance in cases(1_000):
        data = chance.choice(files)
        first = chance.randrange(len(data))
        with suppress(FormatError):
            decode("refs", damaged(data[first : first + chance.randrange(300)], chance, files))


def test_dump_manifests(cases: Cases) -> None:
    document = {f"{kind}_meta_range_id": "0" * 64 for kind in ("commits", "branches", "tags")}
    for chance in cases(500):
        with suppress(FormatError):
            parse_manifest("refs_manifest.json", damaged_document(document, chance))
