"""A sweep with quarantine and restore, by the command line, on every server."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.storage.object_store import ObjectStore
from tests import iceberg_tables
from tests.clouds.servers import Cloud
from tests.command import Done, Lakesweep
from tests.iceberg_tables import Bucket, Table

_CONFIG = """\
{section}

[lakes.prod]
locations = ["{base}t"]
plans = "{base}plans"
grace = "0s"
unknown = "delete"

[[lakes.prod.roots]]
type = "iceberg-metadata"
files = ["{metadata}"]
"""
_LIVE = [f"t/data/live-{number}.parquet" for number in range(12)]
_ORPHANS = [
    *(f"t/data/orphan-{number}.parquet" for number in range(130)),
    *("t/data/odd %2F+é.parquet", "t/data/a=1/b&c#d.parquet", "t/metadata/lost.avro"),
]


class Lake:
    """One table in a bucket, and files that nothing references."""

    def __init__(self, cloud: Cloud, base: str, lakesweep: Lakesweep) -> None:
        self.store = cloud.store(base)
        self.base = base
        self.lakesweep = lakesweep

    def content(self) -> dict[str, bytes]:
        """What the table's folder holds, apart from Lakesweep's own files."""
        page = self.store.list("t/")
        assert page.next is None
        keys = page.entries["key"].to_pylist()
        return {key: self.store.read(key) for key in keys if "/_lakesweep/" not in key}

    def plan(self) -> str:
        done = self.lakesweep("plan", "prod", "--engine", "local")
        assert done.code == 0, done.err
        return str(done.document["plan"])

    def apply(self, plan: str, *words: str) -> Done:
        overrides = ("--override", "first-run", "--override", "grace", "--override", "share")
        return self.lakesweep("apply", plan, "--engine", "local", "--yes", *overrides, *words)


def fill(store: ObjectStore, base: str, patch: pytest.MonkeyPatch) -> str:
    """Write the table and the orphans; gives the address of the table's metadata."""
    patch.setattr(iceberg_tables, "BUCKET", base.rstrip("/"))
    memory = Bucket()
    table = Table(memory, "t")
    files = [table.data(key.rpartition("/")[2]) for key in _LIVE]
    table.snapshot(table.manifest("m1.avro", *files))
    metadata = table.commit()
    for key in memory.store.list("").entries["key"].to_pylist():
        store.write(key, memory.store.read(key))
    for key in (*_LIVE, *_ORPHANS):
        store.write(key, key.encode())
    return metadata


@pytest.fixture
def lake(
    cloud: Cloud,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Lake:
    base = cloud.make_bucket()
    metadata = fill(cloud.store(base), base, monkeypatch)
    config = tmp_path / "lakesweep.toml"
    config.write_text(_CONFIG.format(section=cloud.section(base), base=base, metadata=metadata))
    monkeypatch.chdir(tmp_path)
    return Lake(cloud, base, Lakesweep(capsys, config))


def test_orphans_are_set_aside_come_back_and_go(lake: Lake) -> None:
    before = lake.content()
    live = {key: data for key, data in before.items() if key not in _ORPHANS}
    plan = lake.plan()
    shown = lake.lakesweep("show", plan, "--files", "--verdict", "delete").lines
    assert {line["path"] for line in shown} == {lake.base + key for key in _ORPHANS}

    applied = lake.apply(plan, "--quarantine")
    assert (applied.code, applied.document["quarantined"]) == (0, len(_ORPHANS)), applied.err
    assert lake.content() == live

    restored = lake.lakesweep("quarantine", "restore", plan)
    assert (restored.code, restored.document["restored"]) == (0, len(_ORPHANS)), restored.err
    assert lake.content() == before

    applied = lake.apply(lake.plan())
    assert (applied.code, applied.document["deleted"]) == (0, len(_ORPHANS)), applied.err
    assert lake.content() == live


@pytest.mark.parametrize("cloud", ["azurite", "fake-gcs-server"], indirect=True)
def test_what_was_rewritten_since_the_plan_is_kept(lake: Lake) -> None:
    plan = lake.plan()
    lake.store.write(_ORPHANS[7], b"another content")
    applied = lake.apply(plan)
    assert (applied.document["deleted"], applied.document["changed"]) == (len(_ORPHANS) - 1, 1)
    assert lake.content()[_ORPHANS[7]] == b"another content"
