"""What a new user meets: no configuration, no store, no Java, and names that are long to type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import Done, Lakesweep


@pytest.fixture
def lakesweep(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Lakesweep:
    """Commands in an empty folder."""
    monkeypatch.delenv("LAKESWEEP_CONFIG", raising=False)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return Lakesweep(capfd)


def _configure(folder: Path, *lines: str) -> None:
    lake = folder / "lake"
    lake.mkdir()
    (lake / "file").touch()
    text = "\n".join([*lines, "[lakes.prod]", f'locations = ["{lake}"]', 'grace = "0s"'])
    file = folder / "lakesweep.toml"
    file.write_text(text)
    file.chmod(0o600)


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("runs", "none"),
        ("show", "prod"),
        ("quarantine", "list"),
        ("lakes",),
        ("store", "info"),
        ("store", "log"),
        ("realm", "list"),
        ("doctor",),
    ],
)
def test_a_command_that_only_reads_creates_no_store(
    lakesweep: Lakesweep, tmp_path: Path, words: tuple[str, ...]
) -> None:
    _configure(tmp_path)
    lakesweep(*words)
    assert not (tmp_path / ".lakesweep").exists()


def test_a_store_that_is_new_says_so(lakesweep: Lakesweep, tmp_path: Path) -> None:
    _configure(tmp_path)
    looked = lakesweep("runs", json=False)
    assert (looked.code, "there is no store yet" in looked.err) == (0, True)
    planned = lakesweep("plan", "prod", "--engine", "local", json=False)
    assert f"created a new store: {tmp_path}/.lakesweep/store.db" in planned.err


def test_no_configuration_is_said_with_where_it_was_looked_for(
    lakesweep: Lakesweep, tmp_path: Path
) -> None:
    missing = lakesweep("plan", "prod")
    assert missing.code == 6
    assert f"looked for lakesweep.toml in {tmp_path} and its parents" in missing.error["message"]
    assert "lakesweep init" in missing.error["hint"]
    assert "no configuration was found" in lakesweep("lakes", json=False).err


def test_the_engine_can_be_configured(lakesweep: Lakesweep, tmp_path: Path) -> None:
    _configure(tmp_path, 'engine = "local"')
    plan = _planned(lakesweep)
    assert plan.code == 0
    spec = lakesweep("runs", plan.document["plan"]).document["spec"]
    assert spec["engine"] == "local"


def test_a_missing_java_names_the_engine_that_needs_none(
    lakesweep: Lakesweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _configure(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    failed = _planned(lakesweep)
    assert failed.code == 2
    assert 'engine = "local"' in failed.error["hint"]


def test_lakes_are_listed_with_plan_run_waste_and_health(
    lakesweep: Lakesweep, tmp_path: Path
) -> None:
    _configure(tmp_path, 'engine = "local"')
    [lake] = lakesweep("lakes").document["lakes"]
    assert (lake["lake"], lake["health"], lake["last_plan"]) == ("prod", "new", None)
    plan = _planned(lakesweep).document
    [lake] = lakesweep("lakes").document["lakes"]
    assert (lake["health"], lake["last_run"]["kind"]) == ("ok", "plan")
    assert (lake["last_plan"]["plan"], lake["last_plan"]["state"]) == (plan["plan"], "ready")
    assert lake["last_plan"]["waste_files"] == 0
    assert "prod" in lakesweep("lakes", json=False).out


def test_a_beginning_of_the_name_of_a_plan_is_enough(lakesweep: Lakesweep, tmp_path: Path) -> None:
    _configure(tmp_path, 'engine = "local"')
    name = _planned(lakesweep).document["plan"]
    assert lakesweep("show", name[:-4]).document["plan"] == name
    assert lakesweep("show", "prod").document["plan"] == name


def _planned(lakesweep: Lakesweep) -> Done:
    return lakesweep("plan", "prod")
