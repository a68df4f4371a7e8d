from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakesweep.config import SparkSection
from lakesweep.errors import NotFoundError, SparkJobError, SparkLostError, SparkSetupError
from lakesweep.spark.kernels import count_rows
from lakesweep.spark.session import open_session
from tests.processes import free_port
from tests.spark.conftest import CACHE, QUICK

_LAKESWEEP = str(Path(sys.executable).parent / "lakesweep")


@dataclass(frozen=True)
class Doctor:
    """Runs in a folder that holds only its configuration."""

    folder: Path

    def run(self, config: str) -> tuple[dict[str, str], str]:
        """What it found of Spark, and all that it said beside."""
        (self.folder / "lakesweep.toml").write_text(config)
        done = subprocess.run(
            [_LAKESWEEP, "doctor", "--spark", "--json"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=False,
        )
        checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
        return checks["spark"], done.stderr


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    found = Doctor(tmp_path / "stand")
    found.folder.mkdir()
    return found


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


@pytest.mark.first
def test_the_doctor_tries_spark_without_a_word_beside(doctor: Doctor) -> None:
    archives = CACHE / "lakesweep" / "spark"
    shutil.rmtree(archives, ignore_errors=True)
    conf = ", ".join(f'"{key}" = "{value}"' for key, value in QUICK.items())
    check, said = doctor.run(f'[spark]\nmaster = "local[1]"\nconf = {{ {conf} }}\n')
    assert (check["status"], said) == ("ok", ""), check
    assert [path.name for path in doctor.folder.iterdir()] == ["lakesweep.toml"]
    (archive,) = archives.iterdir()
    assert archive.suffix == ".jsa"


def test_a_driver_that_cannot_start_is_told_in_one_line(doctor: Doctor) -> None:
    check, said = doctor.run('[spark]\nconf = { "spark.driver.memory" = "plenty" }\n')
    assert (check["status"], said) == ("fail", "")
    assert "did not start" in check["detail"]
    assert len(check["detail"].splitlines()) == 1


def test_the_settings_are_not_on_the_command_line(spark: SparkSession) -> None:
    """Other users of the machine see command lines; settings may hold secrets."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    lines = [Path(f"/proc/{child}/cmdline").read_text() for child in children]
    assert any("pyspark-shell" in line for line in lines)
    assert not any("spark.sql.session.timeZone" in line for line in lines)
