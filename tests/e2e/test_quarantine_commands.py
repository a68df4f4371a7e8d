"""Files that a plan sets aside come back as they were, or go for good."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.config.file import load_config
from tests.command import Lakesweep
from tests.lake import EngineLake
from tests.servers import S3Server


@pytest.fixture
def lakesweep(
    tmp_path: Path,
    engine: EngineLake,
    moto: S3Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Lakesweep:
    """A command line with the engine's lake in a bucket."""
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    bucket = moto.make_bucket(f"quarantine-{os.urandom(4).hex()}")
    client = moto.boto3()
    wanted = ("warehouse/shop/orders/", "warehouse/shop/dropped/")
    for key, data in engine.objects.items():
        if key.startswith(wanted):
            client.put_object(Bucket=bucket, Key=key, Body=data)
    config = tmp_path / "lakesweep.toml"
    config.write_text(
        f"""
[lakes.prod]
locations = ["s3://{bucket}"]
grace = "0s"
plans = "{tmp_path}/plans"
"""
    )
    monkeypatch.chdir(tmp_path)
    return Lakesweep(capsys, config)


def _plan(lakesweep: Lakesweep) -> str:
    assert lakesweep.config is not None
    [location] = load_config(lakesweep.config, {}).lakes["prod"].locations
    tables = (f"{location}/warehouse/shop/{name}" for name in ("orders", "dropped"))
    named = [word for table in tables for word in ("--override", f"unlisted-table={table}")]
    done = lakesweep("plan", "prod", "--engine", "local", *named)
    assert done.code == 0, done.err
    return str(done.document["plan"])


def _paths(lakesweep: Lakesweep, plan: str) -> set[str]:
    done = lakesweep("show", plan, "--files", "--verdict", "delete")
    return {line["path"] for line in done.lines}


def _apply(lakesweep: Lakesweep, plan: str, *words: str) -> dict[str, object]:
    guards = ("first-run", "grace", "zero-live", "share")
    overrides = [word for guard in guards for word in ("--override", guard)]
    done = lakesweep("apply", plan, "--engine", "local", "--yes", *overrides, *words)
    assert done.code == 0, done.err
    # What can be undone says how.
    hint = f"try: lakesweep quarantine restore {done.document['plan']}"
    assert (hint in done.err) == bool(done.document["quarantined"])
    return done.document


def _stored(lakesweep: Lakesweep) -> set[tuple[str, int]]:
    bucket = lakesweep("show", "prod").document["locations"][0]
    done = lakesweep("files", "list", bucket)
    files = {(line["path"], line["size_bytes"]) for line in done.lines}
    # A restore leaves a mark, which refuses plans that are older.
    return {each for each in files if not each[0].endswith("/_lakesweep/restored")}


def test_a_lake_stands_for_what_it_set_aside_last_and_a_beginning_for_a_plan(
    lakesweep: Lakesweep,
) -> None:
    plan = _plan(lakesweep)
    before = _stored(lakesweep)
    count = _apply(lakesweep, plan, "--quarantine")["quarantined"]
    assert lakesweep("quarantine", "restore", "plan-x").code == 6
    back = lakesweep("quarantine", "restore", "prod").document
    assert (back["plan"], back["restored"]) == (plan, count)
    assert _stored(lakesweep) == before
    again = lakesweep("quarantine", "restore", plan[:-3]).document
    assert again["plan"] == plan


def test_what_was_set_aside_comes_back_as_it_was(lakesweep: Lakesweep) -> None:
    plan = _plan(lakesweep)
    before = _stored(lakesweep)
    doomed = _paths(lakesweep, plan)
    assert doomed
    applied = _apply(lakesweep, plan, "--quarantine")
    assert (applied["quarantined"], applied["deleted"]) == (len(doomed), 0)
    assert not doomed & {path for path, _ in _stored(lakesweep)}
    (held,) = lakesweep("quarantine", "list").document["held"]
    assert (held["plan"], held["files"], held["emptied_by"]) == (plan, len(doomed), None)
    restored = lakesweep("quarantine", "restore", plan)
    assert (restored.code, restored.document["restored"]) == (0, len(doomed))
    (held,) = lakesweep("quarantine", "list").document["held"]
    assert (held["files"], held["size_bytes"], held["restored"]) == (0, 0, len(doomed))
    assert _stored(lakesweep) == before


