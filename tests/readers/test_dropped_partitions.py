"""Others read the partitions that we dropped as dropped, and everything else as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.command import Lakesweep
from tests.readers.readers import Rows, java_rows, pypaimon_rows, spark_rows

Row = Mapping[str, str]

#: Specs that are dropped, and whether a row was in one of these partitions.
DROPS: dict[str, tuple[list[str], Callable[[Row], bool]]] = {
    "shop.append_date": (["day=2020-03-01"], lambda row: row["day"] == "2020-03-01"),
    "shop.append_dt": (
        ["dt=2021-03-02", "dt=__DEFAULT_PARTITION__"],
        lambda row: row["dt"] in ("2021-03-02", "None"),
    ),
    "shop.append_dt_hr": (
        ["hr=03", "dt=2021-03-01,hr=17"],
        lambda row: row["hr"] == "03" or (row["dt"], row["hr"]) == ("2021-03-01", "17"),
    ),
    "shop.append_int": (["p=-4", "p=2"], lambda row: row["p"] in ("-4", "2")),
    "shop.data_dir": (["dt=2021-03-01"], lambda row: row["dt"] == "2021-03-01"),
    "shop.dropped_parts": (["dt=2021-03-02"], lambda row: row["dt"] == "2021-03-02"),
    "shop.expire_auto": (["p=0"], lambda row: row["p"] == "0"),
    "shop.index_in_data": (["dt=2021-03-02"], lambda row: row["dt"] == "2021-03-02"),
    "shop.merged_manifests": (["p=1"], lambda row: row["p"] == "1"),
    "shop.odd_parts": (
        ["k=x/y", "k=100%", "k=k=v", "k=%252F", "k=a b", "k="],
        lambda row: row["k"] in ("x/y", "100%", "k=v", "%2F", "a b", ""),
    ),
    "shop.overwritten": (["dt=2021-03-02"], lambda row: row["dt"] == "2021-03-02"),
    "shop.pk_dynamic": (["dt=2021-03-01"], lambda row: row["dt"] == "2021-03-01"),
    "shop09.s_append": (["dt=2020-01-02"], lambda row: row["dt"] == "2020-01-02"),
    "shop09.s_dyn": (["dt=2020-01-01"], lambda row: row["dt"] == "2020-01-01"),
}


def _folder(warehouse: Path, name: str) -> Path:
    database, _, table = name.partition(".")
    return warehouse / f"{database}.db" / table


def _drop(lakesweep: Lakesweep, warehouse: Path) -> dict[str, str]:
    """Drop what DROPS says; the snapshot of each table that did it."""
    commits = {}
    for name, (specs, _) in DROPS.items():
        table = str(_folder(warehouse, name))
        done = lakesweep("paimon", "drop-partition", table, *specs, "--yes")
        assert done.code == 0, done.err
        commits[name] = f"snapshot-{done.document['snapshot']}"
    return commits


def _check(before: Rows, after: Rows, commits: Mapping[str, str]) -> None:
    for name in before:
        _, is_dropped = DROPS[name]
        newest = before[name]["tag-before"]
        left = [row for row in newest if not is_dropped(row)]
        assert len(left) < len(newest)
        assert after[name] == {**before[name], commits[name]: left}


#: pypaimon reads no manifests of Java 0.9, whoever wrote the last of them.
OF_PYPAIMON = [name for name in DROPS if name.startswith("shop.")]
#: Java 0.9 does not know of folders for data.
OF_JAVA = [name for name in DROPS if name != "shop.data_dir"]


@pytest.mark.parametrize(
    ("read", "names"),
    [(pypaimon_rows, OF_PYPAIMON), (spark_rows, OF_JAVA), (java_rows, list(DROPS))],
)
def test_readers_see_the_drop_and_all_of_the_past(
    lakesweep: Lakesweep, warehouse: Path, read: Callable[..., Rows], names: list[str]
) -> None:
    before = read(warehouse, names)
    commits = _drop(lakesweep, warehouse)
    _check(before, read(warehouse, names), commits)


def test_java_commits_on_top_of_our_commits(lakesweep: Lakesweep, warehouse: Path) -> None:
    _drop(lakesweep, warehouse)
    ours = pypaimon_rows(warehouse, ["shop.append_dt"])["shop.append_dt"]
    table = "paimon.shop.append_dt"
    statements = f"""
        ALTER TABLE {table} DROP PARTITION (dt = '2021-03-01');
        INSERT INTO {table} SELECT * FROM {table} WHERE dt = '2021-03-03'
    """
    java = spark_rows(warehouse, ["shop.append_dt"], statements)["shop.append_dt"]
    left = [row for row in ours["snapshot-9"] if row["dt"] != "2021-03-01"]
    again = [row for row in left if row["dt"] == "2021-03-03"]
    assert java["snapshot-10"] == left
    assert len(java["snapshot-11"]) == len(left) + len(again)
