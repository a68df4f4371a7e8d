"""The folders of Lakesweep's own files that a listing shows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakesweep.sweep.judge.live_set import home_folders


@pytest.mark.parametrize(
    ("path", "homes"),
    [
        ("s3://b/wh/_lakesweep/locks/apply-1", ["s3://b/wh/_lakesweep/"]),
        ("s3://b/wh/_lakesweep/a/_lakesweep/b", ["s3://b/wh/_lakesweep/"]),
        ("s3://b/repo/_lakefs/retention/lc/locks/apply-1", ["s3://b/repo/_lakefs/retention/lc/"]),
        ("s3://b/repo/_lakefs/retention/gc/run", []),
        ("s3://b/my_lakesweep/locks/apply-1", []),
    ],
)
def test_homes_of_lakes_and_repositories_are_found(path: str, homes: list[str]) -> None:
    assert home_folders(pa.array([path, f"{path}-too", "s3://b/other"])) == homes
