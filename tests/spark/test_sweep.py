"""Plans and checks on Spark: the same rows as in one process, and the whole command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakesweep.config import IcebergCatalogRoot, LakeSection
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.engine.spark_engine import SparkSweepEngine
from lakesweep.sweep.judge.live_set import MatchMode
from tests.e2e.test_plan_commands import orphans, write_config
from tests.lake import BUCKET, EngineLake
from tests.planned import Desk, rows_of
from tests.servers import moto_server
from tests.unit.sweep.engine.test_local_engine import SAID, SEEN, said, see

_CALL = pa.schema([("call", pa.int64())])


def _one_row_a_call(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    assert sum(batch.num_rows for batch in batches) > 0
    yield pa.RecordBatch.from_pydict({"call": [1]}, schema=_CALL)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> EngineLake:
    """The engine's lake in a folder; one file of a table is gone."""
    lake = EngineLake.unpack(tmp_path_factory.mktemp("lake"))
    gone = min(path for kind, path in lake.table("lake.shop.t1").referenced() if kind == "data")
    (lake.bucket / gone.removeprefix("s3://lake/")).unlink()
    return lake


@pytest.fixture
def desk(lake: EngineLake, tmp_path: Path) -> Desk:
    stores = Stores(replace={"s3://lake": LocalStore(str(lake.bucket), "s3://lake/")})
    root = IcebergCatalogRoot(
        type="iceberg-catalog", name="lake", properties={"type": "sql", "uri": lake.catalog_uri}
    )
    # What metadata files alone are known of is unreferenced here: there is more to go.
    section = LakeSection(locations=("s3://lake",), roots=(root,), unknown="delete")
    return Desk(stores, section, plans=str(tmp_path / "plans"))


@pytest.fixture
def engine(desk: Desk, spark: SparkSession) -> SparkSweepEngine:
    return SparkSweepEngine(spark, ExecutorAccess(desk.stores, parts=3))


def as_if_large(engine: SparkSweepEngine) -> SparkSweepEngine:
    """Leaves to Spark what is done in memory where there is little of it."""
    return replace(engine, few_rows=0, few_pointers=0, few_live=0)


@pytest.mark.parametrize("mode", [MatchMode.EXACT, MatchMode.BLOOM])
def test_both_engines_give_the_same_verdicts(
    desk: Desk, engine: SparkSweepEngine, mode: MatchMode
) -> None:
    def key(row: dict[str, object]) -> str:
        return str(row["path"])

    local, spark = desk.plan(mode=mode), desk.plan(engine, mode=mode)
    assert sorted(rows_of(spark), key=key) == sorted(rows_of(local), key=key)
    assert spark.document.totals == local.document.totals
    assert spark.document.tables == local.document.tables


def test_what_spark_joins_is_judged_the_same(desk: Desk, engine: SparkSweepEngine) -> None:
    small, large = desk.plan(engine), desk.plan(as_if_large(engine))
    assert large.document.totals == small.document.totals
    assert large.document.tables == small.document.tables


def test_both_engines_miss_the_same_files(desk: Desk, engine: SparkSweepEngine) -> None:
    survey = desk.survey()
    local, spark = desk.check(survey), desk.check(survey, engine)
    assert desk.rows(spark.missing) == desk.rows(local.missing)
    assert (spark.files, spark.outside, spark.gaps) == (local.files, local.outside, local.gaps)
    assert [gap.table for gap in spark.gaps] == ["lake.shop.t1"]


def test_both_engines_pair_files_with_what_is_said_of_them(
    desk: Desk, engine: SparkSweepEngine
) -> None:
    files = desk.survey().listing
    some = (said(batch.slice(1), "old") for batch in read_dataset(desk.stores, files))
    rules = write_dataset(desk.stores, f"{desk.plans}/rules", SAID, some)

    local, spark = (
        one.pair(see, files, rules, ["rule"], SEEN)
        for one in (LocalSweepEngine(desk.stores), engine)
    )

    assert 0 < local["rule"].null_count < local.num_rows
    assert spark.sort_by("path").equals(local.sort_by("path").combine_chunks())


def test_a_step_is_called_no_oftener_than_it_may_be(desk: Desk, engine: SparkSweepEngine) -> None:
    listing = desk.survey().listing
    for most in (1, 2):
        called = engine.gather(_one_row_a_call, listing, _CALL, most_calls=most)
        assert called.to_pydict() == {"call": [1] * most}


def test_the_command_plans_on_spark_and_says_nothing_of_it(tmp_path: Path) -> None:
    lake = EngineLake.unpack(tmp_path / "engine")
    with moto_server() as server:
        server.make_bucket(BUCKET)
        lake.fill(S3Store(BUCKET, server.options()))
        config = write_config(tmp_path, server, lake)
        config.write_text(config.read_text() + '\n[spark]\nmaster = "local[2]"\n')
        command = str(Path(sys.executable).with_name("lakesweep"))
        done = subprocess.run(
            [command, "-q", "plan", "prod", "--grace", "0s", "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        plan = json.loads(done.stdout)
        assert plan["spec"]["engine"] == "spark"
        shown = subprocess.run(
            [command, "-q", "show", plan["plan"], "--verdict", "delete", "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    assert {json.loads(line)["path"] for line in shown.stdout.splitlines()} == orphans(lake)
