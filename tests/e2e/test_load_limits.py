"""Limits of the configuration hold for what a server counts, and runs record what they used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import Lakesweep
from tests.counting_proxy import counting, rate_of
from tests.e2e.test_plan_commands import write_config
from tests.lake import EngineLake
from tests.rest_catalog import RestCatalogServer, rest_catalog
from tests.servers import S3Server

#: A server counts when requests arrive, which may be a little later than they were sent.
_SLACK = 1.5


@pytest.fixture
def lakesweep(capsys: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capsys)


def test_a_plan_keeps_to_the_limits_of_a_bucket_and_records_its_load(
    bucket: S3Server, engine: EngineLake, tmp_path: Path, lakesweep: Lakesweep
) -> None:
    with counting(bucket, delay=0.01) as (server, counts):
        lakesweep.config = write_config(tmp_path, server, engine)
        text = lakesweep.config.read_text()
        limits = "requests_per_second = 60\nmax_connections = 2"
        lakesweep.config.write_text(
            text.replace("secret_access_key", f"{limits}\nsecret_access_key")
        )
        planned = lakesweep("plan", "prod", "--engine", "local")
    assert planned.code == 0, planned.err
    assert counts.rate() <= 60 * _SLACK
    assert counts.most_in_flight == 2

    load = lakesweep("runs", planned.document["plan"]).document["figures"]["load"]
    # The first listing of a server also looks at a key, to learn how it spells them.
    assert len(counts.times) - sum(load["requests"].values()) in (0, 1)
    assert {"list", "read"} <= load["requests"].keys()
    assert 0 < load["bytes_read"] < counts.sent_bytes
    assert load["catalog_requests"] > 0
    assert load["throttled_seconds"] > 0
    assert "load requests read" in lakesweep("runs", planned.document["plan"], json=False).out


def test_bytes_a_second_hold_reading(
    bucket: S3Server, engine: EngineLake, tmp_path: Path, lakesweep: Lakesweep
) -> None:
    with counting(bucket) as (server, counts):
        lakesweep.config = write_config(tmp_path, server, engine)
        text = lakesweep.config.read_text()
        lakesweep.config.write_text(
            text.replace("secret_access_key", "bytes_per_second = 400_000\nsecret_access_key")
        )
        planned = lakesweep("plan", "prod", "--engine", "local")
    load = lakesweep("runs", planned.document["plan"]).document["figures"]["load"]
    took = max(counts.times) - min(counts.times)
    assert load["bytes_read"] / 400_000 <= took + 1


def test_catalogs_are_asked_at_their_rate(
    engine: EngineLake, tmp_path: Path, lakesweep: Lakesweep
) -> None:
    (tmp_path / "lake").mkdir()
    tables: dict[tuple[str, ...], str] = {
        ("shop", f"t{number}"): f"{tmp_path}/lake/{number}.metadata.json" for number in range(9)
    }
    with rest_catalog(RestCatalogServer(tables)) as server:
        lakesweep.config = tmp_path / "lakesweep.toml"
        lakesweep.config.write_text(
            f"""
[lakes.prod]
locations = ["{tmp_path}/lake"]
[[lakes.prod.roots]]
type = "iceberg-catalog"
name = "rest"
catalog_requests_per_second = 20
properties = {json.dumps({"type": "rest", "uri": server.uri}).replace(": ", " = ")}
"""
        )
        planned = lakesweep("plan", "prod", "--engine", "local")
    assert planned.code == 4, planned.err  # none of the tables has its metadata
    assert len(server.asked) > 10
    assert rate_of(server.asked) <= 20 * _SLACK
    load = lakesweep("runs", planned.document["plan"]).document["figures"]["load"]
    assert load["catalog_requests"] in (len(server.asked), len(server.asked) + 1)