def test_a_change_of_the_configuration_hides_nothing(lakesweep: Lakesweep, tmp_path: Path) -> None:
    config = tmp_path / "lakesweep.toml"
    plan = _plan(lakesweep)
    before = _stored(lakesweep)
    _apply(lakesweep, plan, "--quarantine")
    text = config.read_text()
    config.write_text(text + 'quarantine = "s3://elsewhere/quarantine"\n')
    assert lakesweep("quarantine", "restore", plan).code == 0
    config.write_text(text)
    assert _stored(lakesweep) == before


def test_one_file_comes_back_alone(lakesweep: Lakesweep) -> None:
    plan = _plan(lakesweep)
    one, *_ = sorted(_paths(lakesweep, plan))
    _apply(lakesweep, plan, "--quarantine")
    restored = lakesweep("quarantine", "restore", plan, "--path", one)
    assert restored.document["found"] == 1
    assert one in {path for path, _ in _stored(lakesweep)}


def test_a_path_that_was_not_set_aside_is_not_found(lakesweep: Lakesweep) -> None:
    plan = _plan(lakesweep)
    _apply(lakesweep, plan, "--quarantine")
    assert lakesweep("quarantine", "restore", plan, "--path", "s3://lake/typo").code == 6


def test_what_is_emptied_is_gone_for_good(lakesweep: Lakesweep) -> None:
    plan = _plan(lakesweep)
    doomed = _paths(lakesweep, plan)
    _apply(lakesweep, plan, "--quarantine")
    looked = lakesweep("quarantine", "empty", plan, "--dry-run")
    assert (looked.code, looked.document["files"]) == (0, len(doomed))
    assert lakesweep("quarantine", "empty", plan).code == 3  # nobody is there to ask
    emptied = lakesweep("quarantine", "empty", plan, "--engine", "local", "--yes")
    assert (emptied.code, emptied.document["deleted"]) == (0, len(doomed))
    again = lakesweep("quarantine", "restore", plan)
    assert (again.code, again.document["absent"]) == (4, len(doomed))
    (held,) = lakesweep("quarantine", "list").document["held"]
    assert held["emptied_by"]


def _roots(tmp_path: Path, text: str) -> None:
    config = tmp_path / "lakesweep.toml"
    config.write_text(f"{config.read_text()}\n{text}\n")


def test_what_is_referenced_by_now_is_not_emptied(lakesweep: Lakesweep, tmp_path: Path) -> None:
    plan = _plan(lakesweep)
    one, *others = sorted(_paths(lakesweep, plan))
    _apply(lakesweep, plan, "--quarantine")
    (tmp_path / "pins.txt").write_text(f"{one}\n")
    _roots(tmp_path, f"""roots = [{{type = "pinned", file = "{tmp_path}/pins.txt"}}]""")

    emptied = lakesweep("quarantine", "empty", plan, "--engine", "local", "--yes")

    assert (emptied.code, emptied.document["deleted"]) == (4, len(others))
    assert (emptied.document["referenced"], emptied.document["referenced_files"]) == (1, [one])
    told = f"lakesweep quarantine restore {plan} --path {one}"
    assert f"try: {told}" in emptied.err
    (held,) = lakesweep("quarantine", "list").document["held"]
    assert (held["files"], held["emptied_by"]) == (1, None)
    assert lakesweep(*told.split()[1:]).code == 0
    assert one in {path for path, _ in _stored(lakesweep)}
    assert lakesweep("quarantine", "empty", plan, "--engine", "local", "--yes").code == 0


