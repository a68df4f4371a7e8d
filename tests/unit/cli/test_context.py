from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from lakesweep.cli.context import Context, Settings, make_output, make_progress
from lakesweep.cli.render.output import ConsoleOutput, JsonOutput
from lakesweep.errors import ConfigError, RefusedError
from lakesweep.progress import SILENT, BarProgress, LineProgress


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def _on_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: str) -> Screen:
    screen = Screen()
    monkeypatch.setattr(sys, "stdin", Screen(answer))
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


@pytest.mark.parametrize("answer", ["y\n", "Y\n", " yes \n"])
def test_consent_on_a_terminal_goes_on(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    screen = _on_a_terminal(monkeypatch, answer)
    Context(Settings()).confirm("Delete 5 files?", yes=False)
    assert screen.getvalue() == "Delete 5 files? [y/N] "


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "ja\n", "yy\n"])
def test_anything_but_consent_is_a_refusal(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    _on_a_terminal(monkeypatch, answer)
    with pytest.raises(RefusedError, match="nothing was deleted"):
        Context(Settings()).confirm("Delete 5 files?", yes=False)


def test_consent_beforehand_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _on_a_terminal(monkeypatch, "n\n")
    Context(Settings()).confirm("Delete 5 files?", yes=True)
    assert screen.getvalue() == ""


def test_without_a_terminal_nothing_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(RefusedError, match="no terminal") as caught:
        Context(Settings()).confirm("Delete 5 files?", yes=False)
    assert "--yes" in caught.value.hint


@pytest.mark.parametrize("screen", [Screen("n\n"), io.StringIO("y\n")])
def test_a_refusal_says_what_did_not_happen(
    monkeypatch: pytest.MonkeyPatch, screen: io.StringIO
) -> None:
    _on_a_terminal(monkeypatch, "")
    monkeypatch.setattr(sys, "stdin", screen)
    with pytest.raises(RefusedError, match=r"; nothing was changed$"):
        Context(Settings()).confirm("Give up?", yes=False, refused="nothing was changed")


def test_the_configuration_named_in_the_call_is_used(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('[store]\nrealm = "mine"\n')
    assert Context(Settings(config=file)).config.store.realm == "mine"


def test_the_configuration_of_the_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lakesweep.toml").write_text('[store]\nrealm = "here"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKESWEEP_CONFIG", raising=False)
    context = Context(Settings())
    assert context.app.config.store.realm == "here"


def test_the_store_is_the_same_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lakesweep.toml").write_text("")
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    monkeypatch.delenv("LAKESWEEP_CONFIG", raising=False)
    assert Context(Settings()).app.store_url == f"sqlite:///{tmp_path}/.lakesweep/store.db"


def test_a_store_named_in_the_call_is_relative_to_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.toml"
    file.write_text('[store]\nrealm = "mine"\n')
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    context = Context(Settings(config=file))
    context.use_store("sqlite:///store.db")
    assert context.app.store_url == f"sqlite:///{tmp_path}/deep/store.db"
    assert context.app.config.store.realm == "mine"


def test_a_context_that_nobody_used_has_nothing_to_close(tmp_path: Path) -> None:
    Context(Settings(config=tmp_path / "none.toml")).close()


def test_a_wrong_configuration_stops_only_who_needs_it(tmp_path: Path) -> None:
    context = Context(Settings(config=tmp_path / "none.toml"))
    with pytest.raises(ConfigError):
        _ = context.config


def test_progress_suits_where_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(make_progress(Settings()), LineProgress)
    monkeypatch.setattr(sys, "stderr", Screen())
    assert isinstance(make_progress(Settings()), BarProgress)
    assert make_progress(Settings(quiet=True)) is SILENT


def test_output_is_for_people_unless_programs_ask() -> None:
    assert isinstance(make_output(Settings(), SILENT), ConsoleOutput)
    assert isinstance(make_output(Settings(json=True), SILENT), JsonOutput)


def test_a_configuration_that_others_can_write_is_passed_over_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "lakesweep.toml"
    file.write_text('[store]\nrealm = "theirs"\n')
    file.chmod(0o666)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKESWEEP_CONFIG", raising=False)
    assert Context(Settings()).config.store.realm == "default"
    assert f"--config {file}" in capsys.readouterr().err
    assert Context(Settings(config=file)).config.store.realm == "theirs"
