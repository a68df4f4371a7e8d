from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakesweep.config import SparkSection
from lakesweep.errors import NotFoundError, SparkJobError, SparkLostError, SparkSetupError
from lakesweep.spark.session import open_session
from lakesweep.spark.trial import count_rows
from tests.processes import free_port

_LAKESWEEP = str(Path(sys.executable).parent / "lakesweep")


def lakesweep(folder: Path, config: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder that holds only its configuration."""
    (folder / "lakesweep.toml").write_text(config)
    return subprocess.run(
        [_LAKESWEEP, *words], capture_output=True, text=True, cwd=folder, check=False
    )


def test_a_session_that_is_given_is_left_alone(spark: SparkSession) -> None:
    with open_session(SparkSection(remote="sc://nowhere"), given=spark) as session:
        assert session is spark
    assert count_rows(spark, 10) == 10


def test_a_second_session_in_one_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SparkSetupError, match="already"), open_session(SparkSection()):
        pass
    assert count_rows(spark, 10) == 10


def test_what_fails_in_the_block_comes_out_as_our_error(spark: SparkSession) -> None:
    with (
        pytest.raises(SparkJobError, match="TABLE_OR_VIEW_NOT_FOUND"),
        open_session(SparkSection(), given=spark) as session,
    ):
        session.sql("select * from nowhere")


def test_errors_of_the_block_itself_pass(spark: SparkSession) -> None:
    with pytest.raises(NotFoundError), open_session(SparkSection(), given=spark):
        raise NotFoundError("nothing to do with Spark")


@pytest.mark.parametrize("address", [{"remote": "sc://{}"}, {"master": "spark://{},{}"}])
def test_a_server_that_does_not_answer_is_found_out_at_once(address: dict[str, str]) -> None:
    place = f"127.0.0.1:{free_port()}"
    section = SparkSection.model_validate(
        {key: value.format(place, place) for key, value in address.items()}
    )
    with pytest.raises(SparkLostError, match=f"nothing answers at {place}"), open_session(section):
        pass


def test_the_doctor_tries_spark_without_a_word_beside(tmp_path: Path) -> None:
    config = '[spark]\nmaster = "local[1]"\nconf = { "spark.driver.memory" = "512m" }\n'
    done = lakesweep(tmp_path, config, "doctor", "--spark", "--json")
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["spark"]["status"] == "ok", checks["spark"]
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["lakesweep.toml"]


def test_a_driver_that_cannot_start_is_told_in_one_line(tmp_path: Path) -> None:
    config = '[spark]\nconf = { "spark.driver.memory" = "plenty" }\n'
    done = lakesweep(tmp_path, config, "doctor", "--spark", "--json")
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["spark"]["status"] == "fail"
    assert "did not start" in checks["spark"]["detail"]
    assert "Traceback" not in done.stderr


def test_the_settings_are_not_on_the_command_line(spark: SparkSession) -> None:
    """Other users of the machine see command lines; settings may hold secrets."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    lines = [Path(f"/proc/{child}/cmdline").read_text() for child in children]
    assert any("pyspark-shell" in line for line in lines)
    assert not any("spark.sql.session.timeZone" in line for line in lines)
