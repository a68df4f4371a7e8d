from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.clock import micros
from lakesweep.marks.columns import RootFacts
from lakesweep.sweep.judge.orphan_causes import TableHistory, guess_causes, table_history
from lakesweep.sweep.paths.file_names import FileNames
from lakesweep.sweep.paths.folder_map import FolderMap

OLD, MIDDLE, NEW = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 3, 5))
TABLES = FolderMap([("s3://b/live/", "live"), ("s3://b/bare/", "bare")])
FACTS = RootFacts(
    location="s3://b/live",
    oldest_version=7,
    oldest_snapshot_ms=micros(MIDDLE) // 1000,
)
HISTORY = table_history(TABLES, {"live": FACTS}, snapshots=("42", str(2**63 - 1)))


def guessed(path: str, modified: datetime = NEW, history: TableHistory = HISTORY) -> str:
    paths = pa.array([path])
    times = np.array([micros(modified)])
    answer: str = guess_causes(FileNames(paths), times, TABLES.find(paths), history)[0].as_py()
    return answer


class TestOfALiveTable:
    def test_metadata_that_the_log_reaches_was_never_committed(self) -> None:
        for name in ("00007-a", "00008-a", "v9", "v8.gz"):
            assert guessed(f"s3://b/live/metadata/{name}.metadata.json") == "failed-commit"

    def test_metadata_beyond_the_log_is_old(self) -> None:
        for name in ("00006-a", "v1", "odd", "99999999999999999999-a"):
            assert guessed(f"s3://b/live/metadata/{name}.metadata.json") == "old-metadata"

    def test_metadata_without_a_log_is_old(self) -> None:
        assert guessed("s3://b/bare/metadata/00009-a.metadata.json") == "old-metadata"

    def test_a_list_of_a_known_snapshot_is_that_of_another_attempt(self) -> None:
        for number in (42, 2**63 - 1):
            path = f"s3://b/live/metadata/snap-{number}-2-a.avro"
            assert guessed(path, OLD) == "failed-commit"

    @pytest.mark.parametrize("name", ["snap-43-1-a.avro", "a-m0.avro"])
    def test_lists_and_manifests_are_told_by_their_age(self, name: str) -> None:
        assert guessed(f"s3://b/live/metadata/{name}", OLD) == "expired-snapshot"
        assert guessed(f"s3://b/live/metadata/{name}", NEW) == "failed-commit"
        assert guessed(f"s3://b/bare/metadata/{name}", OLD) == "failed-commit"

    @pytest.mark.parametrize("name", ["a.parquet", "a-deletes.parquet", "a-deletes.puffin"])
    def test_data_and_deletes_are_told_by_their_age(self, name: str) -> None:
        assert guessed(f"s3://b/live/data/{name}", OLD) == "expired-snapshot"
        assert guessed(f"s3://b/live/data/{name}", NEW) == "aborted-write"
        assert guessed(f"s3://b/bare/data/{name}", OLD) == "aborted-write"

    @pytest.mark.parametrize("name", ["{}-a.stats", "partition-stats-{}-a.parquet"])
    def test_statistics_are_told_by_their_snapshot(self, name: str) -> None:
        assert guessed("s3://b/live/metadata/" + name.format(42)) == "old-metadata"
        assert guessed("s3://b/live/metadata/" + name.format(43)) == "expired-snapshot"

    def test_a_version_hint_is_old(self) -> None:
        assert guessed("s3://b/live/metadata/version-hint.text") == "old-metadata"


class TestOfNoTable:
    @pytest.mark.parametrize("name", ["data/a.parquet", "metadata/v1.metadata.json", "a-m0.avro"])
    def test_known_kinds_are_of_a_dropped_one(self, name: str) -> None:
        assert guessed(f"s3://b/gone/{name}") == "dropped-table"

    def test_other_files_are_unknown(self) -> None:
        assert guessed("s3://b/gone/readme.txt") == "unknown"


@pytest.mark.parametrize("folder", ["live", "gone"])
def test_temporary_files_are_so_anywhere(folder: str) -> None:
    assert guessed(f"s3://b/{folder}/data/_temporary/0/a.parquet") == "temporary"


def test_without_facts_it_guesses_all_the_same() -> None:
    assert guessed("s3://b/live/data/a.parquet", OLD, TableHistory()) == "aborted-write"
    assert guessed("s3://b/live/metadata/v1.metadata.json", OLD, TableHistory()) == "old-metadata"
