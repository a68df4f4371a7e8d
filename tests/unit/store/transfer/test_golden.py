"""Exports of format 1, as they were written once, are read and written for ever."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from lakesweep.clock import ManualClock
from lakesweep.store.transfer import ExportKind, import_realm
from tests.libraries import export_bytes, open_store
from tests.moments import NOON

_DATA = Path(__file__).parents[3] / "data"


def _path(kind: ExportKind) -> Path:
    return _DATA / f"export-{kind}.ndjson"


def _content(data: bytes) -> set[bytes]:
    """The lines but for the first, without their checksums, which depend on the order."""
    lines = data.splitlines()[1:]
    return {line[: line.rindex(b',"crc32"')] for line in lines}


@pytest.mark.parametrize("kind", list(ExportKind))
def test_what_was_exported_once_is_exported_again_after_an_import(kind: ExportKind) -> None:
    clock = ManualClock(NOON + timedelta(hours=1))
    store = open_store(clock=clock)
    import_realm(store, _path(kind), clock=clock)
    assert _content(export_bytes(store, kind=kind)) == _content(_path(kind).read_bytes())


@pytest.mark.parametrize("kind", list(ExportKind))
def test_the_first_line_says_the_same(kind: ExportKind) -> None:
    clock = ManualClock(NOON + timedelta(hours=1))
    store = open_store(clock=clock)
    import_realm(store, _path(kind), clock=clock)
    now, then = (
        msgspec.json.decode(data.splitlines()[0])
        for data in (export_bytes(store, kind=kind), _path(kind).read_bytes())
    )
    assert list(now) == list(then)
    assert {**now, "crc32": "", "export": ""} == {**then, "crc32": "", "export": ""}
