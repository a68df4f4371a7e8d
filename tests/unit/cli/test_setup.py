from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lakesweep.cli.main import run
from lakesweep.config import Config
from lakesweep.config.file import load_config, parse_config
from lakesweep.operations.setup.configuration import TEMPLATE

Capture = pytest.CaptureFixture[str]
_SETTINGS = re.compile(r"^# (?=[\[}\w])(?=.*[=\]])", re.MULTILINE)


def test_the_file_means_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "lakesweep.toml"
    assert run(["init", "--output", str(file)]) == 0
    config = load_config(file, {})
    assert config.store == Config().store
    assert config.lakes == {}


def test_every_comment_that_shows_a_setting_is_right() -> None:
    text = _SETTINGS.sub("", TEMPLATE)
    secrets = {
        "LAKE_KEY_ID": "a",
        "LAKE_SECRET": "b",
        "CATALOG_TOKEN": "c",
        "LAKESWEEP_WEBHOOK_SECRET": "long enough",
    }
    config = parse_config(text, Path("lakesweep.toml"), secrets)
    assert config.storage["s3://lake"].secret_access_key == "b"
    assert [root.type for root in config.lakes["prod"].roots] == [
        "iceberg-catalog",
        "iceberg-metadata",
        "iceberg-scan",
        "lakesweep",
        "paimon-warehouse",
        "lakefs",
        "pinned",
    ]


def test_the_file_is_written_here_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == 0
    assert (tmp_path / "lakesweep.toml").read_text() == TEMPLATE


def test_a_file_that_is_there_is_kept(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "lakesweep.toml"
    file.write_text("mine")
    assert run(["init", "-o", str(file)]) == 2
    assert file.read_text() == "mine"
    assert "--force" in capsys.readouterr().err


def test_force_replaces_the_file(tmp_path: Path) -> None:
    file = tmp_path / "lakesweep.toml"
    file.write_text("mine")
    assert run(["init", "-o", str(file), "--force"]) == 0
    assert file.read_text() == TEMPLATE


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, capsys: Capture) -> None:
    assert run(["init", "-o", str(tmp_path / "none" / "x.toml")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_programs_learn_where_it_was_written(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "x.toml"
    run(["init", "-o", str(file), "--json"])
    assert json.loads(capsys.readouterr().out) == {"written": str(file)}
