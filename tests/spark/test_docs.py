"""The examples of the page about Spark run, and print what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lake import BUCKET, EngineLake
from tests.servers import S3Server
from tests.transcript import Step

_PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
_EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.fixture
def lake(tmp_path: Path, moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the engine's catalog, and its table of orders in a bucket."""
    engine = EngineLake.unpack(tmp_path / "engine")
    moto.make_bucket(BUCKET)
    for key, data in engine.objects.items():
        if key.startswith("warehouse/shop/orders/"):
            moto.boto3().put_object(Bucket=BUCKET, Key=key, Body=data)
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_run(
    spark: SparkSession, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {"__name__": "example"}
    page = _PAGE.read_text().replace("/srv/catalog.db", f"{lake}/engine/catalog.db")
    examples = _EXAMPLE.findall(page)
    assert len(examples) == 5
    for code, expected in examples:
        exec(compile(code, _PAGE, "exec", dont_inherit=True), names)
        printed = capsys.readouterr().out
        assert Step(code, expected.rstrip(), 0).matches(printed), printed
