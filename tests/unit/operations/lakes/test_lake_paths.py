"""A path that a user types is looked for in the lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.operations.lakes.lake_paths import lake_path

LOCATIONS = ("s3://lake/warehouse", "s3://lake/other/")


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("shop/a.parquet", "s3://lake/warehouse/shop/a.parquet"),
        ("/shop/a.parquet", "s3://lake/warehouse/shop/a.parquet"),
        ("shop/a.parquet", "s3://lake/other/shop/a.parquet"),
        ("other/shop/a.parquet", "s3://lake/other/shop/a.parquet"),
        ("s3a://lake/other/a.parquet", "s3a://lake/other/a.parquet"),
    ],
)
def test_a_key_is_looked_for_in_the_lake(typed: str, stored: str) -> None:
    assert lake_path(LOCATIONS, typed, lambda path: path == stored) == stored


def test_what_is_nowhere_is_named_in_the_lake() -> None:
    assert lake_path(LOCATIONS, "a/b", lambda _: False) == "s3://lake/warehouse/a/b"


def test_a_path_below_a_local_lake_is_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path.resolve()
    (here / "lake" / "t").mkdir(parents=True)
    monkeypatch.chdir(here / "lake" / "t")
    stored = f"{here}/lake/t/a.parquet"
    for typed in ("a.parquet", "../t/a.parquet", "t/a.parquet", "./a.parquet"):
        assert lake_path((f"{here}/lake",), typed, lambda path: path == stored) == stored
