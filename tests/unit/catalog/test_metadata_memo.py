from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakesweep.catalog.metadata_memo import read_memo
from lakesweep.errors import FormatError, MissingError, UsageError
from lakesweep.storage.stores import Stores

TABLE = {
    "format-version": 2,
    "table-uuid": "9c12d441",
    "location": "s3://lake/t",
    "current-snapshot-id": 7,
    "snapshots": [{"snapshot-id": 7, "manifest-list": "s3://lake/t/metadata/l.avro"}],
    "properties": {"gc.enabled": "false", "write.data.path": "s3://lake/elsewhere"},
}
VIEW = {"format-version": 1, "view-uuid": "77", "location": "s3://lake/v"}


def write(folder: Path, document: object) -> str:
    path = folder / "v1.metadata.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_a_memo_says_what_the_file_says(tmp_path: Path) -> None:
    memo = read_memo(Stores({}), write(tmp_path, TABLE), view=False)
    assert (memo.uuid, memo.location, memo.format_version) == ("9c12d441", "s3://lake/t", 2)
    assert (memo.current_snapshot, memo.snapshots, memo.gc_enabled) == (7, 1, False)
    assert memo.write_paths == ("s3://lake/elsewhere",)
    assert memo.size_bytes > 0


def test_a_view_is_no_table(tmp_path: Path) -> None:
    path = write(tmp_path, VIEW)
    assert read_memo(Stores({}), path, view=True).snapshots == 0
    with pytest.raises(UsageError, match="metadata of a view, not of a table"):
        read_memo(Stores({}), path, view=False)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingError):
        read_memo(Stores({}), str(tmp_path / "none.json"), view=False)
    with pytest.raises(FormatError):
        read_memo(Stores({}), write(tmp_path, {"nothing": 1}), view=False)
