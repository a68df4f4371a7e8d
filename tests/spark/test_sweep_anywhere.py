"""The same plans and the same deletes on a cluster and over Spark Connect as in one process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakesweep.storage.s3.store import S3Store
from lakesweep.units import format_size
from tests.command import Lakesweep
from tests.e2e.conftest import stored
from tests.e2e.test_plan_commands import write_config
from tests.lake import BUCKET, EngineLake
from tests.planned import rows_of
from tests.process_tree import await_that, descendants
from tests.servers import S3Server, moto_server
from tests.spark.conftest import on_cluster
from tests.spark.installed import Installed, talk

_PLANS = "plans"
_NOW = ("--grace", "0s", "--override", "first-run", "--override", "grace")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with moto_server() as server:
        server.make_bucket(BUCKET)
        server.make_bucket(_PLANS)
        yield server


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> EngineLake:
    return EngineLake.unpack(tmp_path_factory.mktemp("engine"))


@pytest.fixture
def installed(server: S3Server, lake: EngineLake, tmp_path: Path) -> Installed:
    """The engine's lake in a bucket, its plans in another: executors share no folder with us."""
    store = S3Store(BUCKET, server.options())
    for address in {f"s3://{BUCKET}/{key}" for key in lake.objects} - stored(server):
        key = address.removeprefix(f"s3://{BUCKET}/")
        store.write(key, lake.objects[key])
    config = write_config(tmp_path, server, lake)
    text = config.read_text()
    access = text.partition("\n[lakes")[0].replace(f"s3://{BUCKET}", f"s3://{_PLANS}")
    plans = f'plans = "s3://{_PLANS}/{tmp_path.name}"\nunknown'
    config.write_text(f"{access}\n{text.replace('unknown', plans)}")
    return Installed(config)


@pytest.fixture
def local(installed: Installed, capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The rows of a plan that was made in this process, of the same files."""
    done = Lakesweep(capfd, installed.config)("plan", "prod", *_NOW, "--engine", "local")
    return rows(installed, done.document["plan"])


def rows(installed: Installed, plan: str) -> list[dict[str, Any]]:
    return sorted(rows_of(installed.plan(plan)), key=lambda row: str(row["path"]))


def check_sweep(installed: Installed, server: S3Server, plan: str) -> None:
    """Apply a plan: what it says goes, nothing else, and the command says no word too much."""
    before = stored(server)
    planned = {row["path"] for row in rows(installed, plan) if row["verdict"] == "delete"}
    done = installed("apply", plan, "--yes", "--json")
    assert (done.code, talk(done)) == (0, [f"plan {plan} of lake prod: {goes(installed, plan)}"])
    assert done.document["found"] == done.document["deleted"] == len(planned) > 0
    assert before - stored(server) == planned


def goes(installed: Installed, plan: str) -> str:
    amount = installed.plan(plan).document.amount("delete")
    return f"{amount.files} files, {format_size(amount.bytes)} to delete"


def test_a_cluster_plans_and_applies_as_one_process_does_though_an_executor_is_killed(
    installed: Installed, local: list[dict[str, Any]], server: S3Server, cluster: str
) -> None:
    installed.use(master=cluster, conf=on_cluster())
    before = marks(server)
    with installed.start("plan", "prod", *_NOW, "--exact", "--json") as process:
        await_that(lambda: bool(marks(server) - before), "marking")
        os.kill(max(descendants(os.getpid(), "CoarseGrainedExecutorBackend")), signal.SIGKILL)
        done = process.finish()
    plan = done.document["plan"]
    summary, *hints = talk(done)
    assert summary.startswith(f"{plan}: {goes(installed, plan)}; ")
    assert hints == [
        f"try: lakesweep show {plan} --verdict delete",
        f"try: lakesweep apply {plan}",
    ]
    assert done.code == 0
    assert rows(installed, plan) == local
    check_sweep(installed, server, plan)


def test_spark_connect_plans_and_applies_as_one_process_does(
    installed: Installed, local: list[dict[str, Any]], server: S3Server, connect_server: str
) -> None:
    installed.use(remote=connect_server)
    done = installed("-q", "plan", "prod", *_NOW, "--bloom", "--json")
    assert (done.code, done.err) == (0, "")
    assert rows(installed, done.document["plan"]) == local
    check_sweep(installed, server, done.document["plan"])


def marks(server: S3Server) -> set[str]:
    """The files of marks that all plans together have."""
    pages = server.boto3().get_paginator("list_objects_v2").paginate(Bucket=_PLANS)
    keys = {entry["Key"] for page in pages for entry in page.get("Contents", ())}
    return {key for key in keys if "/marks/" in key}
