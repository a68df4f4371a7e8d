"""Java reads our commits to tables whose manifests it writes in ORC or in Parquet."""

from __future__ import annotations

from pathlib import Path

from tests.command import Lakesweep
from tests.readers.readers import java_rows, spark_rows

FORMATS = ("orc", "parquet")
#: Append-only, with an index of buckets, and with deletion vectors.
KINDS = {
    "append": "'manifest.merge-min-count'='2'",
    "hashed": "'primary-key'='dt,id', 'bucket'='-1'",
    "vectors": "'primary-key'='dt,id', 'bucket'='1', 'deletion-vectors.enabled'='true'",
}
NAMES = [f"{kind}_{form}" for kind in KINDS for form in FORMATS]
TABLES = [f"db.{name}" for name in NAMES]


def _statements() -> str:
    made = ["CREATE DATABASE paimon.db"]
    for name in NAMES:
        kind, _, form = name.partition("_")
        table = f"paimon.db.{name}"
        made.append(
            f"CREATE TABLE {table} (id INT, v INT, dt STRING) PARTITIONED BY (dt) "
            f"TBLPROPERTIES ('manifest.format'='{form}', {KINDS[kind]})"
        )
        made += [
            f"INSERT INTO {table} VALUES (1, {turn}, 'x'), ({turn}, 2, 'y'), (3, {turn}, 'z')"
            for turn in range(2)
        ]
    return ";".join(made)


def test_java_reads_and_goes_on(lakesweep: Lakesweep, tmp_path: Path) -> None:
    before = spark_rows(tmp_path, TABLES, _statements())
    commits = {}
    for name in NAMES:
        words = ["paimon", "drop-partition", str(tmp_path / "db.db" / name), "dt=x", "--yes"]
        done = lakesweep(*words)
        assert done.code == 0, done.err
        commits[f"db.{name}"] = done.document["snapshot"]
    added = ";".join(f"INSERT INTO paimon.{name} VALUES (9, 9, 'x')" for name in TABLES)
    after = spark_rows(tmp_path, TABLES, added)
    for name, number in commits.items():
        newest = before[name][f"snapshot-{number - 1}"]
        left = [row for row in newest if row["dt"] != "x"]
        assert 0 < len(left) < len(newest)
        expected = {**before[name], f"snapshot-{number}": left}
        assert {owner: after[name][owner] for owner in expected} == expected
        last = max(int(owner.partition("-")[2]) for owner in after[name])
        assert last > number
        assert [row for row in after[name][f"snapshot-{last}"] if row["dt"] != "x"] == left
    # Newer Java reads no Parquet of 0.9, whoever wrote the last of it.
    of_orc = [name for name in TABLES if name.endswith("orc")]
    assert java_rows(tmp_path, of_orc) == {name: after[name] for name in of_orc}