def test_a_root_that_cannot_be_read_keeps_a_hold_from_ending(
    lakesweep: Lakesweep, tmp_path: Path
) -> None:
    plan = _plan(lakesweep)
    doomed = _paths(lakesweep, plan)
    _apply(lakesweep, plan, "--quarantine")
    _roots(tmp_path, f"""roots = [{{type = "pinned", file = "{tmp_path}/gone.txt"}}]""")
    emptied = lakesweep("quarantine", "empty", plan, "--engine", "local", "--yes")
    assert emptied.code == 4
    assert "gone.txt" in emptied.error["message"]
    assert lakesweep("quarantine", "restore", plan).document["restored"] == len(doomed)


def test_a_lake_that_is_not_configured_any_more_is_emptied_on_a_word(
    lakesweep: Lakesweep, tmp_path: Path
) -> None:
    plan = _plan(lakesweep)
    one, *others = sorted(_paths(lakesweep, plan))
    _apply(lakesweep, plan, "--quarantine")
    (tmp_path / "pins.txt").write_text(f"{one}\n")
    (tmp_path / "lakesweep.toml").write_text(
        f"""
[lakes.other]
locations = ["s3://elsewhere"]
roots = [{{type = "pinned", file = "{tmp_path}/pins.txt"}}]
"""
    )
    words = ("quarantine", "empty", plan, "--engine", "local", "--yes")
    refused = lakesweep(*words)
    assert refused.code == 3
    assert "lake prod is no longer configured" in refused.error["message"]
    assert refused.error["hint"].endswith("configure the lake or the repository again")
    emptied = lakesweep(*words, "--override", "lake-gone")  # what is still a root counts
    assert (emptied.code, emptied.document["deleted"]) == (4, len(others))
    assert lakesweep("quarantine", "restore", plan, "--path", one).code == 0


def test_a_key_that_is_taken_again_is_left_alone(lakesweep: Lakesweep, moto: S3Server) -> None:
    plan = _plan(lakesweep)
    one, *_ = sorted(_paths(lakesweep, plan))
    _apply(lakesweep, plan, "--quarantine")
    bucket, _, key = one.removeprefix("s3://").partition("/")
    moto.boto3().put_object(Bucket=bucket, Key=key, Body=b"another")
    restored = lakesweep("quarantine", "restore", plan)
    assert (restored.code, restored.document["failed"]) == (4, 1)
    assert moto.boto3().get_object(Bucket=bucket, Key=key)["Body"].read() == b"another"


def test_the_name_of_a_lake_stands_for_its_newest_plan(lakesweep: Lakesweep) -> None:
    _plan(lakesweep)
    plan = _plan(lakesweep)
    assert _apply(lakesweep, "prod", "--quarantine")["plan"] == plan
    (held,) = lakesweep("quarantine", "list").document["held"]
    assert (held["plan"], "." in held["since"]) == (plan, False)


def test_a_dry_run_tells_all_that_an_apply_tells(lakesweep: Lakesweep) -> None:
    plan = _plan(lakesweep)
    looked = _apply(lakesweep, plan, "--dry-run")
    assert (looked["found"], looked["deleted"]) == (len(_paths(lakesweep, plan)), 0)
    assert lakesweep("quarantine", "list").document == {"held": []}
    applied = _apply(lakesweep, plan)
    assert applied.keys() == looked.keys()
    assert lakesweep("apply", plan, "--dry-run").code == 3  # it was applied


def test_names_that_set_nothing_aside_are_not_found(lakesweep: Lakesweep) -> None:
    plan = _plan(lakesweep)
    for words in (("restore", plan), ("empty", plan, "--yes"), ("restore", "nonsense")):
        done = lakesweep("quarantine", *words)
        assert done.code == 6
        assert done.error["hint"] == "lakesweep quarantine list shows what is held"
