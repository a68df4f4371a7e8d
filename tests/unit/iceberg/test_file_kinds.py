from __future__ import annotations

import pyarrow as pa
import pytest

from lakesweep.iceberg.file_kinds import kinds_by_name, metadata_version


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("00003-5c2f.metadata.json", "metadata"),
        ("v3.gz.metadata.json", "metadata"),
        ("v3.metadata.json.gz", "metadata"),
        ("version-hint.text", "version-hint"),
        ("snap-123-1-5c2f.avro", "manifest-list"),
        ("5c2f-m0.avro", "manifest"),
        ("5c2f-m12.parquet", "manifest"),
        ("stage-3-task-4-manifest-5c2f.avro", "manifest"),
        ("123-5c2f.stats", "statistics"),
        ("partition-stats-123-5c2f.parquet", "partition-statistics"),
        ("00000-1-5c2f-00001-deletes.puffin", "deletion-vector"),
        ("00000-1-5c2f-00001-deletes.parquet", "position-delete"),
        ("00000-1-5c2f-00001.parquet", "data"),
        ("part.orc", "data"),
        ("_SUCCESS", None),
        ("readme.txt", None),
    ],
)
def test_names_suggest_kinds(name: str, kind: str | None) -> None:
    paths = pa.array([f"s3://lake/t/x/{name}"])
    assert kinds_by_name(paths).to_pylist() == [kind]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("00003-5c2f.metadata.json", 3),
        ("v12.gz.metadata.json", 12),
        ("v3.metadata.json.gz", 3),
        ("x.metadata.json", None),
        ("00003-5c2f.json", None),
    ],
)
def test_names_of_metadata_have_versions(name: str, version: int | None) -> None:
    assert metadata_version(f"s3://lake/t/metadata/{name}") == version
